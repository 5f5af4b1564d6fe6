/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the records of all writers of a channel arrive. The intake checks sequences, corrects times, and
 * records a gap for lost records as soon as there is space again. Of the ingest thread; any thread may
 * read the counters.
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
	uint64_t since_ns;		/* monotonic: when its last record was submitted; before the first, the earliest time from which it may count losses */
	uint64_t lost;			/* records that found no space, here or in the ring or socket */
	bool records;			/* it has submitted a record over this connection */
};

struct intake {
	struct buffer *buffer;
	uint32_t record_size;
	uint64_t next_sequence;		/* of the next record */
	uint64_t last_ns;		/* monotonic time of the last record */
	uint64_t early_ns;		/* how long before its arrival a record's window may begin */
	uint64_t claimed;		/* records that writers said they had lost */
	bool wake;			/* the storage thread should look at the buffer; the caller clears it */
	/* a gap that is not recorded yet: sequences from gap_first to next_sequence */
	bool gap;
	bool gap_unknown;		/* the number of its records is not known */
	enum ekr_gap_reason gap_reason;	/* of the first loss in it */
	uint64_t gap_first;
	_Atomic uint64_t records, bytes;	/* accepted; bytes of payloads */
	_Atomic uint64_t overrun;		/* records lost, because there was no space */
	_Atomic uint64_t broken;		/* records lost because a writer broke the protocol; at least 1 each time */
	_Atomic uint64_t absent;		/* records lost by writers without a connection */
	_Atomic uint64_t restarts;		/* gaps of unknown length that a start has recorded */
};

/*
 * @window_ns: the channel's durability window. It counts from when a record was submitted, as its writer says,
 * but from no earlier than a quarter of the window before the record arrived: an honest record by ring arrives
 * within that time, because a ring is polled at least four times in a window. So a writer of wrong times cannot
 * make each of its records due at once.
 */
void intake_open(struct intake *in, struct buffer *buffer, uint32_t record_size, uint64_t window_ns,
		 uint64_t next_sequence);

/*
 * The only check of sequences: a writer says that its next record will be @sequence. The ones
 * before it that did not arrive are lost. -EPROTO: the sequence went back, or is further ahead
 * than a writer can count since its last record; nothing has changed. If all writers of the channel
 * report more than one can count since the boot, the loss is recorded without its number.
 */
int intake_expect(struct intake *in, struct intake_writer *w, uint64_t sequence);

/* A writer reports records that it lost before it connected. -EPROTO: more than since the boot. */
int intake_absent(struct intake *in, uint64_t count);

/*
 * Accepts a record, which gets the channel's next sequence. -EPROTO: its sequence or size is invalid, and
 * nothing was accepted. -ENOBUFS: there is no space; with @drop the record counts as lost, otherwise the
 * caller may try again.
 */
int intake_take(struct intake *in, struct intake_writer *w, const struct record *r, bool drop);

/* There is space for any record of the channel, and for a gap that may have to precede it. */
bool intake_has_room(struct intake *in);

/* @count records were lost; 0: their number is not known. */
void intake_lose(struct intake *in, enum ekr_gap_reason reason, uint64_t count);

/* Records the gap, if there is one, and space for it and a record. False: the gap is not recorded yet. */
bool intake_tell(struct intake *in);

#endif
