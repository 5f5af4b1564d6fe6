/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage thread: one io_uring for the stores of all channels. The thread waits only for completions, for
 * the next time that a store is due, and to be woken. A kernel worker issues each I/O, so an I/O that
 * blocks delays its own channel only.
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

/* I/O of a chain: head, its flush, data, flush */
#define STORAGE_STEPS	4

/* The chain that is under way for a store. */
struct storage_chain {
	unsigned int waiting;			/* completions that are outstanding */
	int result;				/* of the first step that failed; 0: none yet */
	size_t expected[STORAGE_STEPS];		/* bytes that each step must write */
};

struct storage {
	struct store *_Atomic *stores;		/* of the caller, by place; NULL: none */
	unsigned int count;			/* places */
	struct storage_chain *chains;		/* one a store */
	bool *registered;			/* the buffer of the store is registered with the ring */
	struct io_uring ring;
	pthread_t thread;
	int wake_fd;				/* eventfd: the thread should look at the stores */
	int done_fd;				/* eventfd: something has become durable; of the caller */
	_Atomic uint64_t took_ns;		/* monotonic: when a medium last accepted something */
	atomic_bool stop;			/* end when everything is written or given up */
	uint64_t stop_began_ns;			/* monotonic; valid with @stop */
	sem_t ended;				/* the thread begins no more I/O */
	bool hangs;				/* after @ended: I/O is still under way */
	bool unregistered;			/* the ring accepts no buffers */
	_Atomic uint64_t turns;			/* of the loop */
	_Atomic uint64_t alive_ns;		/* monotonic: the last turn of the loop */
};

/* @count: places for stores. @priority: of SCHED_FIFO, 0: none. */
int storage_start(struct storage *s, unsigned int count, int done_fd, int priority, struct error *e);
/* Of the main thread: adds a store at place @i, which is free. */
void storage_add(struct storage *s, unsigned int i, struct store *store);
/* Removes it: nothing more is written. False: its medium hangs, and the store must stay. */
bool storage_remove(struct storage *s, unsigned int i);
void storage_wake(struct storage *s);
/* shutdown_by() as of now. */
uint64_t storage_stop_by(struct storage *s, uint64_t began_ns);
/*
 * Writes everything, or gives it up, and ends the thread. @began_ns: when the shutdown began, monotonic.
 * False: a medium hangs, and what the thread uses must stay: the kernel does not end a thread whose I/O
 * is under way.
 */
bool storage_stop(struct storage *s, uint64_t began_ns);

#endif
