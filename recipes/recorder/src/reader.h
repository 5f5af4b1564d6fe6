/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read a channel's recording, also while it is recorded: an event for each
 * record, and for all that is not there as it should be.
 *
 * All input is untrusted. Damage inside a segment is told once with where it
 * begins and why; reading goes on with the next block at which a record of this
 * use holds (batches begin at blocks). The blocks of earlier uses after the last
 * batch of a segment are no damage.
 *
 * A record that is given was whole: its CRC held. What a later use makes void
 * (format.h) is not given; when following, a batch that the recorder repeats
 * is given once.
 *
 * The reader writes nothing and takes no lock; the recorder may take a segment
 * into use anew while it is read: that is told, and the next one is read.
 * One thread at a time. Functions return what they say or a negative errno,
 * and reader_error() has a sentence.
 */
#ifndef EKR_READER_H
#define EKR_READER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "reader_head.h"
#include "reader_range.h"

/* Longer than a write of a few MB takes, if the medium is not late itself, ns: for again_ns. */
#define READER_AGAIN UINT64_C(100000000)

enum reader_kind {
	READER_END,		/* nothing more; when following: for now */
	READER_RECORD,
	READER_GAP,		/* the recorder says that records before this were lost */
	READER_MISSING,		/* sequences that are not there, and no gap says so */
	READER_DAMAGE,
	READER_TORN,		/* the last batch before a stop, written in part */
	READER_OVERWRITTEN,	/* the segment was taken into use anew before it was read to its end */
	READER_KINDS,
};

struct reader_event {
	enum reader_kind kind;
	char file[READER_NAME];		/* the segment */
	uint64_t generation;		/* of the use */
	uint64_t offset;		/* in the file: of the record, or where the damage begins */
	uint64_t extent;		/* bytes up to where reading goes on; 0: to the end of the segment's use */
	uint64_t sequence;		/* of a record or gap; the last that is missing */
	uint64_t first;			/* the first that is lost or missing; of a gap of unknown size: sequence */
	uint64_t monotonic_ns;		/* of a record or gap */
	int64_t realtime_ns;
	uint64_t acquired_ns;		/* of a record */
	const unsigned char *payload;	/* of a record; valid up to the next call */
	uint32_t length;
	struct ekr_gap gap;		/* of a gap */
	char reason[128];		/* damage, missing: why, or "" */
};

struct reader_options {
	struct reader_range range;
	uint64_t rate;			/* bytes per second that it may read; 0: no limit */
	uint64_t again_ns;		/* what seems half written is looked at again after so long; 0: nobody is recording */
	bool follow;			/* READER_END is for now: call again later */
	bool from_end;			/* only what comes after now; with follow */
	bool newest_only;		/* from the newest segment on that has a record; not with follow */
	const volatile sig_atomic_t *stop;	/* not 0: reader_next() returns -EINTR; may be NULL */
};

/* What was given so far. */
struct reader_counts {
	uint64_t of[READER_KINDS];	/* events of each kind */
	uint64_t payload;		/* bytes of the records */
	uint64_t lost;			/* records that gaps tell of, as far as they know */
	uint64_t missing;		/* sequences that nothing tells of */
	uint64_t not_given;		/* records that a later use made void, or has once more */
	bool any;			/* there was a record; then: */
	uint64_t first_sequence, last_sequence;
	int64_t first_ns, last_ns;	/* real time */
};

struct reader;

/*
 * @directory: of the channel. *@reader is set also on failure, if there is
 * memory for it, so that the sentence can be read; reader_close() it in any case.
 */
int reader_open(struct reader **reader, const char *directory, const struct reader_options *options);
int reader_next(struct reader *reader, struct reader_event *event);
void reader_close(struct reader *reader);	/* NULL is fine */

const char *reader_error(const struct reader *reader);
const struct reader_counts *reader_counts(const struct reader *reader);
const struct reader_uses *reader_uses(const struct reader *reader);
/* The newest head that holds; NULL if no segment has one. */
const struct ekr_segment_head *reader_channel(const struct reader *reader);
/* NULL, or the newest use. */
const struct reader_use *reader_newest(const struct reader *reader);

/*
 * After READER_END when following: nothing more of the range will come, because
 * what is behind it was seen, or its time has passed some seconds ago.
 */
bool reader_over(const struct reader *reader);

/*
 * After READER_END when following: waits until something is written to the channel's directory, at
 * most @timeout_ms (-1: no limit), or until @output (-1: none) is closed by its reader. 1: read
 * again; 0: not within that time; -EPIPE: @output is closed; -EINTR.
 */
int reader_wait(struct reader *reader, int timeout_ms, int output);

/* The oldest record where segments begin, also outside the range: false, there is none. */
bool reader_oldest(struct reader *reader, struct ekr_record_head *head);

const char *reader_kind_name(enum reader_kind kind);
const char *reader_gap_name(uint32_t reason);

#endif /* EKR_READER_H */
