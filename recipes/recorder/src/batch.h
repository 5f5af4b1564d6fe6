/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch in memory, in the form that it has on the medium (format.h). Records are appended before their
 * place is known. Sealing adds what depends on the place; a batch may be sealed again for another place.
 * One thread at a time.
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
	uint64_t window_ns;	/* monotonic: its durability window counts from here; 0: from monotonic_ns */
	const void *payload;
	uint32_t length;	/* of the payload, bytes */
	uint32_t flags;		/* enum ekr_record_flag */
};

/* What all records of one use of a segment have in common. */
struct record_use {
	uint64_t generation;
	uint32_t seed;		/* CRC-32C of channel_id and index; the CRC of a record continues it */
	uint32_t record_size;	/* largest payload, bytes; a gap may be larger */
};

/* Bytes of a record with a payload of this length, a multiple of 8. */
static inline size_t record_bytes(uint32_t length)
{
	return (sizeof(struct ekr_record_head) + (size_t)length + 7) & ~(size_t)7;
}

static inline size_t whole_blocks(size_t bytes)
{
	return (bytes + EKR_BLOCK - 1) & ~(size_t)(EKR_BLOCK - 1);
}

/* Copies the record to @to, which is aligned to 8 and has record_bytes() of space; returns these bytes. */
size_t batch_append(void *to, const struct record *r);

/*
 * Makes @used bytes of appended records valid as batch @number of a use, and adds zeros up to a whole
 * block, for which there is space. Returns the number of bytes to write.
 */
size_t batch_seal(void *batch, size_t used, const struct record_use *use, uint64_t number);

/*
 * The record at @at if its CRC is valid, it is of this use, and @left bytes hold all of it; otherwise
 * NULL. The bytes may be anything. No other function checks a record.
 */
const struct ekr_record_head *record_at(const void *at, size_t left, const struct record_use *use);

/* The payload of a gap record; NULL: the record is no gap. Its payload follows @head in memory. */
const struct ekr_gap *record_gap(const struct ekr_record_head *head);
/* The first sequence that a record accounts for: of a gap, the first lost one. */
uint64_t record_first(const struct ekr_record_head *head);

/*
 * CRC-32C (Castagnoli), with the fastest instructions of the processor. Continues @crc, which begins with 0, with
 * @data. Any thread.
 */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);

#endif
