// SPDX-License-Identifier: Apache-2.0
/* The life of a connection: its turns, its ring, its end. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "error.h"
#include "scope.h"
#include "session.h"

#define INTERVAL_LEAST NSEC_PER_MSEC
/* bytes of a reason, with the zero */
#define WHY sizeof(((struct ekr_refused *)0)->why)
/* log lines about writers that broke the protocol, in LOGGED_TIME */
#define LOGGED_MOST 10
#define LOGGED_TIME (60 * NSEC_PER_SEC)
/* messages that are discarded of a client that has opened no channel; it may be any user */
#define STRANGER_DRAIN 16
/* messages of one connection, and bytes from its ring, before the next connection has its turn */
#define FAIR	   64
#define TURN_BYTES (1u << 20)

/* time between two polls of a ring of this channel, ns */
static uint64_t interval(const struct channel_config *config)
{
	uint64_t ns = config->window_ns / 4;
	uint32_t slots = ring_slots((uint32_t)config->record_size, config->period_ns);

	/* at the declared period, the ring must not become half full */
	if (config->period_ns && slots / 4 * config->period_ns < ns)
		ns = slots / 4 * config->period_ns;
	return ns > SESSION_INTERVAL ? SESSION_INTERVAL : ns < INTERVAL_LEAST ? INTERVAL_LEAST : ns;
}

uint64_t session_due(const struct session *s, uint64_t now)
{
	if (s->socket >= 0 && s->keeps && !s->keep_to &&
	    atomic_load(&s->keeps->keep.state) == KEEP_NONE)
		return s->keep_ns > now ? s->keep_ns : now + SESSION_INTERVAL;
	if (s->socket < 0 || !s->by_ring)
		return UINT64_MAX;
	if (s->more)
		return now;
	return now + (s->deaf ? RING_BELL_TIME : interval(&s->channel->config));
}

struct session_losses session_count(struct session *s)
{
	struct store *store = &s->channel->store;
	HOLD(&store->lock);

	return (struct session_losses){ .overrun = s->writer.lost, .failed = store->counts.failed };
}

static void send_refused(const struct session *s, int code, const char why[WHY])
{
	struct ekr_refused refused = {
		.type = EKR_REFUSED,
		.error = code,
		.sequence = s->writer.next,
	};

	memcpy(refused.why, why, strlen(why));
	send(s->socket, &refused, sizeof(refused), MSG_DONTWAIT | MSG_NOSIGNAL);
}

int session_take_ring(struct session *s, bool drop)
{
	struct record record;
	size_t bytes = 0;
	int ret = 0;

	s->more = false;
	ring_forget(&s->ring);
	for (uint32_t i = 0; i < s->ring.slots && (ret = ring_peek(&s->ring, &record)) > 0; i++) {
		s->more = !drop && bytes >= TURN_BYTES;
		if (s->more)
			return 0;
		bytes += s->ring.stride;
		ret = intake_take(&s->channel->intake, &s->writer, &record, drop);
		/* without space the record stays: the ring is additional buffer */
		if (ret == -ENOBUFS && !drop)
			return 0;
		s->dropped |= ret == -ENOBUFS;
		if (ret == -EPROTO)
			return ret;
		ring_advance(&s->ring);
	}
	return ret == -EPROTO ? ret : 0;
}

/* The process of another connection that writes to the same channel; 0: no other connection does. */
static pid_t other_writer(const struct session *s)
{
	for (const struct session *o = s->ingest->sessions; o; o = o->next)
		if (o != s && o->channel == s->channel && o->socket >= 0)
			return o->pid;
	return 0;
}

void session_hang_up(struct session *s)
{
	if (s->socket < 0)
		return;
	s->wants = NULL;
	/* the range is kept, although the client no longer waits for the answer */
	if (s->keeps)
		s->keeps->keep.owned = false;
	s->keeps = NULL;
	/* nothing arrives after what is discarded */
	shutdown(s->socket, SHUT_RD);
	ingest_unwatch(s->ingest, s->socket);
	/* otherwise unread messages, perhaps with descriptors, are closed together with the socket */
	if (session_discard(s->socket, s->channel ? SESSION_DRAIN : STRANGER_DRAIN))
		close(s->socket);
	else
		closer_give(&s->ingest->closer, &s->socket, 1);
	s->socket = -1;
	s->ingest->session_count--;
	if (s->by_ring) {
		int memfd;

		ingest_unwatch(s->ingest, s->ring.eventfd);
		memfd = ring_close(&s->ring);
		closer_give(&s->ingest->ring_closer, &memfd, 1);
		s->by_ring = false;
	}
	if (s->channel) {
		s->channel->writers--;
		atomic_store(&s->channel->writer, other_writer(s));
	}
}

/* a writer that breaks the protocol may connect again and again, and the journal is on flash as well */
static bool may_log(struct ingest *in)
{
	uint64_t now = monotonic_ns();

	if (now >= in->logged_until_ns) {
		if (in->logged > LOGGED_MOST)
			log_warning(
				"%u more connections were closed, because their writers broke the protocol",
				in->logged - LOGGED_MOST);
		in->logged = 0;
		in->logged_until_ns = now + LOGGED_TIME;
	}
	return in->logged++ < LOGGED_MOST;
}

void session_break(struct session *s, const char *why)
{
	const char *name = s->channel ? s->channel->config.name : "-";
	char answer[WHY];

	if (may_log(s->ingest))
		log_warning("channel %s: process %d %s; its connection is closed", name,
			    (int)s->pid, why);
	snprintf(answer, sizeof(answer), "channel %s: this writer %s", name, why);
	send_refused(s, EPROTO, answer);
	/* what was submitted before is in the ring, up to the first invalid slot */
	if (s->by_ring) {
		ring_shut(&s->ring, EPROTO);
		session_take_ring(s, true);
	}
	if (s->channel) {
		intake_lose(&s->channel->intake, EKR_GAP_WRITER, 0);
		intake_tell(&s->channel->intake);
		ingest_wake(s->ingest, s->channel);
	}
	session_hang_up(s);
}

int session_expect_all(struct session *s)
{
	return intake_expect(&s->channel->intake, &s->writer,
			     s->first + s->ring.tail + ring_lost(&s->ring));
}

void session_end(struct session *s, uint32_t code)
{
	if (s->socket < 0)
		return;
	if (s->by_ring) {
		/* first shut, then emptied, so that no record is missed */
		ring_shut(&s->ring, code);
		if (session_take_ring(s, true) == -EPROTO || session_expect_all(s) == -EPROTO) {
			session_break(s, "left an invalid ring");
			return;
		}
		intake_tell(&s->channel->intake);
		ingest_wake(s->ingest, s->channel);
	}
	session_hang_up(s);
}

/*
 * The next turn takes records from the ring. The bell is edge-triggered and never read: the writer has the
 * same open file, and could make a read block or empty it first.
 */
static void on_bell(struct handler *h, uint32_t events)
{
	struct session *s = (struct session *)((char *)h - offsetof(struct session, on_bell));

	(void)events;
	/* an event of the same turn may have ended the connection */
	if (!s->by_ring || ring_rung(&s->ring, monotonic_ns()))
		return;
	/* its ring is polled every RING_BELL_TIME instead */
	s->deaf = true;
	ingest_change(s->ingest, s->ring.eventfd, h, 0);
}

/* epoll then reports once that the bell has rung, also if that was long ago */
static void hear_again(struct session *s, uint64_t now)
{
	if (!s->deaf || !ring_may_ring(&s->ring, now))
		return;
	s->deaf = false;
	ingest_change(s->ingest, s->ring.eventfd, &s->on_bell, EPOLLIN | EPOLLET);
}

void session_refuse(struct session *s, int code, const char *fmt, ...)
{
	char why[WHY];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	send_refused(s, code, why);
	session_hang_up(s);
}

bool session_has_room(struct session *s)
{
	return !s->channel || s->by_ring || intake_has_room(&s->channel->intake);
}

static void set_paused(struct session *s, bool paused)
{
	s->paused = paused;
	ingest_change(s->ingest, s->socket, &s->on_socket, paused ? 0 : EPOLLIN);
}

/* its writer has disconnected; records in the ring wait for space as before */
static void leave(struct session *s)
{
	s->sync = false;
	if (!s->by_ring) {
		session_end(s, EPIPE);
		return;
	}
	s->leaving = true;
	ring_shut(&s->ring, EPIPE);
	ingest_change(s->ingest, s->socket, &s->on_socket, 0);
}

static void on_socket(struct handler *h, uint32_t events)
{
	struct session *s = (struct session *)h;
	int ret = 1;

	s->gone |= events & EPOLLHUP;
	if (s->paused || s->leaving)
		return;
	for (int i = 0; i < FAIR && s->socket >= 0 && ret == 1 && !s->paused; i++) {
		/* without space a message stays there: the socket is additional buffer, and a writer may wait */
		if (session_has_room(s))
			ret = session_receive(s);
		else
			set_paused(s, true);
	}
	if (s->socket >= 0 && s->channel)
		ingest_wake(s->ingest, s->channel);
	if (!ret && s->socket >= 0)
		leave(s);
}

void session_turn(struct session *s, uint64_t now)
{
	if (s->socket >= 0 && s->wants)
		session_answer_open(s, now);
	if (s->socket >= 0 && s->keeps)
		session_answer_keep(s, now);
	if (s->socket < 0 || !s->channel)
		return;
	hear_again(s, now);
	if (s->by_ring && session_take_ring(s, false) == -EPROTO) {
		session_break(s, "left an invalid ring");
		return;
	}
	if (s->leaving && ring_empty(&s->ring)) {
		session_end(s, EPIPE);
		return;
	}
	if (s->paused && session_has_room(s))
		set_paused(s, false);
	intake_tell(&s->channel->intake);
	if (s->sync)
		session_answer_sync(s);
	ingest_wake(s->ingest, s->channel);
}

struct session *session_open(struct ingest *in, int socket)
{
	struct session *s = calloc(1, sizeof(*s));
	struct ucred peer = { 0 };
	socklen_t length = sizeof(peer);

	/* it may have sent descriptors already, which are closed with the socket */
	if (!s) {
		closer_give(&in->closer, &socket, 1);
		return NULL;
	}
	getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length);
	access_of(socket, &s->access);
	s->on_socket.on_event = on_socket;
	s->on_bell.on_event = on_bell;
	s->ingest = in;
	s->socket = socket;
	/* a process in another PID namespace has no number here */
	s->pid = peer.pid > 0 ? peer.pid : -1;
	s->since_ns = monotonic_ns();
	if (ingest_watch(in, socket, &s->on_socket, EPOLLIN)) {
		closer_give(&in->closer, &socket, 1);
		free(s);
		return NULL;
	}
	in->session_count++;
	return s;
}
