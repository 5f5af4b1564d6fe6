/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: its way from the writer to the medium, and which thread has what.
 *
 *	intake (ingest thread) -> buffer -> store (storage thread) -> segments
 *
 * The segments are found and made by the channel's prepare thread, which sets
 * @open when the ingest thread may begin.
 */
#ifndef EKR_CHANNEL_H
#define EKR_CHANNEL_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "buffer.h"
#include "config.h"
#include "error.h"
#include "intake.h"
#include "marker.h"
#include "store.h"

struct channel {
	struct channel_config config;	/* until open its thread may change segment and segments (store.lock) */
	char file[NAME_MAX + 1];	/* its file, without .conf: what it is called where its name is none */
	struct error broken;		/* why the configuration is none; code 0: it is fine */
	struct buffer buffer;
	struct store store;
	struct intake intake;		/* the ingest thread's once open */
	int directory;			/* locked; -1: not open, or not there any more; of the keeper's thread while that runs */
	uint8_t id[16];			/* in all segments */
	uint32_t next_index;		/* of the next segment that is made */
	_Atomic uint32_t made;		/* segments that are ready */
	uint32_t closed;		/* that are there but cannot be opened: none is made for them; as next_index the keeper's */
	struct error less;		/* and why not; code 0: there are none */
	atomic_bool tried;		/* to open it, once */
	atomic_bool open;
	_Atomic pid_t writer;		/* who has it, 0: nobody */
	_Atomic int no_fifo;		/* errno: why its FIFO is not open; 0: it is, or there is none */
	bool in_order;			/* what was found had been stopped in order */
	struct marker found;		/* and this said so, or where a directory ends that came in its place; zeros: there was nothing */
	uint64_t found_after;		/* batches that had been written by then */
};

/* Memory and locks; a channel whose configuration is none gets no memory. */
int channel_open(struct channel *c, struct error *e);
void channel_close(struct channel *c);

/* Everything that was taken is on the medium: the next start has nothing to tell. */
void channel_mark_stopped(struct channel *c);

#endif
