/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prepare thread: opens each channel's directory and finds what is in it,
 * makes the segments that are missing, at idle I/O priority but for the first two
 * of a channel, and forgets what is older than is retained by time. What fails is
 * tried again each 10 s.
 */
#ifndef EKR_PREPARE_H
#define EKR_PREPARE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "channel.h"
#include "config.h"
#include "error.h"

struct prepare {
	const struct recorder_config *config;
	struct channel *channels;
	unsigned int count;
	unsigned char *buffer;		/* RECOVER_BUFFER bytes, aligned */
	unsigned char *zeros;		/* 1 MiB, aligned */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool tried;			/* every channel, once */
	atomic_bool stop;
};

int prepare_open(struct prepare *p, const struct recorder_config *config, struct channel *channels,
		 unsigned int count, struct error *e);
void prepare_close(struct prepare *p);

/*
 * One channel: what a recording left is found and its gap, if any, is told. The
 * first time of a channel makes its directory. Errors are also the store's.
 */
int prepare_channel(struct prepare *p, struct channel *c, struct error *e);
/* Makes one more segment. 1: there are enough; -ECANCELED: stopped. */
int prepare_segment(struct prepare *p, struct channel *c, struct error *e);

/* Puts back the mark of an orderly stop, if there was one: nothing has been recorded. */
int prepare_leave(struct channel *c, struct error *e);

/* As a thread; returns when every channel has been tried once, or after 20 s: a medium may hang. */
int prepare_start(struct prepare *p, struct error *e);
void prepare_ask_to_stop(struct prepare *p);
/* False: it hangs in a medium, and what it uses must stay. @by_ns: monotonic; a moment is waited in any case. */
bool prepare_join(struct prepare *p, uint64_t by_ns);

#endif
