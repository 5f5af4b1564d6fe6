/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records that a channel has accepted and not yet written, in chunks of memory. The ingest thread
 * fills chunks, and the storage thread takes whole ones. A chunk becomes a batch, so nothing is copied on
 * the way to the medium.
 *
 * All memory is allocated and touched at the start, in one piece. Any thread may call any function.
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
	struct chunk *next;	/* in its list */
	unsigned char *data;	/* aligned to EKR_BLOCK */
	size_t used;		/* bytes */
	uint64_t oldest_ns;	/* monotonic: when the first window of its records begins */
	uint64_t first;		/* first sequence that it accounts for: of a gap, the first lost one */
	uint64_t next_sequence;	/* the sequence after its last one */
	uint32_t records;	/* not counting gaps */
};

struct buffer {
	unsigned char *memory;	/* of all chunks */
	size_t chunk_size;	/* bytes, whole blocks */
	unsigned int count;	/* chunks */
	struct chunk *chunks;
	pthread_mutex_t lock;	/* for what follows; inherits priority; held for a few instructions */
	struct chunk *free;
	struct chunk *filling;	/* NULL: the next record starts a free one */
	struct chunk *ready, **ready_end;	/* full chunks, oldest first */
	size_t backlog;		/* bytes in chunks that are filled, ready or taken */
};

/* At least 3 chunks, and at least @bytes in all of them. -ENOMEM. */
int buffer_open(struct buffer *b, size_t chunk_size, size_t bytes, struct error *e);
void buffer_close(struct buffer *b);

/*
 * Copies the record into a chunk. -ENOBUFS: no space. @first: as in struct chunk. Sets *@wake if the
 * storage thread should look: the buffer was empty, a chunk is full, or the record is older than the oldest one.
 */
int buffer_put(struct buffer *b, const struct record *r, uint64_t first, bool *wake);
bool buffer_has_room(struct buffer *b, uint32_t length);

/* The oldest full chunk, or with @partial the one that is being filled; NULL: there is none. */
struct chunk *buffer_take(struct buffer *b, bool partial);
/* Gives a chunk back; its content is dropped. */
void buffer_release(struct buffer *b, struct chunk *chunk);

/* Monotonic time of the oldest record that was not taken, 0: there is none. *@full: a chunk is full. */
uint64_t buffer_oldest(struct buffer *b, bool *full);
size_t buffer_backlog(struct buffer *b);

#endif
