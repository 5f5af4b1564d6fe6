/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a channel's recording ended, for a start of the recorder. Recovery reads all heads, and the
 * records of the newest segment up to the last one. Of a segment longer than 32 MiB it reads only
 * the end. The medium may hold anything; recovery writes nothing.
 *
 * At most one batch is under way at a time. So a batch with number n proves that all batches before
 * it were durable: a break in one of them is damage. A break in the last batch is where the power
 * was cut: the records after it do not count.
 *
 * A segment whose head is damaged still has its records, and these give its generation. No
 * generation is given again while records of it may exist.
 */
#ifndef EKR_RECOVER_H
#define EKR_RECOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "medium.h"

/* Bytes that are read at a time, and the buffer for them. */
#define RECOVER_AHEAD	(1u << 20)
#define RECOVER_BUFFER	MEDIUM_ROOM(RECOVER_AHEAD)

struct recovered {
	struct medium_use *segments;	/* the caller's; recovery sorts them by generation */
	size_t count;
	uint8_t id[16];			/* of the channel, for when no head is valid; the caller's */
	const struct medium_use *newest;	/* the last that was used; NULL: none was */
	const struct medium_use *valid;	/* the last whose head is valid; NULL: none is */
	uint64_t generation;		/* no use had a greater one */
	bool any;			/* there is a last record; then: */
	uint64_t last_sequence;
	uint64_t next_sequence;		/* greater than all that ever counted */
	uint64_t end;			/* of the newest segment: where its last batch ends, bytes */
	uint64_t batches;		/* in it */
	bool damaged;			/* there was a break before the last batch, in what was read */
	bool only_restarts;		/* the newest segment holds no record but gaps of restarts */
};

/*
 * The segments need file, index, place and size; @b reads them, with a buffer of RECOVER_BUFFER bytes.
 * -EINVAL: a segment is of another channel than @name, of another recording, or of an earlier format.
 */
int recover(struct medium_bytes *b, const char *name, struct recovered *r, struct error *e);

#endif
