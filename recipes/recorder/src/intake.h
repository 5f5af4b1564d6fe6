/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the records of a channel's one writer come in, by whatever way: numbers
 * are checked, times put right, what was lost is told by a gap as soon as there is
 * room again. The ingest thread's; counters may be read by any thread.
 */
#ifndef EKR_INTAKE_H
#define EKR_INTAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "format.h"

struct intake {
	struct buffer *buffer;
	uint32_t record_size;
	uint64_t next_sequence;		/* of the next record */
	uint64_t last_ns;		/* monotonic time of the last record */
	bool wake;			/* the storage thread should look; set here, cleared by the caller */
	/* a gap that has not been told yet: sequences from gap_first to next_sequence */
	bool gap;
	bool gap_unknown;		/* their number is not known */
	enum ekr_gap_reason gap_reason;	/* of the first */
	uint64_t gap_first;
	_Atomic uint64_t records, bytes;	/* taken, payload only */
	_Atomic uint64_t overrun;		/* records lost: no room here or with the writer */
	_Atomic uint64_t broken;		/* records lost, or times that a writer broke the protocol */
	_Atomic uint64_t restarts;		/* gaps of unknown length that a start has told */
};

void intake_open(struct intake *in, struct buffer *buffer, uint32_t record_size,
		 uint64_t next_sequence);

/*
 * Takes a record as its writer numbered and dated it. -EPROTO: its number or size
 * cannot be, nothing was taken; -ENOBUFS: no room; it is counted as lost with
 * @drop, else may come again.
 */
int intake_take(struct intake *in, const struct record *r, bool drop);

/* There is room for any record of the channel and for the gap that may have to be told ahead of it. */
bool intake_has_room(struct intake *in);

/* @count records were lost, or with 0 a number that is not known. */
void intake_lose(struct intake *in, enum ekr_gap_reason reason, uint64_t count);

/* The writer's next record will be @sequence: those below that have not come are lost. */
void intake_expect(struct intake *in, uint64_t sequence);

/* Tells a gap, if there is one and room for it and a record; false: it is still to be told. */
bool intake_tell(struct intake *in);

#endif
