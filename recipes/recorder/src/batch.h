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
	const void *payload;
	uint32_t length;	/* of the payload, bytes */
	uint32_t flags;		/* enum ekr_record_flag */
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
 * Makes @used bytes of appended records valid as batch @number of a generation,
 * and fills up to whole blocks with zeros, for which there is room. Returns the
 * bytes to be written.
 */
size_t batch_seal(void *batch, size_t used, uint64_t generation, uint64_t number);

/*
 * The record at @at, of which @left bytes are there, if it is whole, valid, of
 * this generation and its payload at most @record_size; else NULL. The bytes may
 * be anything.
 */
const struct ekr_record_head *record_at(const void *at, size_t left, uint64_t generation,
					uint32_t record_size);

#endif
