// SPDX-License-Identifier: Apache-2.0
/* The storage thread. */
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "shutdown.h"
#include "thread.h"

#define WAKE_TAG       UINT64_MAX
#define ERROR_PAUSE_US 10000

enum step { HEAD, HEAD_FLUSH, DATA, FLUSH };

void storage_wake(struct storage *s)
{
	uint64_t one = 1;

	/* the counter of an eventfd does not fill up */
	(void)!write(s->wake_fd, &one, sizeof(one));
}

/*
 * Adds a step of a chain, and links the step before it to it. There is always a free entry: the ring has one
 * for each step of all chains.
 */
static struct io_uring_sqe *add_step(struct storage *s, unsigned int i, enum step step,
				     struct io_uring_sqe *before)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);

	if (before)
		before->flags |= IOSQE_IO_LINK;
	s->chains[i].expected[step] = 0;
	s->chains[i].waiting++;
	return sqe;
}

static void finish_step(struct io_uring_sqe *sqe, unsigned int i, enum step step)
{
	sqe->flags |= IOSQE_ASYNC;
	sqe->user_data = (uint64_t)i * STORAGE_STEPS + (uint64_t)step;
}

static bool in_registered(const struct storage *s, unsigned int i, const unsigned char *data)
{
	const struct buffer *b = atomic_load(&s->stores[i])->buffer;

	return s->registered[i] && data >= b->memory && data < b->memory + b->count * b->chunk_size;
}

static void begin(struct storage *s, unsigned int i, const struct store_write *w)
{
	struct io_uring_sqe *sqe = NULL;

	s->chains[i].result = 0;
	if (w->head) {
		sqe = add_step(s, i, HEAD, sqe);
		io_uring_prep_write(sqe, w->fd, w->head, EKR_BLOCK, 0);
		s->chains[i].expected[HEAD] = EKR_BLOCK;
		finish_step(sqe, i, HEAD);
		/* the head must be durable before its records: they count only with it */
		sqe = add_step(s, i, HEAD_FLUSH, sqe);
		io_uring_prep_fsync(sqe, w->fd, IORING_FSYNC_DATASYNC);
		finish_step(sqe, i, HEAD_FLUSH);
	}
	sqe = add_step(s, i, DATA, sqe);
	if (in_registered(s, i, w->data))
		io_uring_prep_write_fixed(sqe, w->fd, w->data, (unsigned int)w->length, w->offset,
					  (int)i);
	else
		io_uring_prep_write(sqe, w->fd, w->data, (unsigned int)w->length, w->offset);
	s->chains[i].expected[DATA] = w->length;
	finish_step(sqe, i, DATA);
	sqe = add_step(s, i, FLUSH, sqe);
	io_uring_prep_fsync(sqe, w->fd, IORING_FSYNC_DATASYNC);
	finish_step(sqe, i, FLUSH);
}

static void wait_for_wake(struct storage *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);

	io_uring_prep_poll_multishot(sqe, s->wake_fd, POLLIN);
	sqe->user_data = WAKE_TAG;
}

static void woken(struct storage *s, const struct io_uring_cqe *cqe)
{
	uint64_t count;

	(void)!read(s->wake_fd, &count, sizeof(count));
	if (!(cqe->flags & IORING_CQE_F_MORE))
		wait_for_wake(s);
}

static void completed(struct storage *s, const struct io_uring_cqe *cqe)
{
	unsigned int i = (unsigned int)(cqe->user_data / STORAGE_STEPS);
	unsigned int step = (unsigned int)(cqe->user_data % STORAGE_STEPS);
	struct storage_chain *chain = &s->chains[i];
	uint64_t now = monotonic_ns(), one = 1;
	int result = cqe->res < 0 ? cqe->res : 0;

	/* a short write breaks the chain, as an error does */
	if (!result && (size_t)cqe->res < chain->expected[step])
		result = -EIO;
	/* a cancelled step does not give the reason */
	if ((!chain->result || chain->result == -ECANCELED) && result)
		chain->result = result;
	if (--chain->waiting)
		return;
	if (!chain->result)
		atomic_store(&s->took_ns, now);
	store_done(atomic_load(&s->stores[i]), now, chain->result);
	(void)!write(s->done_fd, &one, sizeof(one));
}

uint64_t storage_stop_by(struct storage *s, uint64_t began_ns)
{
	return shutdown_by(began_ns, atomic_load(&s->took_ns));
}

/* true: everything that can be written is written, or the time is over */
static bool drained(struct storage *s, uint64_t now)
{
	uint64_t by = storage_stop_by(s, s->stop_began_ns);

	if (now >= by)
		return true;
	for (unsigned int i = 0; i < s->count; i++) {
		struct store *store = atomic_load(&s->stores[i]);

		if (store &&
		    (s->chains[i].waiting || (!store_idle(store) && store_due(store, now) < by)))
			return false;
	}
	return true;
}

static void *run(void *arg)
{
	struct storage *s = arg;

	wait_for_wake(s);
	while (!atomic_load(&s->stop) || !drained(s, monotonic_ns())) {
		uint64_t now = monotonic_ns(), until = now + NSEC_PER_SEC;
		struct __kernel_timespec wait;
		struct io_uring_cqe *cqe;
		unsigned int head, seen = 0;
		int ret;

		for (unsigned int i = 0; i < s->count; i++) {
			struct store *store = atomic_load(&s->stores[i]);
			struct store_write w;
			uint64_t due;

			if (!store)
				continue;
			if (!s->chains[i].waiting && store_next(store, now, &w))
				begin(s, i, &w);
			due = store_due(store, now);
			if (due < until)
				until = due;
		}
		atomic_fetch_add(&s->turns, 1);
		atomic_store(&s->alive_ns, now);
		/* the deadline may end the loop */
		if (atomic_load(&s->stop) && until > now + 20 * NSEC_PER_MSEC)
			until = now + 20 * NSEC_PER_MSEC;
		until = until > now ? until - now : 0;
		wait = (struct __kernel_timespec){
			.tv_sec = (long long)(until / NSEC_PER_SEC),
			.tv_nsec = (long long)(until % NSEC_PER_SEC),
		};
		ret = io_uring_submit_and_wait_timeout(&s->ring, &cqe, 1, &wait, NULL);
		/* the kernel is out of memory: pause, because with a priority this loop would take the CPU */
		if (ret < 0 && ret != -ETIME && ret != -EINTR)
			usleep(ERROR_PAUSE_US);
		io_uring_for_each_cqe(&s->ring, head, cqe)
		{
			seen++;
			if (cqe->user_data == WAKE_TAG)
				woken(s, cqe);
			else
				completed(s, cqe);
		}
		io_uring_cq_advance(&s->ring, seen);
	}
	for (unsigned int i = 0; i < s->count; i++)
		s->hangs |= s->chains[i].waiting;
	sem_post(&s->ended);
	while (s->hangs)
		pause();
	return NULL;
}

/* Without a registered buffer, each write pins its pages again, which is only slower. @b NULL: unregisters. */
static bool register_buffer(struct storage *s, unsigned int i, const struct buffer *b)
{
	const struct iovec piece = { b ? b->memory : NULL, b ? b->count * b->chunk_size : 0 };
	const __u64 tag = 0;
	int ret = io_uring_register_buffers_update_tag(&s->ring, i, &piece, &tag, 1);

	if (ret < 0 && b && !s->unregistered)
		log_warning(
			"registering buffers with io_uring: %s; continuing without, which is slower",
			strerror(-ret));
	s->unregistered |= ret < 0;
	return ret >= 0;
}

int storage_start(struct storage *s, unsigned int count, int done_fd, int priority, struct error *e)
{
	/* each channel may have one worker that hangs in the kernel, while those of others go on */
	unsigned int workers[2] = { count + 4, count + 4 };
	int ret;

	*s = (struct storage){ .count = count, .done_fd = done_fd };
	s->chains = calloc(count, sizeof(*s->chains));
	s->registered = calloc(count, sizeof(*s->registered));
	s->stores = calloc(count, sizeof(*s->stores));
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!s->chains || !s->registered || !s->stores || s->wake_fd < 0)
		return set_errno(e, errno, "setting up the storage thread");
	ret = io_uring_queue_init((count + 1) * (STORAGE_STEPS + 1), &s->ring, IORING_SETUP_CLAMP);
	if (ret)
		return set_errno(e, -ret, "setting up io_uring");
	ret = io_uring_register_iowq_max_workers(&s->ring, workers);
	if (ret)
		log_warning(
			"setting the number of io_uring workers: %s; continuing with the kernel's default",
			strerror(-ret));
	if (io_uring_register_buffers_sparse(&s->ring, count))
		s->unregistered = true;
	sem_init(&s->ended, 0, 0);
	atomic_store(&s->alive_ns, monotonic_ns());
	return thread_start(&s->thread, "storage", priority, run, s, e);
}

void storage_add(struct storage *s, unsigned int i, struct store *store)
{
	s->registered[i] = !s->unregistered && register_buffer(s, i, store->buffer);
	atomic_store(&s->stores[i], store);
	storage_wake(s);
}

bool storage_remove(struct storage *s, unsigned int i)
{
	const struct timespec pause = timespec_of(NSEC_PER_MSEC);
	struct store *store = atomic_load(&s->stores[i]);
	uint64_t turns;

	/* a chain that is under way uses the store's memory */
	if (!store_rest(store))
		return false;
	atomic_store(&s->stores[i], NULL);
	turns = atomic_load(&s->turns);
	do {
		storage_wake(s);
		nanosleep(&pause, NULL);
	} while (atomic_load(&s->turns) < turns + 2);
	if (s->registered[i])
		register_buffer(s, i, NULL);
	s->registered[i] = false;
	return true;
}

bool storage_stop(struct storage *s, uint64_t began_ns)
{
	s->stop_began_ns = began_ns;
	for (unsigned int i = 0; i < s->count; i++)
		if (atomic_load(&s->stores[i]))
			atomic_store(&atomic_load(&s->stores[i])->stopping, true);
	atomic_store(&s->stop, true);
	storage_wake(s);
	while (sem_wait(&s->ended) && errno == EINTR)
		;
	if (s->hangs)
		return false;
	pthread_join(s->thread, NULL);
	sem_destroy(&s->ended);
	io_uring_queue_exit(&s->ring);
	close(s->wake_fd);
	free(s->chains);
	free(s->registered);
	free(s->stores);
	return true;
}
