/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for each channel does everything that the channel's medium may delay, except writing
 * records. So a medium that hangs delays its own channels only. The thread
 *
 * - opens the directory and finds what it holds;
 * - creates the missing segments, at idle I/O priority except for the first two;
 * - checks every 10 s whether directory and files are still what their names lead to;
 * - deletes records that are older than `retain_time`;
 * - at the end leaves the clean-shutdown marker.
 *
 * What fails is tried again every 10 s. Of the channels on one medium, one at a time is opened or gets
 * a segment. The channel with the fewest segments goes first.
 */
#ifndef EKR_PREPARE_H
#define EKR_PREPARE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "channel.h"
#include "config.h"
#include "error.h"

#define PREPARE_ZEROS ((size_t)1 << 20)

struct prepare;
struct storage;

struct keeper {
	struct prepare *prepare;
	struct channel *channel;
	pthread_t thread;
	bool started;			/* there is a thread; none for a channel whose configuration is invalid */
	char logged[sizeof(((struct error *)0)->text)];	/* the last failure that was logged */
	/* under the lock: */
	dev_t medium;			/* that the channel is on, once its directory is open */
	bool live;			/* its channel is configured */
	bool wake;			/* begin the next round at once */
	bool waits, works;		/* for its turn on the medium; it has it */
	bool written;			/* no record of the channel will be written any more: leave the marker */
	atomic_bool stop;		/* create no more segments; set under the lock */
};

struct prepare {
	const struct recorder_config *config;
	struct channel *channels;
	unsigned int count;
	unsigned char *zeros;		/* PREPARE_ZEROS bytes, aligned; only read */
	int tried_fd;			/* eventfd: a channel has been tried; the caller's, -1: none */
	struct storage *storage;	/* woken when a channel gets a segment; the caller's, NULL: none */
	struct keeper *keepers;		/* one a channel */
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* a turn has ended, stop or written */
};

int prepare_open(struct prepare *p, const struct recorder_config *config, struct channel *channels,
		 unsigned int count, int tried_fd, struct error *e);
void prepare_close(struct prepare *p);

/*
 * Opens one channel in the caller's thread: finds what a recording left, and reports its gap, if any.
 * Creates the directory of a new channel. Errors are also the store's.
 */
int prepare_channel(struct prepare *p, struct channel *c, struct error *e);
/* Creates one more segment. 1: there are enough; -ECANCELED: stopped. */
int prepare_segment(struct prepare *p, struct channel *c, struct error *e);

/*
 * Starts the thread of channel @i, and waits for nothing. The thread sets the channel's @tried, and
 * @open when it may be recorded in. None for a channel whose configuration is invalid.
 */
int prepare_keep(struct prepare *p, unsigned int i, struct error *e);
/* The channel's thread looks at once, for a request to keep a range. Any thread. */
void prepare_wake(struct prepare *p, const struct channel *c);
/* Every channel has been tried once. */
bool prepare_tried(const struct prepare *p);
/* No more segments. */
void prepare_ask_to_stop(struct prepare *p, unsigned int i);
/*
 * When no record of a channel will be written any more: a channel of which everything is on the
 * medium is marked, and its thread ends. False: the thread hangs in its medium after @time_ns (for all: 4 s), and
 * what it uses must stay. May be called again.
 */
bool prepare_release(struct prepare *p, unsigned int i, uint64_t time_ns);
bool prepare_end(struct prepare *p);

/* --- for keeper.c: what a prepare thread does --- */

/* The thread; @arg: its struct keeper. */
void *keeper_run(void *arg);
/* Waits for the turn of the channel on its medium. False: the thread is to stop. */
bool keeper_take_turn(struct keeper *k);
void keeper_end_turn(struct keeper *k);
/* Waits until then (monotonic), or until prepare_wake() or a stop. */
void keeper_pause_until(struct keeper *k, uint64_t until_ns);

#endif
