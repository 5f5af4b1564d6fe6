/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a channel has taken and not yet written: chunks of memory that are filled
 * with records by the ingest thread and taken whole by the storage thread. A
 * chunk becomes a batch, so nothing is copied on the way to the medium.
 *
 * All memory is there from the beginning, touched, and one piece, so that it can
 * be registered with io_uring. Every function may be called by any thread.
 */
#ifndef EKR_BUFFER_H
#define EKR_BUFFER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "error.h"

struct chunk {
	struct chunk *next;	/* of its list */
	unsigned char *data;	/* aligned to EKR_BLOCK */
	size_t used;		/* bytes */
	uint64_t oldest_ns;	/* monotonic time of the first record */
	uint64_t first;		/* first sequence that it accounts for: of a gap the first that was lost */
	uint64_t next_sequence;	/* behind the last one */
	uint32_t records;	/* without gaps */
};

struct buffer {
	unsigned char *memory;	/* of all chunks */
	size_t chunk_size;	/* bytes, whole blocks */
	unsigned int count;	/* chunks */
	struct chunk *chunks;
	pthread_mutex_t lock;	/* for what follows; inherits priority; nothing is called under it */
	struct chunk *free;
	struct chunk *filling;	/* NULL: the next record takes a free one */
	struct chunk *ready, **ready_end;	/* full ones, oldest first */
	size_t backlog;		/* bytes in filling, ready and taken chunks */
};

/* At least 3 chunks and @bytes together. -ENOMEM. */
int buffer_open(struct buffer *b, size_t chunk_size, size_t bytes, struct error *e);
void buffer_close(struct buffer *b);

/*
 * Takes a copy of the record. -ENOBUFS: no room. @first: as in struct chunk.
 * *@wake is set if the storage thread should look: there was nothing before, or
 * a chunk is full.
 */
int buffer_put(struct buffer *b, const struct record *r, uint64_t first, bool *wake);
bool buffer_has_room(struct buffer *b, uint32_t length);

/* The oldest full chunk, or with @partial one that is being filled; NULL: none. */
struct chunk *buffer_take(struct buffer *b, bool partial);
/* Gives it back, empty. */
void buffer_release(struct buffer *b, struct chunk *chunk);

/* Monotonic time of the oldest record that has not been taken, 0: none; *@full: a chunk is. */
uint64_t buffer_oldest(struct buffer *b, bool *full);
size_t buffer_backlog(struct buffer *b);

#endif
