/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a reader share: reader.c (events), reader_scope.c (ranges), reader_follow.c. */
#ifndef EKR_READER_STATE_H
#define EKR_READER_STATE_H

#include <time.h>

#include "error.h"
#include "reader.h"

/* Bytes that are read at a time. */
#define READER_AHEAD	(256u << 10)

/* How fast all files of a reader together may be read. */
struct reader_pace {
	uint64_t rate;		/* bytes per second; 0: no limit */
	uint64_t due_ns;	/* when the next read may begin, CLOCK_MONOTONIC */
	uint64_t again_ns;	/* between two looks at what may be in the middle of being written; 0: look once */
};

struct reader_file {
	struct medium_bytes bytes;
	int fd;			/* -1: none is open */
	bool direct;		/* past the page cache */
	struct reader_pace *pace;
};

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

/* --- reader_file.c --- */

/*
 * A segment's file as bytes for the parser (medium.h). It is read past the page cache: the reader
 * sees what the recorder wrote by O_DIRECT, and evicts nothing of other programs. Where a file system
 * refuses O_DIRECT, the reader drops the pages at once.
 *
 * One thread at a time. Functions return 0 or a negative errno.
 */

int reader_file_init(struct reader_file *f, struct reader_pace *pace,
		     const volatile sig_atomic_t *stop);
void reader_file_free(struct reader_file *f);

/* @dir: a descriptor. Regular files only, -EINVAL for others; symbolic links are not followed (-ELOOP). */
int reader_file_open(struct reader_file *f, int dir, const char *name);
void reader_file_close(struct reader_file *f);

/* Waits for the next look at the same place, and forgets what was read. False: look no more. */
bool reader_file_again(struct reader_file *f);

/* Opens a segment and reads its head. A head that is being written is read again. */
int reader_head_read(struct reader_file *f, int dir, const char *name, struct medium_use *use);

/*
 * All segments in directory @dir and in its incidents. Segments that cannot be read have `damage`. 0
 * or a negative errno; @uses is to be freed in any case.
 *
 * The recorder goes on while heads are read one by one. Its generations are consecutive: if one after
 * @seen is left out (0: after the oldest that a full channel has), all heads are read again. What began
 * after one that is then still left out counts as never used: another reading shows both.
 */
int reader_uses_read(struct reader_uses *uses, int dir, struct reader_file *f, uint64_t seen);
void reader_uses_free(struct reader_uses *uses);

#endif
