/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a recording: by sequence, by real time, or by the monotonic clock of its newest boot.
 *
 *	TIME = RFC 3339 "2026-11-21T10:00:00.5+01:00" | "now" | "-5min" (before now)
 *	     | "boot+1.5h" (since the board's start)
 *	(durations as in units.h)
 *	SEQUENCES = "A..B" | "A.." | "..B" | "A"
 */
#ifndef EKR_READER_RANGE_H
#define EKR_READER_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct reader_time {
	bool set;
	bool monotonic;		/* on the clock of the newest boot in the recording; otherwise real time */
	int64_t ns;
};

/* Both ends are in the range. */
struct reader_range {
	struct reader_time from, to;
	uint64_t first, last;		/* sequences; 0 and UINT64_MAX: all */
};

#define READER_ALL	((struct reader_range){ .last = UINT64_MAX })

/* @now: CLOCK_REALTIME, ns. Both return NULL, or what is wrong as a phrase. */
const char *reader_parse_time(const char *text, int64_t now, struct reader_time *time);
const char *reader_parse_sequences(const char *text, struct reader_range *range);

/* RFC 3339 in UTC with nine decimals, 30 bytes and the zero; years 0000 to 9999 hold all of int64_t. */
#define READER_RFC3339	31
void reader_format_time(int64_t ns, char text[READER_RFC3339]);

#endif /* EKR_READER_RANGE_H */
