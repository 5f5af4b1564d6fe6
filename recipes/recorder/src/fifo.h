/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FIFO that is a channel's writer: programs that know nothing of the recorder
 * write to it, each line or each record_size bytes is a record. The recorder makes
 * it. A FIFO has no way to say that there is no room, so it is always read, and
 * what finds no room is lost and told.
 */
#ifndef EKR_FIFO_H
#define EKR_FIFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingest.h"

struct fifo {
	struct handler on_fifo;
	struct ingest *ingest;
	struct channel *channel;
	int fd;			/* -1: not open */
	unsigned char *partial;	/* a record that is not whole yet, record_size bytes */
	size_t used;		/* of it */
	bool skipping;		/* the rest of a line that is too long */
	uint64_t retry_ns;	/* monotonic, open it not before */
	uint64_t quiet_until_ns;	/* monotonic, no word before of what its writer does wrong */
};

int fifo_init(struct fifo *f, struct ingest *in, struct channel *c, struct error *e);
/* Opens it when its channel is open: on each turn of the loop. What fails is the channel's no_fifo. */
void fifo_turn(struct fifo *f, uint64_t now_ns);
/* Takes what is there and closes it. */
void fifo_end(struct fifo *f);
/* Why a channel's FIFO is not open; false: it is, or there is none. */
bool fifo_amiss(struct channel *c, struct error *why);

#endif
