/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which chunk of a channel is written next, where and when, and what follows from a failure. The store only
 * decides. storage.c does the I/O, and tests run the store without I/O.
 *
 * At most one write of a channel is under way. A batch that fails is written once more, in the next segment.
 * If that fails as well, its records are lost. From then on the store tries only to write a gap that
 * reports them, at growing intervals, until the medium accepts it. Meanwhile the buffer fills and overruns.
 */
#ifndef EKR_STORE_H
#define EKR_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "batch.h"
#include "buffer.h"
#include "clock.h"
#include "config.h"
#include "error.h"
#include "format.h"
#include "../../common/src/hist.h"

/* I/O that takes longer is reported as a medium that hangs. A slow card with a full queue takes seconds. */
#define STORE_HANGS (10 * NSEC_PER_SEC)

/*
 * Writes for a sync take at most an eighth of the medium's time: after one of them the next waits
 * for seven times as long as it took, unless half a window is over before. So a loop of syncs
 * leaves the medium to the other channels. A single sync is served at once.
 */
#define STORE_SYNC_REST 7

enum store_state {
	STORE_CLOSED,		/* there are no segments yet */
	STORE_PREPARING,	/* fewer than two segments are ready */
	STORE_RECORDING,
	STORE_FAILED,		/* the medium fails or hangs, or the channel could not be opened */
};

struct segment {
	uint64_t generation;	/* of its last use; 0: never used */
	uint64_t opened_ns;	/* monotonic: when that use began; 0: in an earlier boot */
	int64_t opened_realtime_ns;
	uint32_t index;
	int fd;
};

/* A chain of I/O in this order. It ends with a flush of the data. */
struct store_write {
	int fd;
	const unsigned char *head;	/* of the segment: EKR_BLOCK bytes at offset 0, and a flush; NULL: none */
	const unsigned char *data;
	size_t length;
	uint64_t offset;
	/* for store_seal(): */
	struct chunk *chunk;
	struct record_use use;
	uint64_t batch;		/* number */
};

struct store_counts {
	uint64_t durable;	/* records */
	uint64_t failed;	/* records lost because the medium failed to write them */
	uint64_t late;		/* records that became durable later than the window */
	uint64_t errors;	/* writes that failed */
	uint64_t batches;
	uint64_t bytes;		/* written, including heads and zeros */
	uint64_t synced_ns;	/* monotonic: the last flush; 0: none */
	struct hist write;	/* us, from the start of a chain to its end */
	struct hist record;	/* us, from the submission of a record until it was durable */
};

struct store {
	const struct channel_config *config;
	struct buffer *buffer;
	_Atomic uint64_t durable_to;	/* all sequences below are on the medium, or lost */
	_Atomic uint64_t wanted_to;	/* a sync or a request to keep a range waits for all sequences below: write without gathering more */
	atomic_bool stopping;		/* write everything at once */
	_Atomic uint64_t medium;	/* st_dev of the channel's directory; 0: not known yet */

	pthread_mutex_t lock;		/* for what follows; inherits priority; nothing that blocks is called under it */
	enum store_state state;
	struct error reason;		/* of STORE_FAILED, or the last failure that persists */
	struct segment *segments;	/* space for SEGMENTS_MAX */
	unsigned int count;
	unsigned int current;		/* the segment in use; count: none */
	uint64_t generation;		/* the greatest that was given */
	uint64_t offset;		/* of the next batch, bytes */
	uint64_t batch;			/* number of the next batch */
	unsigned char *head;		/* EKR_BLOCK bytes, aligned to EKR_BLOCK */
	struct record_use use;		/* of the segment in use */
	uint8_t channel_id[16];
	uint8_t boot_id[16];

	struct chunk *writing;		/* the chunk that is under way; NULL: none */
	struct chunk *again, **again_end;	/* chunks to write again, oldest first */
	bool busy;			/* a chain is under way */
	bool hasty;			/* the chain is for a sync */
	bool fresh;			/* the chain is the first in its use of the segment */
	uint64_t began_ns;		/* monotonic: when the chain began */
	bool hangs;			/* the chain has not ended for STORE_HANGS */
	uint64_t haste_ns;		/* monotonic: no write for a sync before */
	unsigned int failures;		/* failed chains in a row */
	uint64_t retry_ns;		/* monotonic: no chain before */
	struct chunk gap;		/* the gap that reports what was given up; used 0: none is ready */
	uint64_t lost_first, lost_next;	/* sequences that it has to report: from the first, below the next; equal: none */
	struct store_counts counts;
};

int store_open(struct store *s, const struct channel_config *config, struct buffer *buffer,
	       struct error *e);
void store_close(struct store *s);

/* The head of a segment that was never used. */
struct ekr_segment_head store_head(const struct store *s, uint32_t index);
/* Sets what recovery found, before the first segment is added. */
void store_set(struct store *s, uint64_t generation, uint64_t next_sequence,
	       const uint8_t channel_id[16], const uint8_t boot_id[16]);
/* Adds a segment; the store closes its descriptor. -ENOSPC: there are SEGMENTS_MAX. */
int store_add(struct store *s, const struct segment *segment);
/* The next batch goes to segment @index, added before, at @offset: there a clean shutdown ended. */
void store_continue(struct store *s, uint32_t index, uint64_t offset, uint64_t batch);
/* The next use gets a generation above this one. */
void store_pass(struct store *s, uint64_t generation);
/* Sets why the channel cannot be opened or is degraded. Code 0: it is complete. */
void store_fail(struct store *s, const struct error *why);

/*
 * Removes the segment with the oldest use if all its records are older than the channel retains by time, and
 * returns it with its descriptor. False: there is none. Times are CLOCK_MONOTONIC, which begins with the
 * boot, and CLOCK_REALTIME, which counts for uses of earlier boots once the boot is 10 min old. A use
 * whose age is not known stays.
 */
bool store_expire(struct store *s, uint64_t now_ns, int64_t now_realtime_ns, struct segment *gone);

/* The segment at place @i; false: there are not so many. */
bool store_segment(struct store *s, unsigned int i, struct segment *segment);
/*
 * Removes a segment whose file is no longer what it was; its descriptor becomes the caller's. False: a
 * write to it is under way; no other one will follow.
 */
bool store_drop(struct store *s, uint32_t index);

/*
 * The chain to begin now; false: none. store_seal() must follow before it is written, and store_done() when it has
 * ended. @alone: also a batch that is full, or for which a sync waits. Without it only a batch that is due because
 * its oldest record is half a window old, a repetition, a gap, and everything at a shutdown.
 */
bool store_next(struct store *s, uint64_t now_ns, bool alone, struct store_write *w);
/* Makes the batch valid for its place. Takes long for a large batch, and needs no lock: the store is busy. */
void store_seal(const struct store_write *w);
/* @result: 0, or -errno of the first step that failed. True: durable_to may have changed. */
bool store_done(struct store *s, uint64_t now_ns, int result);
/*
 * If the chain takes longer than STORE_HANGS, the store counts as failed until the chain ends; this is logged
 * once. To be called regularly.
 */
void store_watch(struct store *s, uint64_t now_ns);
/*
 * The state, and the reason if it is closed, failed or degraded. A medium that hangs counts as
 * failed.
 */
enum store_state store_state(struct store *s, struct error *reason);
/* When store_next() may return a chain, monotonic; UINT64_MAX: not by time alone. */
uint64_t store_due(struct store *s, uint64_t now_ns, bool alone);
/* Everything that was accepted is on the medium. */
bool store_idle(struct store *s);
/* Begins no more chains; false: one is under way. */
bool store_rest(struct store *s);

#endif
