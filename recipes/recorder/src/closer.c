// SPDX-License-Identifier: Apache-2.0
/* The thread that closes what may be slow to close. */
#include "closer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "ingest.h"
#include "thread.h"

/*
 * An empty pipe takes at once: a batch less one, the batch that makes it be behind, and the sockets and rings of
 * all connections including the one that is refused.
 */
_Static_assert((2 * CLOSER_BATCH + 2 * (SESSIONS_MAX + 1)) * sizeof(int) <= PIPE_BUF,
	       "giving never waits");

static void *run(void *arg)
{
	struct closer *c = arg;
	int from = c->from, fd;

	/* each write is atomic, so no part of a number is read */
	while (read(from, &fd, sizeof(fd)) == (ssize_t)sizeof(fd)) {
		close(fd);
		atomic_fetch_sub(&c->pending, 1);
	}
	close(from);
	return NULL;
}

int closer_start(struct closer *c, struct error *e)
{
	pthread_t thread;
	int ends[2], ret;

	if (pipe2(ends, O_CLOEXEC))
		return set_errno(e, errno, "creating a pipe");
	*c = (struct closer){ .from = ends[0], .to = ends[1] };
	ret = thread_start(&thread, "closer", 0, run, c, e);
	if (ret) {
		close(ends[0]);
		close(ends[1]);
		return ret;
	}
	pthread_detach(thread);
	return 0;
}

bool closer_behind(struct closer *c)
{
	return atomic_load_explicit(&c->pending, memory_order_relaxed) >= CLOSER_BATCH;
}

void closer_give(struct closer *c, const int *fds, unsigned int count)
{
	atomic_fetch_add(&c->pending, count);
	(void)!write(c->to, fds, count * sizeof(*fds));
}

void closer_end(struct closer *c)
{
	close(c->to);
}
