/* SPDX-License-Identifier: Apache-2.0 */
/* All memory of the process is locked, unless it exceeds LimitMEMLOCK=. Any thread. */
#ifndef EKR_MEMORY_H
#define EKR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Locks all memory, also what is mapped later. A failure is logged. */
void memory_lock(void);
/*
 * For a caller that gets no more locked memory (EAGAIN of mmap() and what calls it): unlocks everything,
 * and logs that once. False: nothing was locked, so the caller need not try again.
 */
bool memory_unlock(void);
/* mmap() with all pages populated. Unlocks everything if mmap() fails otherwise. @fd as for mmap(). */
void *memory_map(size_t size, int flags, int fd);

#endif
