/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as CSV (RFC 4180, but lines end with a line feed alone):
 *
 *	kind,sequence,realtime,monotonic_ns,length,payload
 *
 * kind is record, or what the reader says of a place where records are not;
 * then length is the number of records that are lost or missing, if it is
 * known, and payload says why. Text payloads have `\\` for a backslash and
 * `\xNN` for each byte that is no UTF-8 or is a control character other than
 * tab and line feed, so that nothing is lost.
 */
#ifndef EKR_CSV_H
#define EKR_CSV_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "reader.h"

enum csv_payload { CSV_HEX, CSV_TEXT, CSV_NONE };

/* 0 or a negative errno */
int csv_begin(FILE *to);
int csv_event(FILE *to, enum csv_payload payload, const struct reader_event *e);

#endif /* EKR_CSV_H */
