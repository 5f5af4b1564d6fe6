/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a channel's chunks get to its segments: which is written next, where, when,
 * and what follows from a failure. It decides only; storage.c does the I/O, and
 * tests play it without any.
 *
 * At most one write of a channel is under way. A batch is tried in its segment
 * and once more in the next one; if that fails too its records are lost, which a
 * gap will tell, and nothing but that gap is tried, at growing intervals, until
 * the medium takes it. Meanwhile the buffer fills, and then overruns.
 */
#ifndef EKR_STORE_H
#define EKR_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "clock.h"
#include "config.h"
#include "error.h"
#include "format.h"
#include "../../common/src/hist.h"

/* I/O that takes longer is told as a medium that hangs; a slow card with a full queue takes seconds */
#define STORE_HANGS (10 * NSEC_PER_SEC)

/*
 * Writes for a sync take at most an eighth of the medium's time: after one of them the next waits
 * for seven times as long as it took, unless half a window is over before. So a loop of syncs
 * leaves the medium to the other channels. A single sync is served at once.
 */
#define STORE_SYNC_REST 7

enum store_state {
	STORE_CLOSED,		/* no segments yet */
	STORE_PREPARING,	/* less than two segments are ready */
	STORE_RECORDING,
	STORE_FAILED,		/* the medium does not take what it is given, or the channel could not be opened */
};

struct segment {
	uint64_t generation;	/* of its use, 0: none */
	uint64_t opened_ns;	/* monotonic, when that began; 0: in an earlier boot */
	int64_t opened_realtime_ns;
	uint32_t index;
	int fd;
};

/* One chain of I/O, in this order. A flush of the data ends it. */
struct store_write {
	int fd;
	const unsigned char *head;	/* of the segment, EKR_BLOCK bytes at 0, and a flush; NULL: none */
	const unsigned char *data;
	size_t length;
	uint64_t offset;
};

struct store_counts {
	uint64_t durable;	/* records */
	uint64_t failed;	/* records lost because the medium did not take them */
	uint64_t late;		/* records that were durable later than the window */
	uint64_t errors;	/* writes that failed */
	uint64_t batches;
	uint64_t bytes;		/* written, with heads and zeros */
	uint64_t synced_ns;	/* monotonic, the last flush; 0: none */
	struct hist write;	/* µs, from the start of a chain to its end */
	struct hist record;	/* µs, from a record's submission until it was durable */
};

struct store {
	const struct channel_config *config;
	struct buffer *buffer;
	_Atomic uint64_t durable_to;	/* all sequences below are on the medium or given up */
	_Atomic uint64_t wanted_to;	/* somebody waits for these: no need to gather more */
	atomic_bool stopping;		/* write all there is */

	pthread_mutex_t lock;		/* for the rest; nothing that blocks is called under it */
	enum store_state state;
	struct error reason;		/* of STORE_FAILED, or the last one that is not over */
	struct segment *segments;	/* room for SEGMENTS_MAX */
	unsigned int count;
	unsigned int current;		/* the segment in use, count: none */
	uint64_t generation;		/* the greatest that was ever used */
	uint64_t offset;		/* of the next batch, bytes */
	uint64_t batch;			/* number of the next one */
	unsigned char *head;		/* EKR_BLOCK, aligned */
	struct record_use use;		/* of the segment in use */
	uint8_t channel_id[16];
	uint8_t boot_id[16];

	struct chunk *writing;		/* under way; NULL: none */
	struct chunk *again, **again_end;	/* to be written anew, oldest first */
	bool busy;			/* a chain is under way */
	bool hasty;			/* and it is for a sync */
	bool fresh;			/* and it is the first in its segment */
	uint64_t began_ns;		/* and when that was */
	bool hangs;			/* and it has not ended for STORE_HANGS */
	uint64_t haste_ns;		/* monotonic: no write for a sync before */
	unsigned int failures;		/* in a row */
	uint64_t retry_ns;		/* not before, monotonic */
	struct chunk gap;		/* the gap that tells what was given up; used 0: none is ready */
	uint64_t lost_first, lost_next;	/* sequences that it has to tell; equal: none */
	struct store_counts counts;
};

int store_open(struct store *s, const struct channel_config *config, struct buffer *buffer,
	       struct error *e);
void store_close(struct store *s);

/* After recovery, before the first segment. */
void store_set(struct store *s, uint64_t generation, uint64_t next_sequence,
	       const uint8_t channel_id[16], const uint8_t boot_id[16]);
/* One more is ready; the store closes @fd. -ENOSPC: there are SEGMENTS_MAX. */
int store_add(struct store *s, const struct segment *segment);
/* Goes on in a segment that was added, behind what an orderly stop left there. */
void store_continue(struct store *s, uint32_t index, uint64_t offset, uint64_t batch);
/* No use gets a generation up to this one any more. */
void store_pass(struct store *s, uint64_t generation);
/* The channel cannot be opened, or not all of it; code 0: it is whole. */
void store_fail(struct store *s, const struct error *why);

/*
 * Forgets the oldest use of a segment if its records are all older than the channel retains
 * by time, and returns that segment; the caller owns its fd then. false: there is none. Times
 * are CLOCK_MONOTONIC, which begins with the boot, and CLOCK_REALTIME, which counts for uses of
 * earlier boots once the boot is 10 min old. A use whose age cannot be told from that stays.
 */
bool store_expire(struct store *s, uint64_t now_ns, int64_t now_realtime_ns, struct segment *gone);

/* The one at place @i; false: there is none any more. */
bool store_segment(struct store *s, unsigned int i, struct segment *segment);
/*
 * Uses a segment no more: its file is not what it was; the caller owns its fd then.
 * False: not yet, it is being written; nothing more will be.
 */
bool store_drop(struct store *s, uint32_t index);

/* What is to be done now; false: nothing. Then store_done() must follow when it is. */
bool store_next(struct store *s, uint64_t now_ns, struct store_write *w);
/* @result: 0 or -errno of what failed first. True: durable_to may have changed. */
bool store_done(struct store *s, uint64_t now_ns, int result);
/* Is the medium of the chain that is under way hung? To be asked now and then; says so once. */
void store_watch(struct store *s, uint64_t now_ns);
/* The state, and the reason if it is closed, failed or lacks something; a medium that hangs is a failed one. */
enum store_state store_state(struct store *s, struct error *reason);
/* When store_next() may have something, monotonic; UINT64_MAX: not by time alone. */
uint64_t store_due(struct store *s, uint64_t now_ns);
/* All that was taken is on the medium. */
bool store_idle(struct store *s);
/* Begins nothing more; false: a write is under way. */
bool store_rest(struct store *s);

/*
 * When a stop that began at @began_ns gives up what is not written yet, if a medium last
 * took something at @took_ns; all monotonic. One that takes nothing is waited for as long
 * as a slow card needs for one batch; one that does, for the buffer that is behind it.
 */
#define STORE_STOP_TIME (1500 * NSEC_PER_MSEC)
#define STORE_STOP_MOST (5 * NSEC_PER_SEC)	/* the marks that follow may take 4 s, systemd waits 10 s */
uint64_t store_stop_by(uint64_t began_ns, uint64_t took_ns);

#endif
