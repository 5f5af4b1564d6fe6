/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for each channel. It does all that the channel's medium may hold up,
 * but for the records: opens the directory and finds what is in it, makes the
 * segments that are missing, at idle I/O priority but for the first two, looks
 * each 10 s whether directory and files are still what their names lead to, forgets
 * what is older than is retained by time, and in the end leaves the mark of an
 * orderly stop. So a medium that hangs holds up its own channels only. What fails
 * is tried again each 10 s.
 *
 * Of the channels on one medium, one at a time is looked into or gets a segment,
 * and first the one that has the fewest.
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

struct prepare;

struct keeper {
	struct prepare *prepare;
	struct channel *channel;
	pthread_t thread;
	bool started;			/* there is a thread: none for a channel whose configuration is none */
	char said[sizeof(((struct error *)0)->text)];	/* last, of what fails */
	/* under the lock: */
	dev_t medium;			/* that the channel is on, once its directory is open */
	bool live;			/* its channel is one */
	bool wake;			/* look at once */
	bool waits, works;		/* for its turn there; it has it */
	bool written;			/* no record of the channel will be any more: leave its mark */
	atomic_bool stop;		/* no more segments; set under the lock */
};

struct prepare {
	const struct recorder_config *config;
	struct channel *channels;
	unsigned int count;
	unsigned char *zeros;		/* 1 MiB, aligned; only read */
	int tried_fd;			/* eventfd: a channel has been tried; the caller's, -1: none */
	struct keeper *keepers;		/* one a channel */
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* a turn has ended, stop or written */
};

int prepare_open(struct prepare *p, const struct recorder_config *config, struct channel *channels,
		 unsigned int count, int tried_fd, struct error *e);
void prepare_close(struct prepare *p);

/*
 * One channel, in the caller's thread: what a recording left is found and its gap,
 * if any, is told. The first time of a channel makes its directory. Errors are also
 * the store's.
 */
int prepare_channel(struct prepare *p, struct channel *c, struct error *e);
/* Makes one more segment. 1: there are enough; -ECANCELED: stopped. */
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
void prepare_ask_all_to_stop(struct prepare *p);
/*
 * When no record of a channel will be written any more: a channel of which everything is on the
 * medium is marked, and its thread ends. False: the thread hangs in its medium after 4 s, and what
 * it uses must stay.
 */
bool prepare_release(struct prepare *p, unsigned int i);
bool prepare_end(struct prepare *p);

#endif
