/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's end of a ring (wire.h). The writer can change every byte of the
 * memory at any time: each value is read once, into memory of our own, and
 * checked there. One thread.
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

struct ring {
	struct ekr_ring *map;
	size_t size;		/* of the map, bytes */
	int memfd;
	int eventfd;		/* the writer's bell */
	uint32_t slots, stride, record_size;	/* our own copies */
	uint64_t tail;		/* likewise */
	uint64_t rung_ns;	/* monotonic, until when the bell has rung all that it may */
	bool shut;		/* and then the last record that is taken is the one before: */
	uint64_t end;
};

/* Slots for the records of 400 ms, from 16 slots to 32 MiB; a power of two. @period_ns 0: 256 slots. */
uint32_t ring_slots(uint32_t record_size, uint64_t period_ns);

int ring_open(struct ring *r, uint32_t record_size, uint32_t slots, struct error *e);
void ring_close(struct ring *r);

/*
 * The oldest record, whose payload stays in the ring until it is advanced. 1: there
 * is one, 0: none, -EPROTO: what is there cannot be.
 */
int ring_peek(struct ring *r, struct record *record);
void ring_advance(struct ring *r);

/*
 * A bell makes the recorder look. It may ring once in a RING_BELL_TIME, and RING_BELLS
 * times at once: a writer that fills its ring as fast as it can is heard.
 */
#define RING_BELL_TIME NSEC_PER_MSEC
#define RING_BELLS     64
/* It has rung. False: too often, and should not be listened to until: */
bool ring_rung(struct ring *r, uint64_t now_ns);
/* half of what it may ring at once has come back. */
bool ring_may_ring(const struct ring *r, uint64_t now_ns);

bool ring_empty(const struct ring *r);
/*
 * The recorder takes no more; @code is what the writer will see. A record that is
 * submitted is there to be peeked at after this, or its writer sees @code. What a
 * writer that does not look adds later is not: a ring that is shut gets empty.
 */
void ring_shut(struct ring *r, uint32_t code);

#endif
