/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch in memory, in the form that it has on the medium (format.h). Records
 * are appended while it is not known yet where they will go; sealing adds what
 * depends on that, and may be done anew for another place. One thread at a time.
 */
#ifndef EKR_BATCH_H
#define EKR_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

struct record {
	uint64_t sequence;
	uint64_t monotonic_ns;
	int64_t realtime_ns;
	uint64_t acquired_ns;	/* monotonic; 0: as monotonic_ns */
	const void *payload;
	uint32_t length;	/* of the payload, bytes */
	uint32_t flags;		/* enum ekr_record_flag */
};

/* What the records of one use of a segment have in common. */
struct record_use {
	uint64_t generation;
	uint32_t seed;		/* CRC-32C of channel_id and index, with which that of a record begins */
	uint32_t record_size;	/* largest payload, bytes; a gap may be larger */
};

/* Bytes that a record of this payload takes, a multiple of 8. */
static inline size_t record_bytes(uint32_t length)
{
	return (sizeof(struct ekr_record_head) + (size_t)length + 7) & ~(size_t)7;
}

static inline size_t whole_blocks(size_t bytes)
{
	return (bytes + EKR_BLOCK - 1) & ~(size_t)(EKR_BLOCK - 1);
}

/* Puts it at @to, which is aligned to 8 and has record_bytes() of room; returns these. */
size_t batch_append(void *to, const struct record *r);

/*
 * Makes @used bytes of appended records valid as batch @number of a use, and fills up to whole
 * blocks with zeros, for which there is room. Returns the bytes to be written.
 */
size_t batch_seal(void *batch, size_t used, const struct record_use *use, uint64_t number);

/*
 * The record at @at, of which @left bytes are there, if it is complete, valid and of this use;
 * otherwise NULL. The bytes may be anything. This is the only check of a record.
 */
const struct ekr_record_head *record_at(const void *at, size_t left, const struct record_use *use);

/* The gap that a record is; NULL: it is none. @head: with its payload. */
const struct ekr_gap *record_gap(const struct ekr_record_head *head);
/* The first sequence that a record accounts for: of a gap the first that was lost. */
uint64_t record_first(const struct ekr_record_head *head);

#endif
