/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a channel's recording, also while it is recorded: an event for each record, and for each place
 * where records are lost, missing or damaged.
 *
 * All input is untrusted. Damage inside a segment is reported once, with its place and reason. Reading
 * continues at the next block at which a valid record of this use begins. The blocks of earlier uses after
 * the last batch of a segment are no damage.
 *
 * A record is returned only if its CRC is valid. Records that a later use makes void (format.h) are not
 * returned. When following, a batch that the recorder repeats is returned once.
 *
 * The reader writes nothing and takes no lock. The recorder may reuse a segment while it is read: that is
 * reported, and the next segment is read. One thread at a time. Functions return what is documented, or
 * a negative errno, and reader_error() has a sentence.
 */
#ifndef EKR_READER_H
#define EKR_READER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "medium.h"

/* For again_ns, ns: longer than a write of a few MB takes on a medium that is not late. */
#define READER_AGAIN UINT64_C(100000000)

/*
 * A part of a recording: by sequence, by real time, or by the monotonic clock of its newest boot.
 *
 *	TIME = RFC 3339 "2026-11-21T10:00:00.5+01:00" | "now" | "-5min" (before now)
 *	     | "boot+1.5h" (since the board's start)
 *	(durations as in units.h)
 *	SEQUENCES = "A..B" | "A.." | "..B" | "A"
 */
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

enum reader_kind {
	READER_END,		/* there is nothing more; when following: for now */
	READER_RECORD,
	READER_GAP,		/* the recorder recorded that records before this one were lost */
	READER_MISSING,		/* sequences are absent, and no gap explains them */
	READER_DAMAGE,		/* a place in a segment is invalid */
	READER_TORN,		/* the last batch before a power cut was written in part */
	READER_OVERWRITTEN,	/* the segment was reused or deleted before it was read to its end */
	READER_KINDS,
};

struct reader_event {
	enum reader_kind kind;
	char file[MEDIUM_NAME];		/* the segment */
	uint64_t generation;		/* of the use */
	uint64_t offset;		/* in the file, bytes: of the record, or of the start of the damage */
	uint64_t extent;		/* bytes from there to where reading continues; 0: to the end of the use */
	uint64_t sequence;		/* of a record or gap; of missing records, the last */
	uint64_t first;			/* the first lost or missing sequence; of a gap of unknown size, its sequence */
	uint64_t monotonic_ns;		/* of a record or gap */
	int64_t realtime_ns;
	uint64_t acquired_ns;		/* of a record */
	const unsigned char *payload;	/* of a record; valid up to the next call */
	uint32_t length;
	struct ekr_gap gap;		/* of a gap */
	char reason[128];		/* of damage and of missing records, or "" */
};

struct reader_options {
	struct reader_range range;
	uint64_t rate;			/* reads at most this many bytes per second; 0: no limit */
	uint64_t again_ns;		/* time until what seems half written is read again; 0: no recorder runs */
	bool follow;			/* continue later after READER_END */
	bool from_end;			/* with follow: only what is written from now on */
	bool newest_only;		/* begin with the newest segment that has a record; not with follow */
	const volatile sig_atomic_t *stop;	/* not 0: reader_next() returns -EINTR; may be NULL */
};

/* What was returned so far. */
struct reader_counts {
	uint64_t of[READER_KINDS];	/* events of each kind */
	uint64_t payload;		/* bytes of the records' payloads */
	uint64_t lost;			/* records lost according to gaps, as far as their number is known */
	uint64_t missing;		/* sequences that are absent without a gap */
	uint64_t not_given;		/* records that were not returned, because a later use repeats them or makes them void */
	bool any;			/* there was a record; then: */
	uint64_t first_sequence, last_sequence;
	int64_t first_ns, last_ns;	/* real times */
};

/* The segments that a channel's directory holds, in the order in which they were written. */
struct reader_uses {
	struct medium_use *use;		/* as medium_judge() sorts them */
	size_t count;
};

struct reader;

/*
 * @directory: of the channel. *@reader is set on failure as well, unless there is no memory for it, for
 * reader_error(). Call reader_close() in any case.
 */
int reader_open(struct reader **reader, const char *directory, const struct reader_options *options);
int reader_next(struct reader *reader, struct reader_event *event);
void reader_close(struct reader *reader);	/* NULL is allowed */

const char *reader_error(const struct reader *reader);
const struct reader_counts *reader_counts(const struct reader *reader);
const struct reader_uses *reader_uses(const struct reader *reader);
/* The newest valid head; NULL: no segment has one. */
const struct ekr_segment_head *reader_channel(const struct reader *reader);

/*
 * After READER_END when following: nothing more of the range will be written, because a record after it was
 * seen, or its time passed some seconds ago.
 */
bool reader_over(const struct reader *reader);

/*
 * After READER_END when following: waits until something is written to the channel's directory, or it is time
 * to look without a notification, at most @timeout_ms (-1: no limit), or until @output (-1: none) is closed by its reader. 1: read
 * again; 0: not within that time; -EPIPE: @output is closed; -EINTR.
 */
int reader_wait(struct reader *reader, int timeout_ms, int output);

/* The first record of the oldest segment that has one, also outside the range. False: there is none. */
bool reader_oldest(struct reader *reader, struct ekr_record_head *head);

const char *reader_kind_name(enum reader_kind kind);
const char *reader_gap_name(uint32_t reason);

/* --- reader_text.c --- */

/* Prints an event that is no record, as a line and as a JSON object. */
void reader_tell(FILE *to, const char *channel, const struct reader_event *e);
void reader_tell_json(FILE *to, const struct reader_event *e);
/* The same as a sentence without a line feed, truncated to @room bytes with the zero. */
void reader_sentence(char *to, size_t room, const char *channel, const struct reader_event *e);

/* @now: CLOCK_REALTIME, ns. Both return NULL, or what is wrong as a phrase. */
const char *reader_parse_time(const char *text, int64_t now, struct reader_time *time);
const char *reader_parse_sequences(const char *text, struct reader_range *range);

/* RFC 3339 in UTC with nine decimals, 30 bytes and the zero; years 0000 to 9999 hold all of int64_t. */
#define READER_RFC3339	31
void reader_format_time(int64_t ns, char text[READER_RFC3339]);

#endif /* EKR_READER_H */
