/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a channel, in the directory of all channels; and the segments of an open channel. */
#ifndef EKR_DIRECTORY_H
#define EKR_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "channel.h"
#include "config.h"
#include "error.h"

/*
 * Opens and locks the directory of a channel; with @create, what is missing is created. -ENODEV: nothing is
 * mounted where a mount point is demanded; -EBUSY: another recorder uses it.
 */
int directory_open(const struct recorder_config *config, struct channel *c, bool create, struct error *e);
/* Also of a channel whose directory is not open. */
void directory_close(struct channel *c);
/* -EROFS: what can be read but not written is left as it is, and tried again. */
int directory_writable(const struct channel *c, struct error *e);
/* The channel's name leads to another directory than c->directory, or to none. */
bool directory_moved(const struct recorder_config *config, const struct channel *c);

/* --- segments: creating, expiring and dropping them. Of the prepare thread. --- */

/* Segments can be created: the channel has fewer than its configuration demands. */
bool segments_lack(const struct channel *c);
/* Creates one; @zeros, @length and @stop as for segment_make(). 1: there are enough; -ECANCELED. */
int segments_make(struct channel *c, const unsigned char *zeros, size_t length,
		  const atomic_bool *stop, struct error *e);
/* Deletes records that are older than retain_time: a head of generation 0 makes them void. */
void segments_expire(struct channel *c);
/* The segment's file is still what its name leads to; true if that cannot be examined. */
bool segments_whole(const struct channel *c, const struct segment *s);
/* Uses a segment no more; false: it is being written without an end, try again later. */
bool segments_drop(struct channel *c, const struct segment *s);

#endif
