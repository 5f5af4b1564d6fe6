/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: the way of its records from the writer to the medium, and which thread owns what.
 *
 *	intake (ingest thread) -> buffer -> store (storage thread) -> segments
 *
 * The channel's prepare thread finds and creates the segments. It sets @open when the ingest thread may
 * begin.
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

/* A request to keep a range: the ingest thread asks, and the prepare thread answers. */
enum keep_state { KEEP_NONE, KEEP_ASKED, KEEP_DONE };
struct keep_request {
	_Atomic int state;		/* enum keep_state: each thread writes only in its turn */
	bool owned;			/* a connection waits for the answer; of the ingest thread */
	char incident[EKR_NAME_MAX + 1];
	int64_t from_ns, to_ns;		/* real time */
	int result;			/* number of segments, or -errno and the reason */
	struct error error;
};

/* The use of a place for a channel. The main thread sets all values except LEFT. */
enum channel_use {
	CHANNEL_UNUSED,
	CHANNEL_USED,
	CHANNEL_LEAVING,	/* removed from the configuration: the ingest thread takes what was submitted */
	CHANNEL_LEFT,		/* the ingest thread has closed its connections */
};

struct channel {
	_Atomic int use;		/* enum channel_use; the first member, see set_place() in cmd_run.c */
	struct channel_config declared;	/* as in its file; config also has what follows from its segments */
	uint64_t leaving_ns;		/* monotonic: when it began to leave */
	struct channel_config config;	/* until it is open, its prepare thread may change segment and segments (store.lock) */
	char file[NAME_MAX + 1];	/* name of its file without .conf; shown also if it is no valid name */
	struct error broken;		/* why the configuration is invalid; code 0: it is valid */
	struct error outdated;		/* why its file, as it is now, is not in force; code 0: it is */
	struct buffer buffer;
	struct store store;
	struct keep_request keep;
	struct intake intake;		/* of the ingest thread, once open */
	int directory;			/* -1: not open, or gone; of the prepare thread while that runs */
	int lock;			/* descriptor of the locked file in it; -1: not open; of the prepare thread */
	uint8_t id[16];			/* channel_id of all segments */
	uint32_t next_index;		/* of the next segment that is created */
	_Atomic uint32_t made;		/* segments that are ready */
	uint32_t closed;		/* segments that exist but cannot be opened; none is created in their place; of the prepare thread */
	struct error less;		/* why it has fewer or more segments than configured; code 0: it has as many */
	atomic_bool tried;		/* the prepare thread has tried once to open it */
	atomic_bool open;
	unsigned int writers;		/* connections that have opened it; of the ingest thread */
	_Atomic pid_t writer;		/* process of one of these; 0: none */
	bool in_order;			/* the recording that was found had been shut down cleanly */
	struct marker found;		/* the marker that was found, or the end of the recording in a directory that was mounted again; zeros: none */
	uint64_t found_after;		/* batches that had been written when it was found */
};

/* Memory and locks. A channel whose configuration is invalid gets no memory. */
int channel_open(struct channel *c, struct error *e);
void channel_close(struct channel *c);

/* Writes the clean-shutdown marker. Everything that was accepted is on the medium. */
void channel_mark_stopped(struct channel *c);

/*
 * Reads DIR/recorder.conf, which may be missing, and the files in DIR/channels.d in the order of their
 * names. Returns the number of channels. An invalid channel is logged and has its error in `broken`. A
 * negative errno: recorder.conf is invalid, or the directory cannot be read.
 */
int load_config(const char *dir, struct recorder_config *config, struct channel channels[CHANNELS_MAX],
		struct error *e);

#endif
