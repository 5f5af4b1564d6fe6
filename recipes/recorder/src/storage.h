/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread for each channel writes what its store decides: a batch with pwrite(), then fdatasync(). A
 * medium that blocks delays only its own channel.
 *
 * A batch that is due because its oldest record is half a window old is written at once. A full batch, or one for
 * which a sync waits, is written while no other channel writes to the medium. Such channels take turns, and none
 * waits for longer than 0.1 s: another chain may hang. So fast writers of other channels hardly delay a batch that
 * is due.
 */
#ifndef EKR_STORAGE_H
#define EKR_STORAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "store.h"

/* A medium that accepts nothing is waited for as long as a slow card needs for one batch. */
#define SHUTDOWN_TIME (1500 * NSEC_PER_MSEC)
/* A medium that accepts data is waited for as long. */
#define SHUTDOWN_MOST (5 * NSEC_PER_SEC)

/*
 * When a shutdown that began at @began_ns gives up what is not written yet, if a medium last accepted
 * something at @took_ns; all monotonic.
 */
static inline uint64_t shutdown_by(uint64_t began_ns, uint64_t took_ns)
{
	uint64_t by = (took_ns > began_ns ? took_ns : began_ns) + SHUTDOWN_TIME;

	return by < began_ns + SHUTDOWN_MOST ? by : began_ns + SHUTDOWN_MOST;
}

/* The writer of one channel. */
struct storage_writer {
	struct storage *storage;
	struct store *_Atomic store;	/* of the caller; NULL: this place is unused */
	pthread_t thread;
	/* eventfd: the thread should look at the store; -1: none yet. Stays open, because any thread may write to it */
	int wake_fd;
	atomic_bool leave;		/* begin no more I/O, and end */
	/* under the lock: */
	uint64_t medium;		/* of its store */
	bool writing;
	uint64_t waits_ns;		/* monotonic: since when it waits for its turn; 0: it does not */
};

struct storage {
	struct storage_writer *writers;	/* one for each place */
	unsigned int count;		/* places */
	int priority;			/* of SCHED_FIFO; 0: none */
	pthread_mutex_t lock;		/* inherits priority; held for some microseconds, outside the locks of stores */
	int done_fd;			/* eventfd of the caller: something has become durable */
	_Atomic uint64_t took_ns;	/* monotonic: when a medium last accepted something */
	_Atomic uint64_t stop_began_ns;	/* monotonic: when the shutdown began; 0: it did not */
};

/* @count: places for stores. @priority: of SCHED_FIFO, 0: none. */
int storage_start(struct storage *s, unsigned int count, int done_fd, int priority, struct error *e);
/* Of the main thread: starts to write @store, in place @i, which is free. */
int storage_add(struct storage *s, unsigned int i, struct store *store, struct error *e);
/* Of the main thread: ends that. False: the medium hangs, and the store must stay. */
bool storage_remove(struct storage *s, unsigned int i);
/* Of any thread: place @i has something to write, or has to stop. Nothing happens if it is unused. */
void storage_wake(struct storage *s, unsigned int i);
/* shutdown_by() as of now. */
uint64_t storage_stop_by(struct storage *s, uint64_t began_ns);
/*
 * Writes everything, or gives it up, and ends all threads. @began_ns: when the shutdown began, monotonic.
 * False: a medium hangs, and what its thread uses must stay: the kernel does not end a thread whose I/O
 * is under way.
 */
bool storage_stop(struct storage *s, uint64_t began_ns);
/* Frees the places. Only after storage_stop() returned true, and when no thread calls storage_wake() any more. */
void storage_close(struct storage *s);

#endif
