/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as `cat` and `follow` print them.
 *
 *	payload		as it is, back to back
 *	lines		each with a line feed
 *	hex		SEQUENCE TIME HEX, a line each
 *	framed		struct reader_frame, then the payload: loses nothing
 *
 * Everything else goes to standard error as a line. A framed stream contains it, with a sentence as
 * the payload.
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
	uint64_t sequence;	/* of a gap or missing records: the last */
	uint64_t first;		/* of a gap or missing records: the first; otherwise as sequence */
	uint64_t monotonic_ns;	/* of a record or gap, otherwise 0 */
	int64_t realtime_ns;
};

/* The options of both commands; @form: an enum reader_form. */
#define READER_FORMS(form)                                                                      \
	OPTION("lines", CLI_SET, form, "print a line feed after each record",                   \
	       .least = READER_LINES),                                                          \
	OPTION("hex", CLI_SET, form,                                                            \
	       "print a line for each record: sequence, time, payload in hex",                  \
	       .least = READER_HEX),                                                            \
	OPTION("framed", CLI_SET, form,                                                         \
	       "print each record after a head with its length, sequence and times",            \
	       .least = READER_FRAMED)

/* Prints what reader_next() returned. 0 or a negative errno. */
int reader_out(FILE *to, enum reader_form form, const char *channel, const struct reader_event *e);

#endif /* EKR_READER_OUT_H */
