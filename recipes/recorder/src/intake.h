/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the records of a channel arrive, from all its writers: their sequences are checked, their
 * times are corrected, and lost records become a gap as soon as there is room again. The ingest
 * thread's; any thread may read the counters.
 */
#ifndef EKR_INTAKE_H
#define EKR_INTAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "format.h"

/* One writer, whose sequences are its own (wire.h). */
struct intake_writer {
	uint64_t next;			/* sequence of its next record */
	uint64_t since_ns;		/* monotonic: its last record was submitted, or it connected */
	uint64_t lost;			/* records that found no room, here or with the writer */
	bool records;			/* it has submitted a record on this connection */
};

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
	_Atomic uint64_t absent;		/* records lost by writers without a connection */
	_Atomic uint64_t restarts;		/* gaps of unknown length that a start has told */
};

void intake_open(struct intake *in, struct buffer *buffer, uint32_t record_size,
		 uint64_t next_sequence);

/*
 * The only check of sequences: a writer says that its next record will be @sequence. The ones
 * before it that did not arrive are lost. -EPROTO: the sequence went back, or is further ahead
 * than a writer can count since its last record; nothing has changed.
 */
int intake_expect(struct intake *in, struct intake_writer *w, uint64_t sequence);

/* A writer reports records that it lost before it connected. -EPROTO: more than since the boot. */
int intake_absent(struct intake *in, uint64_t count);

/*
 * Takes a record; it gets the channel's next sequence. -EPROTO: its sequence or size is invalid,
 * nothing was taken. -ENOBUFS: no room; with @drop it counts as lost, otherwise it may come again.
 */
int intake_take(struct intake *in, struct intake_writer *w, const struct record *r, bool drop);

/* There is room for any record of the channel and for the gap that may have to be told ahead of it. */
bool intake_has_room(struct intake *in);

/* @count records were lost, or with 0 a number that is not known. */
void intake_lose(struct intake *in, enum ekr_gap_reason reason, uint64_t count);

/* Tells a gap, if there is one and room for it and a record; false: it is still to be told. */
bool intake_tell(struct intake *in);

#endif
