/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring as both the player and the loader use it. */
#ifndef EK_RING_H
#define EK_RING_H

#include <liburing.h>
#include <signal.h>
#include <stdint.h>

/* entries of the ring: more reads or writes than this are never outstanding */
#define RING_ENTRIES	64

void ring_open(struct io_uring *ring);

/*
 * Prepares a read or write of up to 4 GiB, to be issued by a kernel worker in
 * our cgroup: waiting for tags or for the page cache must neither stop our
 * clock nor keep SIGTERM out. tag comes back as the completion's user_data.
 */
void ring_read(struct io_uring *ring, int fd, void *to, uint64_t bytes, uint64_t offset,
	       uint64_t tag);
void ring_write(struct io_uring *ring, int fd, const void *from, uint64_t bytes,
		uint64_t offset, uint64_t tag);

/* Submits what has been prepared; path is for the message if that fails. */
void ring_submit(struct io_uring *ring, const char *path);

/* Waits until something completes, `until` comes, or a signal let in by mask. */
void ring_wait(struct io_uring *ring, uint64_t now, uint64_t until, const sigset_t *mask,
	       const char *path);

/* How many bytes the completion brought; ends the program after an error. */
uint64_t ring_result(const struct io_uring_cqe *cqe, const char *doing, const char *path);

#endif
