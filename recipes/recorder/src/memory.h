/* SPDX-License-Identifier: Apache-2.0 */
/* All memory of the process is locked, as long as there is not more than may be. Any thread. */
#ifndef EKR_MEMORY_H
#define EKR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* What there is and what will be; where it may not be, that is told in the log. */
void memory_lock(void);
/*
 * For who gets no more (EAGAIN of mmap() and what calls it): nothing is locked from
 * here on, which is told in the log once. False: nothing was, to try again is no use.
 */
bool memory_unlock(void);
/* mmap() of pages that are there at once, unlocking all if else it is refused; @fd as for that. */
void *memory_map(size_t size, int flags, int fd);

#endif
