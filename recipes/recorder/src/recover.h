/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a channel's segments hold when the recorder starts: all heads are read,
 * and of the newest segment the records, until the last one; where it is longer
 * than 32 MiB, only its last ones. What is on the medium may be anything; nothing
 * is written.
 *
 * At most one batch is under way at a time. So a batch with number n proves that
 * all before n were durable, and a break in one of them is damage after which the
 * search goes on; a break in the last one is where the power was cut.
 *
 * A segment whose head is damaged still has its records, and these tell its use:
 * no generation is given again while records of it may be there.
 */
#ifndef EKR_RECOVER_H
#define EKR_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "format.h"

/* bytes of the buffer that recover() needs, aligned to EKR_BLOCK */
#define RECOVER_BUFFER	EKR_BATCH_MAX

struct recovered_segment {
	struct ekr_segment_head head;	/* made up if it is not valid; of generation 0 if no record tells one */
	uint32_t index;			/* the caller's */
	uint64_t size;			/* of the file, bytes; the caller's */
	const char *problem;		/* of the head, NULL: none */
};

struct recovered {
	struct recovered_segment *segments;	/* by index; the caller's */
	size_t count;
	const uint8_t *id;		/* the channel's, for heads that are damaged; the caller's */
	const struct recovered_segment *newest;	/* NULL: none was ever used */
	const struct recovered_segment *valid;	/* the newest of those whose head is; NULL: there is none */
	uint64_t generation;		/* none that was ever used is greater */
	bool any;			/* there is a last record: */
	uint64_t last_sequence;
	int64_t last_realtime_ns;
	uint64_t next_sequence;		/* greater than all that ever counted */
	uint64_t end;			/* of the newest segment: behind its last batch, bytes */
	uint64_t batches;		/* in it */
	bool damaged;			/* there was a break before the last batch, in what was read */
	bool only_restarts;		/* the newest holds no record but gaps of restarts */
};

struct medium {
	/* Bytes read, as pread(); whole blocks. */
	ssize_t (*read)(void *ctx, uint32_t index, void *to, size_t length, uint64_t offset);
	void *ctx;
};

/*
 * @r: segments with their index and size, count; the rest is filled. -EINVAL: a segment is
 * of another channel than @name or another recording.
 */
int recover(const struct medium *medium, const char *name, struct recovered *r,
	    unsigned char *buffer, struct error *e);

#endif
