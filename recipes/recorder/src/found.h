/* SPDX-License-Identifier: Apache-2.0 */
/* The segments that a channel's directory holds when it is opened, and which of them can be used. */
#ifndef EKR_FOUND_H
#define EKR_FOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "about.h"
#include "channel.h"
#include "error.h"
#include "recover.h"

/* The file of a segment. */
struct found_file {
	int fd;			/* for reading; -1: it cannot be opened */
	int write;		/* for writing; -1: it cannot be opened, or not yet */
	bool usable;		/* a file of the right size, and not given back */
};

/* The segments of a directory while they are examined. */
struct found {
	struct medium_use segments[SEGMENTS_MAX];	/* by generation */
	struct found_file files[SEGMENTS_MAX];		/* by `place` of the segments */
	uint32_t closed;	/* files that cannot be opened for reading or for writing */
	struct error why;	/* why the last of them cannot */
	struct recovered r;
	struct about about;	/* as the directory says */
	bool empty;		/* there is no segment, not even an unfinished one */
};

/* Called with the segments that were found, while all their files are open. */
typedef int found_use(struct channel *c, struct found *f, struct error *e);

/* Reads the channel's directory, which is open, and calls @use. Returns its result or an error of reading. */
int found_look(struct channel *c, found_use *use, struct error *e);

/* For @use, in this order: new segments get the size of those that exist. */
int found_settle(struct channel *c, const struct found *f, struct error *e);
/* Opens all usable segments for writing. If descriptors or memory do not suffice, nothing was changed. */
int found_open(const struct channel *c, struct found *f, struct error *e);
/*
 * Adds the usable segments to the store, and removes files of segments whose creation was interrupted. Sets the
 * reason of a channel that has fewer or more segments than its configuration demands.
 * @reuse_newest: as if the newest segment had never been used.
 */
void found_add(struct channel *c, struct found *f, bool reuse_newest);

/* The number of segments beyond `retain`, and the oldest usable segment (count: none). */
size_t found_surplus(const struct channel *c, const struct found *f);
size_t found_oldest(const struct found *f);
static inline struct found_file *found_file(struct found *f, size_t i)
{
	return &f->files[f->segments[i].place];
}

/* --- opening.c: how a recording continues where an earlier one ended --- */

/*
 * At a start: recording continues where it ended, with a gap `restart` if it was not shut down
 * cleanly. Sets up the channel's intake and store.
 */
int opening_begin(struct channel *c, struct found *f, struct error *e);
/*
 * While recording, if the channel's name leads to another directory: it is used if it holds this
 * recording, such as a medium that was mounted again, or nothing. -EINVAL: another recording,
 * which is not touched.
 */
int opening_return(struct channel *c, struct found *f, struct error *e);
/* Puts the clean-shutdown marker back, if there was one: nothing has been recorded. */
int opening_leave(struct channel *c, struct error *e);

#endif
