/* SPDX-License-Identifier: Apache-2.0 */
/* What a channel's directory holds when it is opened: its segments, and which of them can be used. */
#ifndef EKR_FOUND_H
#define EKR_FOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "about.h"
#include "channel.h"
#include "error.h"
#include "recover.h"

/* the segments of a directory while they are looked into */
struct found {
	struct recovered_segment segments[SEGMENTS_MAX];
	int fds[SEGMENTS_MAX];	   /* for reading, in the order of segments; -1: it cannot be */
	int writes[SEGMENTS_MAX];  /* for writing; -1: it cannot be, or not yet */
	bool usable[SEGMENTS_MAX]; /* a file of the right size, and not given back */
	uint32_t closed;	   /* files that cannot be opened for reading or for writing */
	struct error why;	   /* not, the last of them */
	struct recovered r;
	struct about about; /* as the directory says */
	bool fresh; /* there is none, not even one that was begun */
};

/* What is done with what was found, while all its files are open. */
typedef int found_use(struct channel *c, struct found *f, struct error *e);

/* Reads the channel's directory, which is open, and calls @use. Returns its result or an error of reading. */
int found_look(struct channel *c, found_use *use, struct error *e);

/* For @use, in this order: the size of the segments that exist is that of the ones to be created. */
int found_settle(struct channel *c, const struct found *f, struct error *e);
/* Opens all that can be used. Nothing was changed if that fails for want of descriptors or memory. */
int found_open(const struct channel *c, struct found *f, struct error *e);
/* Gives the store what is usable; @reuse_newest: as if the newest segment had never been used. */
void found_add(struct channel *c, struct found *f, bool reuse_newest);
/* Sets the reason of a channel that has fewer or more segments than its configuration demands. */
void found_tell(struct channel *c, const struct found *f);
/* Removes files of segments whose creation was interrupted. */
void found_clean(const struct channel *c);

/* Segments beyond what retain demands, and the oldest of them; count: there is none. */
size_t found_surplus(const struct channel *c, const struct found *f);
size_t found_oldest(const struct found *f);

#endif
