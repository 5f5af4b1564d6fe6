// SPDX-License-Identifier: Apache-2.0
/* The end of the recorder, and of one channel. */
#include "recorder.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "session.h"
#include "stats.h"

/* ms until the deadline is checked again; what is written ends the wait */
#define ROOM_POLL_MS 20
/* time for a channel that is removed while the recorder runs */
#define LEAVE_TIME (5 * NSEC_PER_SEC)

/* --- connections ----------------------------------------------------------------------- */

/* Step 1 for one connection. */
static void shut(struct session *s)
{
	if (s->socket < 0)
		return;
	/* later messages fail at the writer; everything sent before is taken */
	ingest_unwatch(s->ingest, s->socket);
	shutdown(s->socket, SHUT_RD);
	/* a client whose request is unread gets its channel, and later the same message as the others */
	if (!s->channel && !s->wants)
		session_receive(s);
	if (s->by_ring)
		ring_shut(&s->ring, ESHUTDOWN);
}

/*
 * Step 2: takes what was submitted as far as there is space, or with @drop all; true: nothing is left. Without @whole,
 * of a ring only what one turn may take: other channels wait meanwhile.
 */
static bool drain(struct session *s, bool drop, bool whole)
{
	int ret = 1;

	for (int i = 0; i < SESSION_DRAIN && s->socket >= 0 && ret == 1; i++) {
		if (!drop && !session_has_room(s))
			return false;
		ret = session_receive(s);
	}
	if (s->socket < 0 || !s->by_ring)
		return s->socket < 0 || ret != 1;
	do {
		ret = session_take_ring(s, drop);
	} while (!ret && s->more && whole);
	if (ret == -EPROTO) {
		session_break(s, "left an invalid ring");
		return true;
	}
	if (!ring_empty(&s->ring))
		return false;
	if (session_expect_all(s) == -EPROTO)
		session_break(s, "left an invalid ring");
	return true;
}

/* Step 3: what was submitted is written, or never will be. */
static void part(struct session *s)
{
	struct channel *c = s->channel;

	if (s->socket < 0 || !c) {
		session_hang_up(s);
		return;
	}
	/* the writer itself knows of records that found its ring or socket full */
	if (store_idle(&c->store) && !c->intake.gap && !s->dropped &&
	    session_count(s).failed == s->before.failed)
		session_refuse(
			s, ESHUTDOWN,
			"channel %s: the recorder was shut down and has written everything submitted",
			c->config.name);
	else
		session_refuse(
			s, EIO,
			"channel %s: the recorder was shut down before it could write everything submitted",
			c->config.name);
}

/* --- one channel ----------------------------------------------------------------------- */

void shutdown_leave(struct ingest *in, struct channel *c, uint64_t now)
{
	/* @now may have been read before the channel began to leave */
	const bool late = now > c->leaving_ns && now - c->leaving_ns > LEAVE_TIME;
	bool rest = false;

	for (struct session *s = in->sessions; s; s = s->next) {
		if (s->socket >= 0 && (s->wants == c || s->keeps == c))
			session_refuse(
				s, EAGAIN,
				"the channel is being removed or changed; try again in some seconds");
		if (s->channel != c)
			continue;
		shut(s);
		rest |= !drain(s, late, false);
	}
	if (atomic_load(&c->open)) {
		rest |= !intake_tell(&c->intake);
		atomic_store(&c->store.stopping, true);
		storage_wake(in->storage, (unsigned int)(c - in->channels));
		if (!late && (rest || !store_idle(&c->store)))
			return;
	}
	for (struct session *s = in->sessions; s; s = s->next)
		if (s->channel == c)
			part(s);
	ingest_reap(in);
	atomic_store(&c->use, CHANNEL_LEFT);
}

/* The recorder was asked to end: then it does not wait for one channel. */
static bool must_end(void)
{
	sigset_t pending;

	return !sigpending(&pending) &&
	       (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* one pause of the main thread while it waits for a channel */
static void pause_for(struct recorder *r, uint64_t *next, void (*meanwhile)(struct recorder *r))
{
	const struct timespec pause = timespec_of(NSEC_PER_MSEC);

	nanosleep(&pause, NULL);
	if (monotonic_ns() < *next)
		return;
	meanwhile(r);
	*next = monotonic_ns() + NSEC_PER_SEC;
}

bool shutdown_channel(struct recorder *r, struct channel *c, void (*meanwhile)(struct recorder *r))
{
	const unsigned int i = (unsigned int)(c - r->channels);
	uint64_t next = 0, until;
	bool ended, released = false;

	log_info("channel %s: its configuration was removed or changed", c->file);
	c->leaving_ns = monotonic_ns();
	atomic_store(&c->use, CHANNEL_LEAVING);
	while (atomic_load(&c->use) != CHANNEL_LEFT) {
		if (must_end())
			return false;
		pause_for(r, &next, meanwhile);
	}
	/* after the records: they may have to wait for the first two segments */
	prepare_ask_to_stop(&r->prepare, i);
	until = monotonic_ns() + LEAVE_TIME;
	/* a batch may be on its way */
	while (!(ended = c->broken.code || storage_remove(&r->storage, i)) &&
	       monotonic_ns() < until && !must_end())
		pause_for(r, &next, meanwhile);
	until = monotonic_ns() + LEAVE_TIME;
	/* a keeper whose medium hangs is waited for again when everything ends */
	while (!must_end() && !(released = prepare_release(&r->prepare, i, NSEC_PER_MSEC)) &&
	       monotonic_ns() < until)
		pause_for(r, &next, meanwhile);
	if (must_end())
		return false;
	if (!ended || !released) {
		log_error(
			"channel %s: its medium does not respond; restart the recorder to use the channel again",
			c->file);
		return false;
	}
	channel_close(c);
	return true;
}

/* --- everything ------------------------------------------------------------------------- */

/* takes the records of all writers as far as there is space, or with @drop all; true: nothing is left */
static bool take_rest(struct ingest *in, bool drop)
{
	bool all = true;

	for (unsigned int i = 0; i < in->count; i++) {
		struct channel *c = &in->channels[i];
		bool rest = false;

		/* also of a channel that was being removed */
		if (atomic_load(&c->use) == CHANNEL_UNUSED || !atomic_load(&c->open))
			continue;
		for (struct session *s = in->sessions; s; s = s->next)
			if (s->channel == c && !drain(s, drop, true))
				rest = true;
		if (!intake_tell(&c->intake))
			rest = true;
		/* written at once: this channel need not wait for the medium of another one */
		if (!rest)
			atomic_store(&c->store.stopping, true);
		storage_wake(in->storage, i);
		all &= !rest;
	}
	return all;
}

static void wait_for_room(struct ingest *in)
{
	struct pollfd written = { .fd = in->done_fd, .events = POLLIN };
	eventfd_t count;

	poll(&written, 1, ROOM_POLL_MS);
	eventfd_read(in->done_fd, &count);
}

/* Ends the ingest thread, and takes what was submitted until it is given up: a gap reports that. */
static void stop_ingest(struct ingest *in, uint64_t began)
{
	atomic_store(&in->stop, true);
	eventfd_write(in->done_fd, 1);
	pthread_join(in->thread, NULL);
	/* from here on, this thread owns what the ingest thread owned */
	for (struct session *s = in->sessions; s; s = s->next)
		shut(s);
	while (!take_rest(in, false)) {
		if (monotonic_ns() >= storage_stop_by(in->storage, began)) {
			take_rest(in, true);
			return;
		}
		wait_for_room(in);
	}
}

static void part_all(struct ingest *in)
{
	for (struct session *s = in->sessions; s; s = s->next)
		part(s);
	ingest_reap(in);
}

/* @all: also channels that do not have the two segments yet without which no record can be written */
static void stop_preparing(struct recorder *r, bool all)
{
	struct error reason;

	for (unsigned int i = 0; i < CHANNELS_MAX; i++) {
		struct channel *c = &r->channels[i];

		if (all || !atomic_load(&c->open) ||
		    store_state(&c->store, &reason) != STORE_PREPARING)
			prepare_ask_to_stop(&r->prepare, i);
	}
}

void shutdown_recorder(struct recorder *r)
{
	const uint64_t began = monotonic_ns();
	bool ended;

	sd_notify(0, "STOPPING=1");
	stop_preparing(r, false);
	stop_ingest(&r->ingest, began);
	ended = storage_stop(&r->storage, began);
	stop_preparing(r, true);
	part_all(&r->ingest);
	ended = prepare_end(&r->prepare) && ended;
	if (*r->config.statistics)
		stats_write(r->config.statistics, r->channels, CHANNELS_MAX, r->outdated.text,
			    &(struct error){ 0 });
	if (r->own_socket)
		unlink(r->config.socket);
	close(r->listener);
	/* the exit of the process closes what these threads still use */
	if (!ended)
		return;
	ingest_close(&r->ingest);
	storage_close(&r->storage);
	prepare_close(&r->prepare);
	for (unsigned int i = 0; i < CHANNELS_MAX; i++)
		if (atomic_load(&r->channels[i].use) != CHANNEL_UNUSED)
			channel_close(&r->channels[i]);
}
