// SPDX-License-Identifier: Apache-2.0
/* The records that a channel has accepted and not yet written. */
#include "buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "scope.h"
#include "thread.h"

int buffer_open(struct buffer *b, size_t chunk_size, size_t bytes, struct error *e)
{
	size_t count = (bytes + chunk_size - 1) / chunk_size;

	*b = (struct buffer){ .chunk_size = chunk_size,
			      .count = count > 3 ? (unsigned int)count : 3 };
	b->chunks = calloc(b->count, sizeof(*b->chunks));
	b->memory = memory_map(b->count * chunk_size, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!b->chunks || b->memory == MAP_FAILED) {
		/* all memory is locked when it is mapped: mmap() reports with EAGAIN that the limit is exceeded */
		bool locked = b->chunks && errno == EAGAIN;

		free(b->chunks);
		if (b->memory != MAP_FAILED)
			munmap(b->memory, b->count * chunk_size);
		*b = (struct buffer){ 0 };
		return set_error(e, ENOMEM, "allocating %zu bytes for the buffer: %s",
				 (size_t)(count > 3 ? count : 3) * chunk_size,
				 locked ? "more than LimitMEMLOCK= allows" : "out of memory");
	}
	for (unsigned int i = b->count; i-- > 0;) {
		b->chunks[i].data = b->memory + i * chunk_size;
		b->chunks[i].next = b->free;
		b->free = &b->chunks[i];
	}
	b->ready_end = &b->ready;
	thread_mutex(&b->lock);
	return 0;
}

void buffer_close(struct buffer *b)
{
	if (!b->memory)
		return;
	munmap(b->memory, b->count * b->chunk_size);
	free(b->chunks);
	pthread_mutex_destroy(&b->lock);
	*b = (struct buffer){ 0 };
}

/* the chunk that is filled is full: the storage thread may take it */
static void pass_on(struct buffer *b)
{
	*b->ready_end = b->filling;
	b->ready_end = &b->filling->next;
	b->filling = NULL;
}

static bool fits(const struct buffer *b, size_t bytes)
{
	return b->free || (b->filling && b->filling->used + bytes <= b->chunk_size);
}

int buffer_put(struct buffer *b, const struct record *r, uint64_t first, bool *wake)
{
	const uint64_t begins = r->window_ns ? r->window_ns : r->monotonic_ns;
	size_t bytes = record_bytes(r->length);
	struct chunk *c;
	HOLD(&b->lock);

	if (!fits(b, bytes))
		return -ENOBUFS;
	if (b->filling && b->filling->used + bytes > b->chunk_size) {
		pass_on(b);
		*wake = true;
	}
	c = b->filling;
	if (!c) {
		*wake |= !b->ready;
		c = b->free;
		b->free = c->next;
		*c = (struct chunk){
			.data = c->data,
			.oldest_ns = begins,
			.first = first,
		};
		b->filling = c;
	}
	/* it was submitted before a gap that precedes it was recorded */
	if (begins < c->oldest_ns) {
		c->oldest_ns = begins;
		*wake = true;
	}
	c->used += batch_append(c->data + c->used, r);
	c->records += !(r->flags & EKR_RECORD_GAP);
	c->next_sequence = r->sequence + 1;
	b->backlog += bytes;
	return 0;
}

bool buffer_has_room(struct buffer *b, uint32_t length)
{
	HOLD(&b->lock);

	return fits(b, record_bytes(length));
}

struct chunk *buffer_take(struct buffer *b, bool partial)
{
	struct chunk *c;
	HOLD(&b->lock);

	if (!b->ready && partial && b->filling)
		pass_on(b);
	c = b->ready;
	if (c) {
		b->ready = c->next;
		if (!b->ready)
			b->ready_end = &b->ready;
		c->next = NULL;
	}
	return c;
}

void buffer_release(struct buffer *b, struct chunk *chunk)
{
	HOLD(&b->lock);

	b->backlog -= chunk->used;
	chunk->used = 0;
	chunk->next = b->free;
	b->free = chunk;
}

uint64_t buffer_oldest(struct buffer *b, bool *full)
{
	HOLD(&b->lock);

	*full = b->ready;
	return b->ready ? b->ready->oldest_ns : b->filling ? b->filling->oldest_ns : 0;
}

size_t buffer_backlog(struct buffer *b)
{
	HOLD(&b->lock);

	return b->backlog;
}
