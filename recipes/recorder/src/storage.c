// SPDX-License-Identifier: Apache-2.0
/* The threads that write. */
#include "storage.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "scope.h"
#include "thread.h"

/* time from one look at the store to the next during a shutdown, because its deadline has to be checked */
#define STOP_POLL (20 * NSEC_PER_MSEC)
/* longest wait of a channel for its turn on the medium */
#define TURN_MOST (100 * NSEC_PER_MSEC)

void storage_wake(struct storage *s, unsigned int i)
{
	/* the counter of an eventfd does not fill up */
	if (atomic_load(&s->writers[i].store))
		eventfd_write(s->writers[i].wake_fd, 1);
}

static int write_all(int fd, const unsigned char *data, size_t length, uint64_t offset)
{
	ssize_t n = TEMP_FAILURE_RETRY(pwrite(fd, data, length, (off_t)offset));

	/* the rest of a short write would begin within a block */
	return n < 0 ? -errno : (size_t)n < length ? -EIO : 0;
}

static int flush(int fd)
{
	return fdatasync(fd) ? -errno : 0;
}

/* Returns 0, or -errno of the first step that failed. */
static int write_chain(const struct store_write *w)
{
	int ret = 0;

	if (w->head) {
		ret = write_all(w->fd, w->head, EKR_BLOCK, 0);
		/* the head must be durable before its records: they count only with it */
		if (!ret)
			ret = flush(w->fd);
	}
	if (!ret)
		ret = write_all(w->fd, w->data, w->length, w->offset);
	return ret ? ret : flush(w->fd);
}

uint64_t storage_stop_by(struct storage *s, uint64_t began_ns)
{
	return shutdown_by(began_ns, atomic_load(&s->took_ns));
}

/* During a shutdown: has @store written everything that it can write in time? */
static bool is_drained(struct storage *s, struct store *store, uint64_t began, uint64_t now)
{
	uint64_t by = storage_stop_by(s, began);
	struct error reason;

	return now >= by || store_idle(store) ||
	       (store_due(store, now, true) >= by &&
		store_state(store, &reason) != STORE_PREPARING);
}

/* Waits until @until, or for storage_wake(). */
static void wait_until(const struct storage_writer *w, uint64_t until)
{
	struct pollfd woken = { .fd = w->wake_fd, .events = POLLIN };
	uint64_t now = monotonic_ns();
	struct timespec left = timespec_of(until > now ? until - now : 0);
	eventfd_t count;

	if (ppoll(&woken, 1, &left, NULL) > 0)
		eventfd_read(w->wake_fd, &count);
}

/* Under the lock: what @w did may have made it the turn of another channel. */
static void wake_others(const struct storage_writer *w)
{
	const struct storage *s = w->storage;

	for (unsigned int i = 0; i < s->count; i++) {
		const struct storage_writer *o = &s->writers[i];

		if (o != w && o->waits_ns && o->medium == w->medium)
			eventfd_write(o->wake_fd, 1);
	}
}

/*
 * Under the lock: no other channel writes to the medium, and none has waited for longer. After TURN_MOST, another
 * chain does not count: it may hang.
 */
static bool is_alone(const struct storage_writer *w, uint64_t now)
{
	const bool overdue = w->waits_ns && now >= w->waits_ns + TURN_MOST;
	const struct storage *s = w->storage;
	bool alone = true;

	for (unsigned int i = 0; i < s->count && alone; i++) {
		const struct storage_writer *o = &s->writers[i];

		if (o != w && o->medium == w->medium)
			alone = (overdue || !o->writing) &&
				(!o->waits_ns || (w->waits_ns && w->waits_ns <= o->waits_ns));
	}
	return alone;
}

/* Under the lock: the channel waits no more; it may have been the turn of another one. */
static void stop_waiting(struct storage_writer *w)
{
	if (!w->waits_ns)
		return;
	w->waits_ns = 0;
	wake_others(w);
}

/* The chain that @w may begin now. */
static bool take(struct storage_writer *w, struct store *store, uint64_t now,
		 struct store_write *next)
{
	const uint64_t medium = atomic_load(&store->medium);
	HOLD(&w->storage->lock);

	if (medium != w->medium)
		stop_waiting(w);
	w->medium = medium;
	w->writing = store_next(store, now, is_alone(w, now), next);
	if (w->writing || store_due(store, now, true) > now)
		stop_waiting(w);
	else if (!w->waits_ns)
		w->waits_ns = now;
	return w->writing;
}

/* When there is something to do without a wake-up. Only the thread itself sets waits_ns. */
static uint64_t due(const struct storage_writer *w, struct store *store, uint64_t now)
{
	uint64_t at = store_due(store, now, !w->waits_ns);

	/* after that, it is the turn of one that has waited for longer, which wakes this one */
	if (w->waits_ns && w->waits_ns + TURN_MOST > now && w->waits_ns + TURN_MOST < at)
		at = w->waits_ns + TURN_MOST;
	return at;
}

/* The chain has ended, or the thread ends. */
static void end_turn(struct storage_writer *w)
{
	HOLD(&w->storage->lock);

	w->writing = false;
	w->waits_ns = 0;
	wake_others(w);
}

static void *run(void *arg)
{
	struct storage_writer *w = arg;
	struct storage *s = w->storage;
	struct store *store = atomic_load(&w->store);

	while (!atomic_load(&w->leave)) {
		uint64_t now = monotonic_ns(), until, began = atomic_load(&s->stop_began_ns);
		struct store_write next;

		if (take(w, store, now, &next)) {
			int result;

			store_seal(&next);
			result = write_chain(&next);
			now = monotonic_ns();
			if (!result)
				atomic_store(&s->took_ns, now);
			store_done(store, now, result);
			eventfd_write(s->done_fd, 1);
			end_turn(w);
			continue;
		}
		if (began && is_drained(s, store, began, now))
			break;
		until = due(w, store, now);
		if (began && until > now + STOP_POLL)
			until = now + STOP_POLL;
		wait_until(w, until);
	}
	end_turn(w);
	return NULL;
}

int storage_start(struct storage *s, unsigned int count, int done_fd, int priority, struct error *e)
{
	*s = (struct storage){ .count = count, .done_fd = done_fd, .priority = priority };
	s->writers = calloc(count, sizeof(*s->writers));
	if (!s->writers)
		return set_errno(e, errno, "setting up the storage threads");
	thread_mutex(&s->lock);
	for (unsigned int i = 0; i < count; i++)
		s->writers[i].wake_fd = -1;
	return 0;
}

int storage_add(struct storage *s, unsigned int i, struct store *store, struct error *e)
{
	struct storage_writer *w = &s->writers[i];
	int ret;

	w->storage = s;
	if (w->wake_fd < 0)
		w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake_fd < 0)
		return set_errno(e, errno, "setting up a storage thread");
	atomic_store(&w->leave, false);
	atomic_store(&w->store, store);
	ret = thread_start(&w->thread, "storage", s->priority, run, w, e);
	if (ret)
		atomic_store(&w->store, NULL);
	return ret;
}

bool storage_remove(struct storage *s, unsigned int i)
{
	struct storage_writer *w = &s->writers[i];

	atomic_store(&w->leave, true);
	storage_wake(s, i);
	/* its I/O uses the memory of the store */
	if (!store_rest(atomic_load(&w->store)))
		return false;
	pthread_join(w->thread, NULL);
	atomic_store(&w->store, NULL);
	return true;
}

bool storage_stop(struct storage *s, uint64_t began_ns)
{
	const struct timespec pause = timespec_of(NSEC_PER_MSEC);
	bool ended = true;

	for (unsigned int i = 0; i < s->count; i++) {
		struct store *store = atomic_load(&s->writers[i].store);

		if (store)
			atomic_store(&store->stopping, true);
	}
	/* last: a thread that sees it takes a store whose batch is due only after the shutdown for one that is drained */
	atomic_store(&s->stop_began_ns, began_ns);
	for (unsigned int i = 0; i < s->count; i++)
		storage_wake(s, i);
	for (unsigned int i = 0; i < s->count; i++) {
		struct storage_writer *w = &s->writers[i];
		struct store *store = atomic_load(&w->store);
		bool hangs = false;

		while (store && !hangs && pthread_tryjoin_np(w->thread, NULL)) {
			if (monotonic_ns() >= storage_stop_by(s, began_ns))
				hangs = !store_rest(store);
			nanosleep(&pause, NULL);
		}
		if (!hangs)
			atomic_store(&w->store, NULL);
		ended &= !hangs;
	}
	return ended;
}

void storage_close(struct storage *s)
{
	for (unsigned int i = 0; i < s->count; i++)
		if (s->writers[i].wake_fd >= 0)
			close(s->writers[i].wake_fd);
	free(s->writers);
	pthread_mutex_destroy(&s->lock);
}
