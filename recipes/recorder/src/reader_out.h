/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as `cat` and `follow` print them.
 *
 *	payload		as it is, back to back
 *	lines		each with a line feed
 *	hex		SEQUENCE TIME HEX, a line each
 *	framed		struct reader_frame, then the payload: loses nothing
 *
 * What is no record goes to standard error as a line; framed it is in the
 * stream, its words as the payload.
 */
#ifndef EKR_READER_OUT_H
#define EKR_READER_OUT_H

#include <stdint.h>
#include <stdio.h>

#include "reader.h"
#include "reader_cli.h"

enum reader_form { READER_PAYLOAD, READER_LINES, READER_HEX, READER_FRAMED };

/* Before each payload, little-endian. */
struct reader_frame {
	uint32_t length;	/* of the payload, bytes */
	uint32_t kind;		/* enum reader_kind */
	uint64_t sequence;	/* of a gap, or what is missing: the last */
	uint64_t first;		/* of a gap, or what is missing: the first; else as sequence */
	uint64_t monotonic_ns;	/* of a record or gap, else 0 */
	int64_t realtime_ns;
};

/* Own options of both commands and their help; `to` is an enum reader_form. */
extern const struct option reader_out_options[];
extern const char reader_out_help[];
const char *reader_out_set(void *to, int option, const char *value);

/* Prints what reader_next() gave. 0 or a negative errno. */
int reader_out(FILE *to, enum reader_form form, const char *channel, const struct reader_event *e);

#endif /* EKR_READER_OUT_H */
