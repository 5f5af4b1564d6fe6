// SPDX-License-Identifier: Apache-2.0
/* The recorder's end of a ring. */
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

/* a ring holds the records of this time, so a recorder that is late by less loses nothing */
#define RING_TIME   (400 * NSEC_PER_MSEC)
#define SLOTS_LEAST 16u
#define BYTES_MOST  (UINT64_C(32) << 20)

/* one read, which the compiler must not repeat */
#define ONCE(x) (*(const volatile __typeof__(x) *)&(x))

static uint32_t stride_of(uint32_t record_size)
{
	return (uint32_t)(sizeof(struct ekr_slot) + record_size + 63) & ~63u;
}

uint32_t ring_slots(uint32_t record_size, uint64_t period_ns)
{
	uint64_t wanted = period_ns ? RING_TIME / period_ns : 256;
	uint32_t slots = SLOTS_LEAST;

	while (slots < wanted && (uint64_t)slots * 2 * stride_of(record_size) <= BYTES_MOST)
		slots *= 2;
	return slots;
}

int ring_open(struct ring *r, uint32_t record_size, uint32_t slots, struct error *e)
{
	uint32_t stride = stride_of(record_size);
	size_t size = EKR_RING_DATA + (size_t)slots * stride;

	*r = (struct ring){
		.size = size, .slots = slots, .stride = stride, .record_size = record_size
	};
	r->memfd = memfd_create("ek-recorder-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->map = MAP_FAILED;
	if (r->memfd < 0 || r->eventfd < 0 || ftruncate(r->memfd, (off_t)size) ||
	    fcntl(r->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		set_errno(e, errno, "creating a ring of %zu bytes", size);
		ring_close(r);
		return -e->code;
	}
	r->map = memory_map(size, MAP_SHARED, r->memfd);
	if (r->map == MAP_FAILED) {
		set_errno(e, errno, "mapping a ring of %zu bytes", size);
		ring_close(r);
		return -e->code;
	}
	r->map->slots = slots;
	r->map->stride = stride;
	r->map->record_size = record_size;
	return 0;
}

void ring_close(struct ring *r)
{
	if (r->map && r->map != MAP_FAILED)
		munmap(r->map, r->size);
	if (r->memfd >= 0) {
		/*
		 * The writer may keep the memfd, and its pages count as the recorder's. So all pages are
		 * freed except the first, which shows the writer that the ring is shut.
		 */
		fallocate(r->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, EKR_RING_DATA,
			  (off_t)(r->size - EKR_RING_DATA));
		close(r->memfd);
	}
	if (r->eventfd >= 0)
		close(r->eventfd);
	*r = (struct ring){ .memfd = -1, .eventfd = -1 };
}

static uint64_t filled_to(const struct ring *r)
{
	return r->shut ? r->end : atomic_load_explicit(&r->map->head, memory_order_acquire);
}

int ring_peek(struct ring *r, struct record *record)
{
	uint64_t head = filled_to(r);
	const struct ekr_slot *slot =
		(const struct ekr_slot *)((unsigned char *)r->map + EKR_RING_DATA +
					  (r->tail % r->slots) * r->stride);

	if (head == r->tail)
		return 0;
	/* this also detects a head that went back */
	if (head - r->tail > r->slots)
		return -EPROTO;
	*record = (struct record){
		.sequence = ONCE(slot->sequence),
		.monotonic_ns = ONCE(slot->monotonic_ns),
		.realtime_ns = ONCE(slot->realtime_ns),
		.acquired_ns = ONCE(slot->acquired_ns),
		.length = ONCE(slot->length),
		.payload = slot->payload,
	};
	return record->length > r->record_size ? -EPROTO : 1;
}

void ring_advance(struct ring *r)
{
	atomic_store_explicit(&r->map->tail, ++r->tail, memory_order_release);
}

bool ring_rung(struct ring *r, uint64_t now)
{
	uint64_t least = now - RING_BELLS * RING_BELL_TIME;

	r->rung_ns = (r->rung_ns < least ? least : r->rung_ns) + RING_BELL_TIME;
	return r->rung_ns < now;
}

bool ring_may_ring(const struct ring *r, uint64_t now)
{
	return now >= r->rung_ns + RING_BELLS / 2 * RING_BELL_TIME;
}

bool ring_empty(const struct ring *r)
{
	return filled_to(r) == r->tail;
}

void ring_shut(struct ring *r, uint32_t code)
{
	atomic_store_explicit(&r->map->closed, code, memory_order_relaxed);
	/* before `head` is read: see the end of ek_writer_commit_at() */
	atomic_thread_fence(memory_order_seq_cst);
	if (!r->shut)
		r->end = atomic_load_explicit(&r->map->head, memory_order_acquire);
	r->shut = true;
}
