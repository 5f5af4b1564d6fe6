/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage thread: one io_uring for the stores of all channels. It waits for
 * nothing else than completions, the next time that a store is due, and being
 * woken; each I/O is issued by a kernel worker, so that one that blocks holds up
 * its own channel only.
 */
#ifndef EKR_STORAGE_H
#define EKR_STORAGE_H

#include <liburing.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "store.h"

/* head, its flush, data, flush */
#define STORAGE_STEPS	4

/* the chain that is under way for a store */
struct storage_chain {
	unsigned int waiting;			/* completions that are to come */
	int result;				/* of what failed first, 0: nothing yet */
	size_t expected[STORAGE_STEPS];		/* bytes that a step must bring */
};

struct storage {
	struct store *_Atomic *stores;		/* the caller's, by place; NULL: none */
	unsigned int count;			/* places */
	struct storage_chain *chains;		/* one a store */
	bool *registered;			/* its buffer is known to the ring */
	struct io_uring ring;
	pthread_t thread;
	int wake_fd;				/* eventfd: look at the stores */
	int done_fd;				/* eventfd: something has become durable; the caller's */
	_Atomic uint64_t took_ns;		/* when a medium last took something, monotonic */
	atomic_bool stop;			/* end when all is written, or given up */
	uint64_t stop_began_ns;			/* monotonic; once @stop */
	sem_t ended;				/* nothing more is begun */
	bool hangs;				/* but something is under way; once @ended */
	bool unregistered;			/* the ring accepts no buffers */
	_Atomic uint64_t turns;			/* of the loop */
	_Atomic uint64_t alive_ns;		/* when the loop last turned, monotonic */
};

/* @count: places for stores. @priority: of SCHED_FIFO, 0: none. */
int storage_start(struct storage *s, unsigned int count, int done_fd, int priority, struct error *e);
/* The main thread's: a store joins at place @i, which is free. */
void storage_add(struct storage *s, unsigned int i, struct store *store);
/* And leaves it: nothing more is written. False: its medium hangs, and it must stay. */
bool storage_remove(struct storage *s, unsigned int i);
void storage_wake(struct storage *s);
/* When a stop that began at @began_ns gives up what is not written by then, as it stands now; monotonic. */
uint64_t storage_stop_by(struct storage *s, uint64_t began_ns);
/*
 * Writes what there is, or gives it up, and ends the thread; @began_ns: of the whole
 * stop, monotonic. False: a medium hangs, and what the thread uses must stay: the
 * kernel does not let a thread end whose I/O is under way.
 */
bool storage_stop(struct storage *s, uint64_t began_ns);

#endif
