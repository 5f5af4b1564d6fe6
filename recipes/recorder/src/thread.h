/* SPDX-License-Identifier: Apache-2.0 */
/* Threads with a small stack, because all of it is locked in memory. */
#ifndef EKR_THREAD_H
#define EKR_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"

/* @priority: of SCHED_FIFO; 0: that of the caller. All signals are blocked in the thread. */
int thread_start(pthread_t *thread, const char *name, int priority, void *(*run)(void *), void *arg,
		 struct error *e);

/* A mutex that inherits priority. */
void thread_mutex(pthread_mutex_t *mutex);

/* Waits for the end of a thread until @until_ns (monotonic); false: it still runs. */
bool thread_join(pthread_t thread, uint64_t until_ns);

#endif
