/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's end of a ring (wire.h). The writer can change every byte of the slots at any time. So the
 * recorder copies them, and checks the copy. One thread at a time.
 */
#ifndef EKR_RING_H
#define EKR_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "clock.h"
#include "error.h"
#include "wire.h"

/* Bytes of the copy of slots: the largest slot fits. */
#define RING_COPY (EKR_RECORD_MAX + 128u)

struct ring {
	struct ekr_ring_state *state;	/* mapped; NULL: the ring is closed */
	int memfd;		/* the slots */
	int state_fd;
	int eventfd;		/* the writer's bell */
	uint32_t slots, stride, record_size;
	uint64_t tail;		/* slots taken; the recorder's own copy */
	unsigned char *copy;	/* RING_COPY bytes of the caller; has the slots [copied_from, copied_to) */
	uint64_t copied_from, copied_to;
	uint64_t rung_ns;	/* monotonic: the rings of the bell so far use up its allowance until then */
	bool shut;		/* the recorder takes only the records before: */
	uint64_t end;
};

/* Slots for the records of 400 ms: a power of two, from 16 slots to 32 MiB. @period_ns 0: 256 slots. */
uint32_t ring_slots(uint32_t record_size, uint64_t period_ns);

/* @copy: RING_COPY bytes, which several rings may share; see ring_forget(). Takes some microseconds. */
int ring_open(struct ring *r, uint32_t record_size, uint32_t slots, void *copy, struct error *e);
/*
 * Returns the memfd of the slots, and closes the rest. To close this memfd may free the memory of the ring, which may
 * take long.
 */
int ring_close(struct ring *r);

/* The copy was used for something else. */
void ring_forget(struct ring *r);
/*
 * The oldest record; its payload is valid until ring_advance() or ring_forget(). 1: a record was
 * found; 0: the ring is empty; -EPROTO: the ring is invalid.
 */
int ring_peek(struct ring *r, struct record *record);
void ring_advance(struct ring *r);
/* Records that the writer lost because the ring was full. */
uint64_t ring_lost(const struct ring *r);

/*
 * The bell makes the recorder look into the ring. It may ring once in RING_BELL_TIME, and RING_BELLS times
 * in a burst. That suffices for a writer that fills its ring as fast as it can.
 */
#define RING_BELL_TIME NSEC_PER_MSEC
#define RING_BELLS     64
/* The bell has rung. False: too often; ignore it until ring_may_ring(). */
bool ring_rung(struct ring *r, uint64_t now_ns);
/* The bell may ring half a burst again. */
bool ring_may_ring(const struct ring *r, uint64_t now_ns);

bool ring_empty(const struct ring *r);
/*
 * Shuts the ring: the recorder takes no later records, and the writer sees @code. A record that is submitted
 * meanwhile is taken, or its writer sees @code. Records that a writer adds later are ignored, so a ring
 * that is shut becomes empty.
 */
void ring_shut(struct ring *r, uint32_t code);

#endif
