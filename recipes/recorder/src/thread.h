/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, and their memory. All memory of the process is locked, unless it exceeds LimitMEMLOCK=. So threads have
 * a small stack.
 */
#ifndef EKR_THREAD_H
#define EKR_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* @priority: of SCHED_FIFO; 0: that of the caller. All signals are blocked in the thread. */
int thread_start(pthread_t *thread, const char *name, int priority, void *(*run)(void *), void *arg,
		 struct error *e);

/* A mutex that inherits priority. */
void thread_mutex(pthread_mutex_t *mutex);

/* Waits for the end of a thread until @until_ns (monotonic); false: it still runs. */
bool thread_join(pthread_t thread, uint64_t until_ns);

/* Locks all memory, also what is mapped later. A failure is logged. */
void memory_lock(void);
/* mmap() with all pages populated. Unlocks everything if mmap() fails otherwise. @fd as for mmap(). */
void *memory_map(size_t size, int flags, int fd);

#endif
