/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as CSV (RFC 4180, except that lines end with a line feed alone):
 *
 *	kind,sequence,realtime,monotonic_ns,acquired_ns,length,payload
 *
 * The kind is that of the event (reader.h). If the event is no record, the length is the number of lost or
 * missing records, if it is known, and the payload is the reason. Text payloads have `\\` for a backslash,
 * and `\xNN` for each byte that is not valid UTF-8 or is a control character other than tab and line feed.
 * So no byte is lost.
 */
#ifndef EKR_CSV_H
#define EKR_CSV_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "reader.h"

enum csv_payload { CSV_HEX, CSV_TEXT, CSV_NONE };

/* Both return 0 or a negative errno. */
int csv_begin(FILE *to);
int csv_event(FILE *to, enum csv_payload payload, const struct reader_event *e);

#endif /* EKR_CSV_H */
