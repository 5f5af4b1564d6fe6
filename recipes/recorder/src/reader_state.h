/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a reader share: reader.c (events), reader_scope.c (ranges), reader_follow.c. */
#ifndef EKR_READER_STATE_H
#define EKR_READER_STATE_H

#include <time.h>

#include "error.h"
#include "reader.h"
#include "reader_file.h"

struct reader {
	struct reader_options options;
	char *path;		/* of the channel's directory */
	int dir;		/* its descriptor */
	int notify;		/* inotify: something was written there; -1: none */
	struct reader_pace pace;
	struct reader_file file;	/* the segment that is read */
	struct reader_file heads;	/* for a look at heads meanwhile */
	struct reader_uses uses;
	size_t next;		/* in uses: the one to read after this one */
	size_t begin;		/* with newest_only: the one that reading began with */
	struct medium_use use;	/* that is read, if `open` */
	struct medium_walk walk;	/* through its records */
	uint64_t seen;		/* generation of the last use that was read or passed over */
	bool open;		/* there is a use that is read */
	bool told_head;		/* the damage of the next use's head was reported */
	bool waiting;		/* at the end of the newest use, when following */
	bool silent;		/* passing over what was there before */
	unsigned int polls;	/* at the end, since all heads were read */
	uint64_t listed_ns;	/* when they were read; CLOCK_MONOTONIC */
	struct timespec changed;	/* mtime of the directory before that */
	uint8_t boot[16];	/* the newest boot: whose monotonic clock a range means */

	uint64_t before_first;	/* first_sequence of the use before */
	bool repeats;		/* what this use begins with was returned already */

	bool any;		/* there was a record, of all uses; then: */
	uint64_t last;		/* its sequence */
	bool before, after;	/* it is older than the range; younger */
	bool past;		/* what was seen last is at the end of the range, or after it */
	const char *because;	/* why sequences may be missing before the next record */

	struct reader_event held;	/* follows the one that was returned */
	bool holding;
	struct reader_counts counts;
	struct error error;
};

static inline bool reader_stopping(const struct reader *r)
{
	return r->options.stop && *r->options.stop;
}

/* --- reader_scope.c: which uses and records are in the range ------------------------------- */

/* Both uses began in the same boot. */
bool scope_same_boot(const struct medium_use *a, const struct medium_use *b);
/* No record of use @i is in the range, because all precede it. */
bool scope_outside(struct reader *r, size_t i);
/* The same, because all follow it. */
bool scope_behind(struct reader *r, size_t i);
bool scope_too_old(const struct reader *r, const struct ekr_record_head *h);
bool scope_too_young(const struct reader *r, const struct ekr_record_head *h);
bool scope_inside(const struct reader *r, const struct medium_record *record);
/*
 * Sequences between the last record and this one that are not there and that no gap reports:
 * @from..@to of them are in the range. Their times are between those of the two records, so all may be
 * in a range of times, or none is.
 */
bool scope_missing(const struct reader *r, const struct medium_record *record, uint64_t *from,
		   uint64_t *to);
/* The first record of a use that is no gap. *@first: the first sequence that the use accounts for. */
bool scope_first_record(struct reader *r, const struct medium_use *u, struct ekr_record_head *h,
			uint64_t *first);

/* --- reader_follow.c: what the recorder does meanwhile -------------------------------------- */

/* Begins to watch the directory, if the reader follows. */
void follow_watch(struct reader *r);
/* Reads all heads. */
int follow_list(struct reader *r, struct reader_uses *uses, uint64_t seen);
/* Sets `boot` from the heads. */
void follow_find_boot(struct reader *r);
/* 1: a newer use has begun; 0: none has; or a negative errno. */
int follow_newer_use(struct reader *r);
/* 1: the channel's path leads to another directory, which is open now; 0: it does not; or a negative errno. */
int follow_directory(struct reader *r);
/* The head of the use that is read has changed: the recorder reuses the segment. */
bool follow_recycled(struct reader *r);

#endif
