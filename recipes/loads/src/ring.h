/* SPDX-License-Identifier: Apache-2.0 */
/* The part of io_uring that the player and the loader use. */
#ifndef EK_RING_H
#define EK_RING_H

#include <liburing.h>
#include <signal.h>
#include <stdint.h>

/* number of entries in the ring, and so the largest number of reads and writes in flight */
#define RING_ENTRIES	64

void ring_open(struct io_uring *ring);

/*
 * Prepares a read or write of less than 4 GiB. A kernel worker in the program's cgroup
 * issues it (IOSQE_ASYNC). So if it has to wait for scheduler tags or for the page cache,
 * the program does not wait: it keeps its timing, and reacts to SIGTERM. The completion
 * has `tag` as its user_data.
 */
void ring_read(struct io_uring *ring, int fd, void *to, uint64_t bytes, uint64_t offset,
	       uint64_t tag);
void ring_write(struct io_uring *ring, int fd, const void *from, uint64_t bytes,
		uint64_t offset, uint64_t tag);

/* Submits all prepared reads and writes; path is for error messages. */
void ring_submit(struct io_uring *ring, const char *path);

/* Waits for a completion, for the time `until` (ns), or for a signal that mask allows. */
void ring_wait(struct io_uring *ring, uint64_t now, uint64_t until, const sigset_t *mask,
	       const char *path);

/* Number of bytes that an I/O transferred. If it failed, prints "cannot ACTION PATH" and ends. */
uint64_t ring_result(const struct io_uring_cqe *cqe, const char *action, const char *path);

#endif
