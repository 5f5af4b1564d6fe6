// SPDX-License-Identifier: Apache-2.0
/* The part of io_uring that the player and the loader use. */
#include "ring.h"

#include <errno.h>
#include <string.h>

#include "util.h"

void ring_open(struct io_uring *ring)
{
	int ret = io_uring_queue_init(RING_ENTRIES, ring, 0);

	if (ret)
		die("cannot set up io_uring: %s", strerror(-ret));
}

static struct io_uring_sqe *entry(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		die("more than %d reads or writes are in flight", RING_ENTRIES);
	return sqe;
}

void ring_read(struct io_uring *ring, int fd, void *to, uint64_t bytes, uint64_t offset,
	       uint64_t tag)
{
	struct io_uring_sqe *sqe = entry(ring);

	io_uring_prep_read(sqe, fd, to, (unsigned int)bytes, offset);
	sqe->flags |= IOSQE_ASYNC;
	sqe->user_data = tag;
}

void ring_write(struct io_uring *ring, int fd, const void *from, uint64_t bytes, uint64_t offset,
		uint64_t tag)
{
	struct io_uring_sqe *sqe = entry(ring);

	io_uring_prep_write(sqe, fd, from, (unsigned int)bytes, offset);
	sqe->flags |= IOSQE_ASYNC;
	sqe->user_data = tag;
}

void ring_submit(struct io_uring *ring, const char *path)
{
	int ret;

	/* Retry after a signal, so that all prepared reads and writes are submitted. */
	do {
		ret = io_uring_submit(ring);
	} while (ret == -EINTR || ret == -EAGAIN);
	if (ret < 0)
		die("cannot submit I/O to %s: %s", path, strerror(-ret));
}

void ring_wait(struct io_uring *ring, uint64_t now, uint64_t until, const sigset_t *mask,
	       const char *path)
{
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe;
	sigset_t allowed = *mask;
	int ret;

	if (until <= now)
		return;
	ts.tv_sec = (long long)((until - now) / NSEC_PER_SEC);
	ts.tv_nsec = (long long)((until - now) % NSEC_PER_SEC);
	ret = io_uring_wait_cqes(ring, &cqe, 1, &ts, &allowed);
	if (ret && ret != -ETIME && ret != -EINTR && ret != -EAGAIN)
		die("cannot wait for I/O on %s: %s", path, strerror(-ret));
}

uint64_t ring_result(const struct io_uring_cqe *cqe, const char *action, const char *path)
{
	if (cqe->res < 0)
		die("cannot %s %s: %s", action, path, strerror(-cqe->res));
	return (uint64_t)cqe->res;
}
