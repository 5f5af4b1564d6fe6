// SPDX-License-Identifier: Apache-2.0
/* A connection opens a channel: which client may, and which one has to wait. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "session.h"

/* for a channel that is being opened, or that another writer has left; a writer waits 10 s for its answer */
#define OPEN_PATIENCE (8 * NSEC_PER_SEC)

/*
 * A writer counts its losses from connect(), but since_ns is when it was accepted. So losses of 10 s more are allowed
 * at the fastest rate. Slower writers may have waited for longer.
 */
#define QUEUED_MOST (10 * NSEC_PER_SEC)

struct channel *session_find_channel(const struct ingest *in, const char *name)
{
	for (unsigned int i = 0; i < in->count; i++)
		if (atomic_load(&in->channels[i].use) == CHANNEL_USED &&
		    !strcmp(in->channels[i].config.name, name))
			return &in->channels[i];
	return NULL;
}

static bool waits_for_room(const struct ingest *in, const struct channel *c)
{
	for (const struct session *s = in->sessions; s; s = s->next)
		if (s->channel == c && s->socket >= 0 && s->gone)
			return true;
	return false;
}

/* for a writer, ENOENT means that there is no such channel, and EBUSY that it has a writer */
static int code_of(const struct error *reason)
{
	return reason->code == ENOENT ? ENODEV : reason->code == EBUSY ? EIO : reason->code;
}

/* 0, or a negative errno and the reason why the client cannot have the channel now; -EAGAIN: not yet */
static int why_not(const struct ingest *in, struct channel *c, uint32_t way, struct error *e)
{
	pid_t writer = c->writers < c->config.writers ? 0 : atomic_load(&c->writer);

	*e = c->broken;
	/* a channel that records may have a reason as well: what it lacks */
	if (!e->code && store_state(&c->store, e) != STORE_FAILED && atomic_load(&c->open))
		e->code = 0;
	else if (!e->code && !atomic_load(&c->open))
		set_error(e, EAGAIN, "it is not open yet");
	if (e->code)
		return -code_of(e);
	if (writer && waits_for_room(in, c))
		return set_error(e, EAGAIN,
				 "the medium has not yet accepted the last records of process %d",
				 (int)writer);
	if (writer && c->config.writers > 1)
		return set_error(e, EBUSY, "it has %u writers, as many as it may have", c->writers);
	if (writer < 0)
		return set_error(e, EBUSY, "a process of another PID namespace is its writer");
	if (writer)
		return set_error(e, EBUSY, "process %d is its writer", (int)writer);
	if (way == EKR_BY_RING && !c->config.ring)
		return set_error(e, EOPNOTSUPP, "it accepts no ring (ring = no); use the socket");
	return 0;
}

static int send_opened(struct session *s, const struct channel *c)
{
	struct ekr_opened opened = {
		.type = EKR_OPENED,
		.record_size = (uint32_t)c->config.record_size,
		.next_sequence = c->intake.next_sequence,
		.period_ns = c->config.period_ns,
		.window_ns = c->config.window_ns,
		.slots = s->by_ring ? s->ring.slots : 0,
		.stride = s->by_ring ? s->ring.stride : 0,
	};
	struct iovec piece = { &opened, sizeof(opened) };
	union {
		char bytes[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (s->by_ring) {
		const int fds[3] = { s->ring.memfd, s->ring.state_fd, s->ring.eventfd };
		struct cmsghdr *c_head;

		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		c_head = CMSG_FIRSTHDR(&message);
		c_head->cmsg_level = SOL_SOCKET;
		c_head->cmsg_type = SCM_RIGHTS;
		c_head->cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(c_head), fds, sizeof(fds));
	}
	return sendmsg(s->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int open_ring(struct session *s, const struct channel *c, struct error *e)
{
	const uint32_t size = (uint32_t)c->config.record_size;
	int ret = ring_open(&s->ring, size, ring_slots(size, c->config.period_ns),
			    s->ingest->message, e);

	if (ret)
		return ret;
	s->by_ring = true;
	ret = ingest_watch(s->ingest, s->ring.eventfd, &s->on_bell, EPOLLIN | EPOLLET);
	return ret ? set_errno(e, -ret, "watching a ring") : 0;
}

bool session_undecided(const struct session *s)
{
	char byte;

	return s->socket >= 0 && !s->channel && !s->wants && !s->keeps &&
	       recv(s->socket, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK) < 0;
}

bool session_may_write(const struct session *s)
{
	const struct channel_config nobody = { .write_gid = CONFIG_NO_GROUP };

	/* root and the recorder's user, also if there is no channel */
	if (access_may_write(&s->access, &nobody))
		return true;
	for (unsigned int i = 0; i < s->ingest->count; i++)
		if (atomic_load(&s->ingest->channels[i].use) == CHANNEL_USED &&
		    access_may_write(&s->access, &s->ingest->channels[i].config))
			return true;
	return false;
}

void session_answer_open(struct session *s, uint64_t now)
{
	struct channel *c = s->wants;
	uint32_t way = s->wants_way;
	struct error e;
	int ret = why_not(s->ingest, c, way, &e);

	if (!ret && way == EKR_BY_RING)
		ret = open_ring(s, c, &e);
	if (ret == -EAGAIN && now - s->since_ns <= OPEN_PATIENCE)
		return;
	s->wants = NULL;
	if (ret) {
		session_refuse(s, -ret, "channel %s: %.180s", c->config.name, e.text);
		return;
	}
	s->channel = c;
	c->writers++;
	if (intake_absent(&c->intake, s->wants_lost)) {
		session_break(s, "reports an impossible number of lost records");
		return;
	}
	s->first = c->intake.next_sequence;
	s->writer = (struct intake_writer){
		.next = s->first,
		.since_ns = s->since_ns > QUEUED_MOST ? s->since_ns - QUEUED_MOST : 0,
	};
	s->before = session_count(s);
	atomic_store(&c->writer, s->pid);
	/* the losses of a previous writer are recorded before the records of this one */
	intake_tell(&c->intake);
	if (send_opened(s, c))
		session_hang_up(s);
}

/* @writers + 1 connections wait for @c. More could use up SESSIONS_MAX, which all channels share. */
static bool too_many_wait(const struct ingest *in, const struct channel *c)
{
	uint64_t count = 0;

	for (const struct session *s = in->sessions; s; s = s->next)
		count += s->socket >= 0 && s->wants == c;
	return count > c->config.writers;
}

void session_take_open(struct session *s, const void *message, size_t length)
{
	struct ekr_open open;
	struct channel *c;

	memcpy(&open, message, length < sizeof(open) ? length : sizeof(open));
	if (length != sizeof(open) || open.version != EKR_WIRE_VERSION ||
	    (open.way != EKR_BY_SOCKET && open.way != EKR_BY_RING) ||
	    !memchr(open.name, 0, sizeof(open.name))) {
		session_break(
			s,
			"does not speak version 3 of the protocol; its libek-recorder is of another version");
		return;
	}
	c = about_name_ok(open.name) ? session_find_channel(s->ingest, open.name) : NULL;
	if (!c) {
		session_refuse(s, ENOENT, "there is no channel '%.*s'", (int)EKR_NAME_MAX,
			       open.name);
	} else if (!access_may_write(&s->access, &c->config)) {
		session_refuse(
			s, EACCES,
			"channel %s: user %u may not write to it; it accepts members of group '%s'",
			c->config.name, (unsigned int)s->access.uid, c->config.write_group);
	} else if (too_many_wait(s->ingest, c)) {
		session_refuse(
			s, EBUSY,
			"channel %s: as many connections as it accepts wait for it already; try again later, or raise 'writers'",
			c->config.name);
	} else {
		s->wants = c;
		s->wants_way = open.way;
		s->wants_lost = open.lost;
		/* at a start, a client waits for its own channel only */
		session_answer_open(s, monotonic_ns());
	}
}
