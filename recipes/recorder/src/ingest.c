// SPDX-License-Identifier: Apache-2.0
/* The ingest thread. */
#include "ingest.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "session.h"
#include "thread.h"
#include "wire.h"

#define EVENTS 32
/* connections that are accepted in one turn, and the time for that */
#define ACCEPTS	    16
#define ACCEPT_TIME (NSEC_PER_MSEC / 2)
/* time for a new connection to open a channel */
#define PATIENCE  (10 * NSEC_PER_SEC)
#define IDLE	  NSEC_PER_SEC
#define GAP_WAITS (20 * NSEC_PER_MSEC)
/* pause without descriptors or memory for one more connection */
#define DEAF NSEC_PER_SEC
/* time between two log lines that the closer is behind */
#define BEHIND_LOGGED_TIME (60 * NSEC_PER_SEC)
/* from one look at a channel that leaves to the next */
#define LEAVE_POLL (5 * NSEC_PER_MSEC)

int ingest_watch(struct ingest *in, int fd, struct handler *h, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = h };

	return epoll_ctl(in->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void ingest_unwatch(struct ingest *in, int fd)
{
	epoll_ctl(in->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void ingest_change(struct ingest *in, int fd, struct handler *h, uint32_t events)
{
	/* epoll always reports a hang-up; edge-triggered, so that it does so once */
	struct epoll_event event = { .events = events ? events : EPOLLET, .data.ptr = h };

	epoll_ctl(in->epoll, EPOLL_CTL_MOD, fd, &event);
}

void ingest_wake(struct ingest *in, struct channel *c)
{
	if (c->intake.wake)
		storage_wake(in->storage, (unsigned int)(c - in->channels));
	c->intake.wake = false;
}

/* one connection too many: closes the one that has waited longest without a request, or else @newest */
static void make_room(const struct ingest *in, struct session *newest)
{
	struct session *goes = newest;

	for (struct session *s = in->sessions; s; s = s->next)
		if (s->since_ns < goes->since_ns && session_undecided(s))
			goes = s;
	session_refuse(
		goes, EBUSY, "the recorder has %u connections, which is its limit%s", SESSIONS_MAX,
		goes == newest ? "" : "; this one had waited longest without opening a channel");
}

/* clients wait in the queue: epoll would report them again and again */
static void be_deaf(struct ingest *in, uint64_t now)
{
	ingest_change(in, in->listener, &in->on_listener, 0);
	in->deaf_until_ns = now + DEAF;
}

/* a new connection may send more descriptors that are slow to close */
static bool too_far_behind(struct ingest *in, uint64_t now)
{
	if (!closer_behind(&in->closer) && !closer_behind(&in->ring_closer))
		return false;
	if (!in->behind_logged_ns || now - in->behind_logged_ns >= BEHIND_LOGGED_TIME) {
		log_warning(
			"rings or descriptors of writers are slow to close; new connections wait until they are closed");
		in->behind_logged_ns = now;
	}
	return true;
}

/* False: no connection waits, or no more can be accepted now. */
static bool accept_one(struct ingest *in, uint64_t now)
{
	struct session *s;
	int fd;

	if (too_far_behind(in, now)) {
		be_deaf(in, now);
		return false;
	}
	fd = accept4(in->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			be_deaf(in, now);
		return false;
	}
	s = session_open(in, fd);
	if (!s)
		return false;
	s->next = in->sessions;
	in->sessions = s;
	/* a user who may write to no channel must not take the place of one who may */
	if (!session_may_write(s))
		session_refuse(
			s, EACCES,
			"this user may write to no channel; see write_group of the channels");
	else if (in->session_count > SESSIONS_MAX)
		make_room(in, s);
	return true;
}

static void on_listener(struct handler *h, uint32_t events)
{
	struct ingest *in = (struct ingest *)((char *)h - offsetof(struct ingest, on_listener));
	uint64_t now = monotonic_ns();

	(void)events;
	/* any user may connect: the queue must empty faster than it fills, but records must not wait for that */
	for (int i = 0; i < ACCEPTS && accept_one(in, now); i++)
		if (monotonic_ns() - now > ACCEPT_TIME)
			break;
}

static void on_done(struct handler *h, uint32_t events)
{
	struct ingest *in = (struct ingest *)((char *)h - offsetof(struct ingest, on_done));
	eventfd_t count;

	(void)events;
	/* the next turn checks what has become durable */
	eventfd_read(in->done_fd, &count);
}

int ingest_open(struct ingest *in, struct channel *channels, unsigned int count, int listener,
		struct error *e)
{
	*in = (struct ingest){ .channels = channels, .count = count, .listener = listener };
	in->message = malloc(RING_COPY);
	in->epoll = epoll_create1(EPOLL_CLOEXEC);
	in->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!in->message || in->epoll < 0 || in->done_fd < 0)
		return set_errno(e, errno, "setting up the ingest thread");
	in->on_listener.on_event = on_listener;
	in->on_done.on_event = on_done;
	if (ingest_watch(in, listener, &in->on_listener, EPOLLIN) ||
	    ingest_watch(in, in->done_fd, &in->on_done, EPOLLIN))
		return set_errno(e, errno, "watching the socket");
	return 0;
}

bool ingest_reap(struct ingest *in)
{
	struct session **at = &in->sessions;
	bool any = false;

	while (*at) {
		struct session *s = *at;

		if (s->socket >= 0) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		free(s);
		any = true;
	}
	return any;
}

/* Rotates the list, so that connections take turns at the space in the buffer of their channel. */
static void next_first(struct ingest *in)
{
	struct session **end = &in->sessions, *first = in->sessions;

	if (!first || !first->next)
		return;
	while (*end)
		end = &(*end)->next;
	in->sessions = first->next;
	first->next = NULL;
	*end = first;
}

/* what each turn does, whatever the events were; returns when the next turn is due */
static uint64_t turn(struct ingest *in, uint64_t now)
{
	uint64_t until = now + IDLE;

	if (in->deaf_until_ns && now >= in->deaf_until_ns) {
		ingest_change(in, in->listener, &in->on_listener, EPOLLIN);
		in->deaf_until_ns = 0;
	}
	for (unsigned int i = 0; i < in->count; i++) {
		struct channel *c = &in->channels[i];

		if (atomic_load(&c->use) == CHANNEL_LEAVING) {
			shutdown_leave(in, c, now);
			until = now + LEAVE_POLL;
		}
		if (atomic_load(&c->use) != CHANNEL_USED || !atomic_load(&c->open))
			continue;
		if (!intake_tell(&c->intake) && until > now + GAP_WAITS)
			until = now + GAP_WAITS;
		ingest_wake(in, c);
	}
	next_first(in);
	for (struct session *s = in->sessions; s; s = s->next) {
		uint64_t due;

		session_turn(s, now);
		if (s->socket >= 0 && !s->channel && !s->keeps && now - s->since_ns > PATIENCE)
			session_end(s, 0);
		due = session_due(s, now);
		if (due < until)
			until = due;
	}
	/* a client may have waited for the channel of a dead connection */
	return ingest_reap(in) ? now : until;
}

static void *run(void *arg)
{
	struct ingest *in = arg;

	while (!atomic_load(&in->stop)) {
		struct epoll_event events[EVENTS];
		uint64_t now = monotonic_ns(), until = turn(in, now), wait;
		struct timespec timeout;
		int n;

		atomic_store(&in->alive_ns, now);
		now = monotonic_ns();
		wait = until > now ? until - now : 0;
		timeout = timespec_of(wait);
		n = epoll_pwait2(in->epoll, events, EVENTS, &timeout, NULL);
		for (int i = 0; i < n; i++) {
			struct handler *h = events[i].data.ptr;

			h->on_event(h, events[i].events);
		}
	}
	return NULL;
}

int ingest_start(struct ingest *in, struct storage *storage, int priority, struct error *e)
{
	int ret = closer_start(&in->closer, e);

	if (!ret)
		ret = closer_start(&in->ring_closer, e);
	if (ret)
		return ret;
	in->storage = storage;
	atomic_store(&in->alive_ns, monotonic_ns());
	return thread_start(&in->thread, "ingest", priority, run, in, e);
}

void ingest_close(struct ingest *in)
{
	closer_end(&in->closer);
	closer_end(&in->ring_closer);
	close(in->epoll);
	close(in->done_fd);
	free(in->message);
}
