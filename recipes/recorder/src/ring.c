// SPDX-License-Identifier: Apache-2.0
/* The recorder's end of a ring. */
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thread.h"

/* a ring holds the records of this time, so a recorder that is late by less loses nothing */
#define RING_TIME   (400 * NSEC_PER_MSEC)
#define SLOTS_LEAST 16u
#define BYTES_MOST  (UINT64_C(32) << 20)

/* limit for a hostile writer, whose number does not only grow */
#define TRIES 16

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

static int make(struct ring *r, size_t size)
{
	r->memfd = memfd_create("ek-recorder-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r->state_fd = memfd_create("ek-recorder-ring-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->memfd < 0 || r->state_fd < 0 || r->eventfd < 0 || ftruncate(r->memfd, (off_t)size) ||
	    ftruncate(r->state_fd, sizeof(*r->state)) ||
	    fcntl(r->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	r->state = memory_map(sizeof(*r->state), MAP_SHARED, r->state_fd);
	if (r->state == MAP_FAILED) {
		r->state = NULL;
		return -errno;
	}
	/* no mapping from now on can write, nor free the page */
	return fcntl(r->state_fd, F_ADD_SEALS,
		     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) ?
		       -errno :
		       0;
}

int ring_open(struct ring *r, uint32_t record_size, uint32_t slots, void *copy, struct error *e)
{
	const uint32_t stride = stride_of(record_size);
	const size_t size = EKR_RING_DATA + (size_t)slots * stride;
	int ret;

	*r = (struct ring){
		.slots = slots, .stride = stride, .record_size = record_size, .copy = copy
	};
	ret = make(r, size);
	if (!ret)
		return 0;
	set_errno(e, -ret, "creating a ring of %zu bytes", size);
	ret = ring_close(r);
	if (ret >= 0)
		close(ret);
	return -e->code;
}

int ring_close(struct ring *r)
{
	const int memfd = r->memfd;

	if (r->state)
		munmap(r->state, sizeof(*r->state));
	if (r->state_fd >= 0)
		close(r->state_fd);
	if (r->eventfd >= 0)
		close(r->eventfd);
	*r = (struct ring){ .memfd = -1, .state_fd = -1, .eventfd = -1 };
	return memfd;
}

/*
 * A number at the start of the slots' memfd, which the writer counts up. A read is not atomic: while the number
 * changes, it may have some bytes of the old value and some of the new one. If a second read returns the same or
 * more, the first value was reached. @least: a value that was reached before. @exact: demand two equal reads,
 * because the writer has stopped. After TRIES, the value is unchecked. UINT64_MAX, which makes the ring invalid:
 * the memory cannot be read.
 */
static uint64_t number_at(const struct ring *r, size_t offset, uint64_t least, bool exact)
{
	uint64_t a = least, b;

	for (int i = 0; i < TRIES; i++) {
		if (pread(r->memfd, &a, sizeof(a), (off_t)offset) != sizeof(a) ||
		    pread(r->memfd, &b, sizeof(b), (off_t)offset) != sizeof(b))
			return UINT64_MAX;
		if (a == b || (!exact && a >= least && a < b))
			break;
	}
	return a;
}

/* Also orders what system calls read and write. ThreadSanitizer knows no fences, and GCC warns of that. */
static void full_fence(void)
{
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
	atomic_thread_fence(memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic pop
#endif
}

static uint64_t read_head(const struct ring *r, bool exact)
{
	uint64_t head = number_at(r, offsetof(struct ekr_ring, head), r->tail, exact);

	/* the slots are read after it */
	full_fence();
	return head;
}

static uint64_t filled_to(const struct ring *r)
{
	return r->shut ? r->end : read_head(r, false);
}

uint64_t ring_lost(const struct ring *r)
{
	return number_at(r, offsetof(struct ekr_ring, lost), 0, false);
}

void ring_forget(struct ring *r)
{
	r->copied_from = r->copied_to = r->tail;
}

/* Copies slots from the tail, as many as are in one piece and fit. */
static int copy_slots(struct ring *r)
{
	const uint64_t head = filled_to(r);
	const size_t at = r->tail % r->slots;
	uint64_t count = head - r->tail;

	if (!count)
		return 0;
	/* this also detects a head that went back */
	if (count > r->slots)
		return -EPROTO;
	if (count > r->slots - at)
		count = r->slots - at;
	if (count > RING_COPY / r->stride)
		count = RING_COPY / r->stride;
	if (pread(r->memfd, r->copy, count * r->stride, (off_t)(EKR_RING_DATA + at * r->stride)) !=
	    (ssize_t)(count * r->stride))
		return -EPROTO;
	r->copied_from = r->tail;
	r->copied_to = r->tail + count;
	return 1;
}

int ring_peek(struct ring *r, struct record *record)
{
	const struct ekr_slot *slot;
	int ret = 1;

	if (r->tail >= r->copied_to)
		ret = copy_slots(r);
	if (ret <= 0)
		return ret;
	slot = (const struct ekr_slot *)(r->copy + (r->tail - r->copied_from) * r->stride);
	*record = (struct record){
		.sequence = slot->sequence,
		.monotonic_ns = slot->monotonic_ns,
		.realtime_ns = slot->realtime_ns,
		.acquired_ns = slot->acquired_ns,
		.length = slot->length,
		.payload = slot->payload,
	};
	return record->length > r->record_size ? -EPROTO : 1;
}

void ring_advance(struct ring *r)
{
	atomic_store_explicit(&r->state->tail, ++r->tail, memory_order_release);
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
	atomic_store_explicit(&r->state->closed, code, memory_order_relaxed);
	/* before `head` is read: see the end of ek_writer_commit_at() */
	full_fence();
	if (!r->shut)
		r->end = read_head(r, true);
	r->shut = true;
}
