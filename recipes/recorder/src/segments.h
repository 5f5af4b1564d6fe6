/* SPDX-License-Identifier: Apache-2.0 */
/* The segments of an open channel: creating, expiring and dropping them. Of the prepare thread. */
#ifndef EKR_SEGMENTS_H
#define EKR_SEGMENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "channel.h"
#include "error.h"
#include "store.h"

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
