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
#include "rings.h"
#include "store.h"

/* A request to keep a range: the ingest thread asks, the keeper answers, under its lock. */
enum keep_state { KEEP_NONE, KEEP_ASKED, KEEP_DONE };
struct keep_request {
	_Atomic int state;		/* enum keep_state: each side writes only in its turn */
	bool owned;			/* a connection waits for the answer; the ingest thread's */
	char incident[EKR_NAME_MAX + 1];
	int64_t from_ns, to_ns;		/* real time */
	int result;			/* segments, or -errno and the reason */
	struct error error;
};

/* A place for a channel. The main thread sets all but LEFT. */
enum channel_use {
	CHANNEL_UNUSED,
	CHANNEL_USED,
	CHANNEL_LEAVING,	/* removed from the configuration: the ingest thread takes what was submitted */
	CHANNEL_LEFT,		/* and has closed its connections */
};

struct channel {
	_Atomic int use;		/* enum channel_use; the first, see set_place() in cmd_run.c */
	struct channel_config declared;	/* as in its file; config has what follows from its segments */
	uint64_t leaving_ns;		/* monotonic: when it began to leave */
	struct channel_config config;	/* until open its thread may change segment and segments (store.lock) */
	char file[NAME_MAX + 1];	/* its file, without .conf: what it is called where its name is none */
	struct error broken;		/* why the configuration is invalid; code 0: it is valid */
	struct error outdated;		/* why its file, as it is now, is not in force; code 0: it is */
	struct buffer buffer;
	struct store store;
	struct keep_request keep;
	struct rings rings;		/* of its writers; none with ring = no */
	struct intake intake;		/* the ingest thread's once open */
	int directory;			/* locked; -1: not open, or not there any more; of the keeper's thread while that runs */
	uint8_t id[16];			/* in all segments */
	uint32_t next_index;		/* of the next segment that is made */
	_Atomic uint32_t made;		/* segments that are ready */
	uint32_t closed;		/* that are there but cannot be opened: none is made for them; as next_index the keeper's */
	struct error less;		/* and why not; code 0: there are none */
	atomic_bool tried;		/* to open it, once */
	atomic_bool open;
	unsigned int writers;		/* connections that have it; the ingest thread's */
	_Atomic pid_t writer;		/* the process of the last of them; 0: none */
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
