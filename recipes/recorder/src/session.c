// SPDX-License-Identifier: Apache-2.0
/* A connection. */
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "prepare.h"

#define INTERVAL_MOST  (50 * NSEC_PER_MSEC)
#define INTERVAL_LEAST NSEC_PER_MSEC
/* words of writers that break the protocol, in: */
#define SAY	 10
#define SAY_TIME (60 * NSEC_PER_SEC)
/* messages of one connection before it is another's turn */
#define FAIR 64
/* messages that are still taken of one connection at the end: more than its socket holds */
#define DRAIN 10000
/* for a channel that is being opened, or that another has left; a writer waits 10 s for its answer */
#define OPEN_PATIENCE (8 * NSEC_PER_SEC)

/* how often a ring of this channel has to be looked into, ns */
static uint64_t interval(const struct channel_config *config)
{
	uint64_t ns = config->window_ns / 4;
	uint32_t slots = ring_slots((uint32_t)config->record_size, config->period_ns);

	/* not half full at the declared pace */
	if (config->period_ns && slots / 4 * config->period_ns < ns)
		ns = slots / 4 * config->period_ns;
	return ns > INTERVAL_MOST ? INTERVAL_MOST : ns < INTERVAL_LEAST ? INTERVAL_LEAST : ns;
}

uint64_t session_due(const struct session *s, uint64_t now)
{
	if (s->socket < 0 || !s->by_ring)
		return UINT64_MAX;
	return now + (s->deaf ? RING_BELL_TIME : interval(&s->channel->config));
}

static struct session_losses losses(struct session *s)
{
	struct session_losses now = { .overrun = s->writer.lost };

	pthread_mutex_lock(&s->channel->store.lock);
	now.failed = s->channel->store.counts.failed;
	pthread_mutex_unlock(&s->channel->store.lock);
	return now;
}

static void send_refusal(const struct session *s, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void send_refusal(const struct session *s, int code, const char *fmt, ...)
{
	struct ekr_refused refused = {
		.type = EKR_REFUSED,
		.error = code,
		.sequence = s->channel ? s->writer.next : 0,
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(refused.why, sizeof(refused.why), fmt, ap);
	va_end(ap);
	/* who does not read it does not learn it */
	send(s->socket, &refused, sizeof(refused), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/*
 * All records that are in the ring now and find room; -EPROTO: the ring is broken.
 * Not more than it holds: its writer may be as fast as this.
 */
static int take_ring(struct session *s, bool drop)
{
	struct record record;
	int ret = 0;

	for (uint32_t i = 0; i < s->ring->slots && (ret = ring_peek(s->ring, &record)) > 0; i++) {
		ret = intake_take(&s->channel->intake, &s->writer, &record, drop);
		/* without room it stays: the ring is more buffer */
		if (ret == -ENOBUFS && !drop)
			return 0;
		if (ret == -EPROTO)
			return ret;
		ring_advance(s->ring);
	}
	return ret == -EPROTO ? ret : 0;
}

enum coming {
	COMES_NOTHING, /* the end, or nothing yet */
	COMES_MESSAGE,
	COMES_DESCRIPTORS, /* a message with these */
};

/*
 * What a socket would give next, which stays there: descriptors that are received, also
 * if they are thrown away, may take long to be closed. From here on each message comes
 * with its sender's credentials: without them one that is empty looks like the end.
 */
static enum coming what_comes(int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec piece = { &byte, sizeof(byte) };
	struct msghdr head = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int));
	n = recvmsg(fd, &head, MSG_DONTWAIT | MSG_PEEK);
	/* a reset is told once, and what was sent before it comes after that */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(fd, &head, MSG_DONTWAIT | MSG_PEEK);
	if (n < 0 || !head.msg_controllen)
		return COMES_NOTHING;
	/* the credentials are ahead of these, and have all the room */
	return head.msg_flags & MSG_CTRUNC ? COMES_DESCRIPTORS : COMES_MESSAGE;
}

/*
 * What is closed with messages unread resets the connection, and our last words with
 * it. False: there still are some.
 */
static bool discard(int fd)
{
	enum coming next;
	char byte;

	for (int i = 0; i < DRAIN; i++) {
		next = what_comes(fd);
		if (next != COMES_MESSAGE)
			return next == COMES_NOTHING;
		recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
	}
	return false;
}

static void return_lease(struct session *s)
{
	if (s->lease)
		rings_return(&s->leased_from->rings, s->lease);
	s->lease = NULL;
	s->ring = NULL;
	s->by_ring = false;
}

static void hang_up(struct session *s)
{
	/* nothing comes after what is discarded */
	/* nobody waits for the answer any more; the range is kept all the same */
	if (s->keeps)
		s->keeps->keep.owned = false;
	s->keeps = NULL;
	shutdown(s->socket, SHUT_RD);
	ingest_unwatch(s->ingest, s->socket);
	/* else what is left, descriptors perhaps, is closed with it */
	if (discard(s->socket))
		close(s->socket);
	else
		closer_give(&s->ingest->closer, &s->socket, 1);
	s->socket = -1;
	if (s->by_ring)
		ingest_unwatch(s->ingest, s->ring->eventfd);
	return_lease(s);
	if (s->channel && !--s->channel->writers)
		atomic_store(&s->channel->writer, 0);
}

/* who breaks the protocol may come again at once, and for ever; the journal is on flash too */
static bool may_say(struct ingest *in)
{
	uint64_t now = monotonic_ns();

	if (now >= in->said_until_ns) {
		if (in->said > SAY)
			log_warning(
				"%u more connections were closed, because their writers broke the protocol",
				in->said - SAY);
		in->said = 0;
		in->said_until_ns = now + SAY_TIME;
	}
	return in->said++ < SAY;
}

/* the writer's fault: what it had submitted and is in order stays recorded */
static void drop_broken(struct session *s, const char *why)
{
	const char *name = s->channel ? s->channel->config.name : "-";

	if (may_say(s->ingest))
		log_warning("channel %s: process %d %s; its connection is closed", name,
			    (int)s->pid, why);
	send_refusal(s, EPROTO, "channel %s: this writer %s", name, why);
	/* what was submitted before the fault is in the ring up to the first invalid slot */
	if (s->by_ring) {
		ring_shut(s->ring, EPROTO);
		take_ring(s, true);
	}
	if (s->channel) {
		intake_lose(&s->channel->intake, EKR_GAP_WRITER, 0);
		intake_tell(&s->channel->intake);
		ingest_wake(s->ingest, s->channel);
	}
	hang_up(s);
}

/* Of a ring that is empty: no record follows that would report the last ones that were lost. */
static int expect_all(struct session *s)
{
	return intake_expect(&s->channel->intake, &s->writer,
			     s->first + s->ring->tail +
				     atomic_load_explicit(&s->ring->map->lost,
							  memory_order_relaxed));
}

void session_end(struct session *s, uint32_t code)
{
	if (s->socket < 0)
		return;
	if (s->by_ring) {
		/* first shut, then emptied: nothing slips in between unseen, but what is being written */
		ring_shut(s->ring, code);
		if (take_ring(s, true) == -EPROTO || expect_all(s) == -EPROTO) {
			drop_broken(s, "left an invalid ring");
			return;
		}
		intake_tell(&s->channel->intake);
		ingest_wake(s->ingest, s->channel);
	}
	hang_up(s);
}

static struct channel *find_channel(const struct ingest *in, const char *name)
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

/* as a writer is told it: ENOENT is a channel that there is not, EBUSY one that has a writer */
static int code_of(const struct error *reason)
{
	return reason->code == ENOENT ? ENODEV : reason->code == EBUSY ? EIO : reason->code;
}

/* 0, or errno with the reason, why it cannot have the channel now; EAGAIN: not yet */
static int why_not(const struct ingest *in, struct channel *c, uint32_t way, char why[240])
{
	struct error reason = c->broken;
	pid_t writer = c->writers < c->config.writers ? 0 : atomic_load(&c->writer);

	/* one that works may have a reason too, for what it lacks */
	if (!reason.code && store_state(&c->store, &reason) != STORE_FAILED &&
	    atomic_load(&c->open))
		reason.code = 0;
	else if (!reason.code && !atomic_load(&c->open))
		set_error(&reason, EAGAIN, "it is not open yet");
	if (reason.code)
		snprintf(why, 240, "channel %s: %.180s", c->config.name, reason.text);
	else if (writer && waits_for_room(in, c)) {
		snprintf(
			why, 240,
			"channel %s: the medium has not yet accepted the last records of process %d",
			c->config.name, (int)writer);
		return EAGAIN;
	} else if (writer && c->config.writers > 1)
		snprintf(why, 240, "channel %s: it has %u writers, as many as it may have",
			 c->config.name, c->writers);
	else if (writer)
		snprintf(why, 240, "channel %s: process %d is its writer", c->config.name,
			 (int)writer);
	else if (way == EKR_BY_RING && !c->config.ring)
		snprintf(why, 240, "channel %s: it accepts no ring (ring = no); use the socket",
			 c->config.name);
	else
		return 0;
	return reason.code ? code_of(&reason) : writer ? EBUSY : EOPNOTSUPP;
}

static int send_opened(struct session *s, const struct channel *c)
{
	struct ekr_opened opened = {
		.type = EKR_OPENED,
		.record_size = (uint32_t)c->config.record_size,
		.next_sequence = c->intake.next_sequence,
		.period_ns = c->config.period_ns,
		.window_ns = c->config.window_ns,
		.slots = s->by_ring ? s->ring->slots : 0,
		.stride = s->by_ring ? s->ring->stride : 0,
	};
	struct iovec piece = { &opened, sizeof(opened) };
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (s->by_ring) {
		const int fds[2] = { s->ring->memfd, s->ring->eventfd };
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

/*
 * The turn that follows looks into the ring. The bell is told by its edge and
 * never read: its writer has the same open file, could make it block and
 * empty it first.
 */
static void on_bell(struct handler *h, uint32_t events)
{
	struct session *s = (struct session *)((char *)h - offsetof(struct session, on_bell));

	(void)events;
	if (ring_rung(s->ring, monotonic_ns()))
		return;
	/* its ring is looked into each RING_BELL_TIME instead */
	s->deaf = true;
	ingest_change(s->ingest, s->ring->eventfd, h, 0);
}

/* then it is told once that it has been rung, whether that was long ago or not */
static void hear_again(struct session *s, uint64_t now)
{
	if (!s->deaf || !ring_may_ring(s->ring, now))
		return;
	s->deaf = false;
	ingest_change(s->ingest, s->ring->eventfd, &s->on_bell, EPOLLIN | EPOLLET);
}

/* The ring of a session that opens a channel. -EAGAIN: not yet. */
static int open_ring(struct session *s, struct channel *c, struct error *e)
{
	int ret;

	if (!s->lease) {
		s->lease = rings_ask(&c->rings);
		s->leased_from = c;
		if (!s->lease)
			return set_error(e, EAGAIN,
					 "the ring of the previous writer is still being freed");
	}
	switch (rings_state(&c->rings, s->lease)) {
	case LEASE_READY:
		break;
	case LEASE_FAILED:
		*e = s->lease->error;
		return -e->code;
	default:
		return set_error(e, EAGAIN, "its ring is still being created");
	}
	ret = ingest_watch(s->ingest, s->lease->ring.eventfd, &s->on_bell, EPOLLIN | EPOLLET);
	if (ret)
		return set_errno(e, -ret, "watching a ring");
	s->ring = &s->lease->ring;
	s->by_ring = true;
	return 0;
}

bool session_undecided(const struct session *s)
{
	char byte;

	return s->socket >= 0 && !s->channel && !s->wants &&
	       recv(s->socket, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK) < 0;
}

void session_refuse(struct session *s, int code, const char *why)
{
	send_refusal(s, code, "%s", why);
	hang_up(s);
}

bool session_may_write(const struct session *s)
{
	const struct channel_config nobody = { .write_gid = CONFIG_NO_GROUP };

	/* also where there is no channel */
	if (access_may_write(&s->access, &nobody))
		return true;
	for (unsigned int i = 0; i < s->ingest->count; i++)
		if (atomic_load(&s->ingest->channels[i].use) == CHANNEL_USED &&
		    access_may_write(&s->access, &s->ingest->channels[i].config))
			return true;
	return false;
}

/* it gets the channel that it wants, or is told why not; where that may end soon it waits */
static void answer_open(struct session *s, uint64_t now)
{
	struct channel *c = s->wants;
	uint32_t way = s->wants_way;
	struct error e;
	char why[240];
	int code = why_not(s->ingest, c, way, why);

	if (!code && way == EKR_BY_RING && open_ring(s, c, &e)) {
		code = e.code;
		snprintf(why, sizeof(why), "channel %s: %.180s", c->config.name, e.text);
	}
	if (code == EAGAIN && now - s->since_ns <= OPEN_PATIENCE)
		return;
	s->wants = NULL;
	if (code) {
		send_refusal(s, code, "%s", why);
		hang_up(s);
		return;
	}
	s->channel = c;
	c->writers++;
	if (intake_absent(&c->intake, s->wants_lost)) {
		drop_broken(s, "reports an impossible number of lost records");
		return;
	}
	s->first = c->intake.next_sequence;
	s->writer = (struct intake_writer){ .next = s->first, .since_ns = s->since_ns };
	s->before = losses(s);
	atomic_store(&c->writer, s->pid);
	/* what a writer before this one lost is told ahead of what this one gives */
	intake_tell(&c->intake);
	if (send_opened(s, c))
		hang_up(s);
}

static void take_open(struct session *s, const void *message, size_t length)
{
	struct ekr_open open;
	struct channel *c;

	memcpy(&open, message, length < sizeof(open) ? length : sizeof(open));
	if (length != sizeof(open) || open.version != EKR_WIRE_VERSION ||
	    (open.way != EKR_BY_SOCKET && open.way != EKR_BY_RING) ||
	    !memchr(open.name, 0, sizeof(open.name))) {
		drop_broken(s, "does not speak version 2 of the protocol");
		return;
	}
	c = about_name_ok(open.name) ? find_channel(s->ingest, open.name) : NULL;
	if (!c) {
		send_refusal(s, ENOENT, "there is no channel '%.*s'", (int)EKR_NAME_MAX, open.name);
		hang_up(s);
		return;
	}
	if (!access_may_write(&s->access, &c->config)) {
		send_refusal(
			s, EACCES,
			"channel %s: user %u may not write to it; it accepts members of group '%s'",
			c->config.name, (unsigned int)s->access.uid, c->config.write_group);
		hang_up(s);
		return;
	}
	s->wants = c;
	s->wants_way = open.way;
	s->wants_lost = open.lost;
	/* at a start it waits for its own channel, and for no other */
	answer_open(s, monotonic_ns());
}

static void take_keep(struct session *s, const void *message, size_t length)
{
	struct ekr_keep keep;
	struct channel *c;

	memcpy(&keep, message, length < sizeof(keep) ? length : sizeof(keep));
	if (length != sizeof(keep) || keep.version != EKR_WIRE_VERSION ||
	    !memchr(keep.name, 0, sizeof(keep.name)) ||
	    !memchr(keep.incident, 0, sizeof(keep.incident)) || !about_name_ok(keep.incident)) {
		drop_broken(s, "sent an invalid request to keep a range");
		return;
	}
	c = about_name_ok(keep.name) ? find_channel(s->ingest, keep.name) : NULL;
	if (!c || !access_may_write(&s->access, &c->config) || !atomic_load(&c->open) ||
	    c->keep.owned || atomic_load(&c->keep.state) == KEEP_ASKED) {
		send_refusal(s,
			     !c					       ? ENOENT :
			     !access_may_write(&s->access, &c->config) ? EACCES :
									 EAGAIN,
			     "channel %.*s: %s", (int)EKR_NAME_MAX, keep.name,
			     !c ? "there is no such channel" :
			     !access_may_write(&s->access, &c->config) ?
				  "this user may not write to it" :
				  "it is not open, or another range is being kept");
		hang_up(s);
		return;
	}
	s->keeps = c;
	c->keep.owned = true;
	memcpy(c->keep.incident, keep.incident, sizeof(c->keep.incident));
	c->keep.from_ns = keep.from_ns;
	c->keep.to_ns = keep.to_ns;
	atomic_store(&c->keep.state, KEEP_ASKED);
	if (s->ingest->prepare)
		prepare_wake(s->ingest->prepare, c);
}

static void answer_keep(struct session *s)
{
	struct keep_request *r = &s->keeps->keep;
	struct ekr_keep answer = { .type = EKR_KEEP, .version = EKR_WIRE_VERSION };

	if (atomic_load(&r->state) != KEEP_DONE)
		return;
	answer.segments = (uint64_t)r->result;
	if (r->result < 0)
		send_refusal(s, -r->result, "channel %s: %.200s", s->keeps->config.name,
			     r->error.text);
	else
		send(s->socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
	hang_up(s);
}

static void take_record(struct session *s, const unsigned char *message, size_t length)
{
	struct ekr_submit submit;
	struct record record;

	if (length < sizeof(submit)) {
		drop_broken(s, "sent a record without a header");
		return;
	}
	memcpy(&submit, message, sizeof(submit));
	record = (struct record){
		.sequence = submit.sequence,
		.monotonic_ns = submit.monotonic_ns,
		.realtime_ns = submit.realtime_ns,
		.acquired_ns = submit.acquired_ns,
		.payload = message + sizeof(submit),
		.length = submit.length,
	};
	if (s->by_ring)
		drop_broken(s, "uses a ring, but sent a record by socket");
	else if (submit.length > s->channel->config.record_size)
		drop_broken(s, "sent a record larger than declared");
	else if (submit.length != length - sizeof(submit))
		drop_broken(s, "sent a record with a wrong length field");
	else if (intake_take(&s->channel->intake, &s->writer, &record, true) == -EPROTO)
		drop_broken(s, "sent a record with an invalid sequence");
}

/* Everything that it submitted has arrived. False: what it says of its sequence is invalid, and it is gone. */
static bool begin_sync(struct session *s)
{
	if (intake_expect(&s->channel->intake, &s->writer, s->sync_next)) {
		drop_broken(s, "sent a sync with an invalid sequence");
		return false;
	}
	intake_tell(&s->channel->intake);
	s->sync_to = s->channel->intake.next_sequence;
	return true;
}

static void take_sync(struct session *s, const void *message, size_t length)
{
	struct ekr_sync sync;

	if (length != sizeof(sync)) {
		drop_broken(s, "sent an invalid message");
		return;
	}
	memcpy(&sync, message, sizeof(sync));
	/* a new one takes the place of one that was given up */
	s->sync = true;
	s->sync_token = sync.token;
	s->sync_next = sync.sequence;
	s->sync_to = 0;
	if (!s->by_ring)
		begin_sync(s);
}

static void take_message(struct session *s, const unsigned char *message, size_t length)
{
	uint32_t type = 0;

	memcpy(&type, message, length < sizeof(type) ? length : sizeof(type));
	if (!s->channel && !s->wants && !s->keeps && type == EKR_OPEN)
		take_open(s, message, length);
	else if (!s->channel && !s->wants && !s->keeps && type == EKR_KEEP)
		take_keep(s, message, length);
	else if (s->channel && type == EKR_RECORD)
		take_record(s, message, length);
	else if (s->channel && type == EKR_SYNC)
		take_sync(s, message, length);
	else
		drop_broken(s, "sent an invalid message");
}

/* records by socket are taken; by ring they are not in the socket */
static bool has_room(struct session *s)
{
	return !s->channel || s->by_ring || intake_has_room(&s->channel->intake);
}

/* else it was a message without anything: both are told alike */
static bool has_ended(int fd)
{
	struct pollfd end = { .fd = fd, .events = POLLRDHUP };

	return poll(&end, 1, 0) != 0;
}

/* those that came with a message go where they hold up nobody; false: there were none */
static bool take_descriptors(struct session *s, struct msghdr *head)
{
	/* there were more than this process may have */
	bool any = head->msg_flags & MSG_CTRUNC;
	int fds[CLOSER_BATCH];
	unsigned int count;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
		closer_give(&s->ingest->closer, fds, count);
		any = true;
	}
	return any;
}

/* -EAGAIN: nothing more for now; 0: the other end has closed; 1: there may be
 * more */
static int receive(struct session *s)
{
	/*
	 * Room for all the descriptors that a message can bring: those without are closed
	 * by the kernel before recvmsg() returns, however long that takes. The credentials
	 * are those of what_comes().
	 */
	union {
		char bytes[CMSG_SPACE(CLOSER_BATCH * sizeof(int)) +
			   CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec piece = { s->ingest->message, s->ingest->message_size };
	struct msghdr head = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;

	if (closer_behind(&s->ingest->closer) && what_comes(s->socket) == COMES_DESCRIPTORS) {
		drop_broken(s, "sent file descriptors");
		return 1;
	}
	n = recvmsg(s->socket, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	/* a reset is of what we sent and it did not read: what it sent before is
   * still here */
	if (n < 0)
		return errno == EINTR || errno == ECONNRESET ? 1 : errno == EAGAIN ? -EAGAIN : 0;
	if (take_descriptors(s, &head)) {
		drop_broken(s, "sent file descriptors");
		return 1;
	}
	if (!n && has_ended(s->socket))
		return 0;
	if (head.msg_flags & MSG_TRUNC)
		drop_broken(s, "sent a record larger than declared");
	else
		take_message(s, s->ingest->message, (size_t)n);
	return 1;
}

static void pause_reading(struct session *s)
{
	s->paused = true;
	ingest_change(s->ingest, s->socket, &s->on_socket, 0);
}

static void go_on_reading(struct session *s)
{
	s->paused = false;
	ingest_change(s->ingest, s->socket, &s->on_socket, EPOLLIN);
}

/* its writer has gone; what it left in the ring waits for room as if it were there */
static void leave(struct session *s)
{
	s->sync = false;
	if (!s->by_ring) {
		session_end(s, EPIPE);
		return;
	}
	s->leaving = true;
	ring_shut(s->ring, EPIPE);
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
		/* without room it stays there: the socket is more buffer, and a writer that can wait waits */
		if (has_room(s))
			ret = receive(s);
		else
			pause_reading(s);
	}
	if (s->socket >= 0 && s->channel)
		ingest_wake(s->ingest, s->channel);
	if (!ret && s->socket >= 0)
		leave(s);
}

void session_shut(struct session *s)
{
	if (s->socket < 0)
		return;
	/* what is sent from here on fails with its writer: all that was before is taken */
	ingest_unwatch(s->ingest, s->socket);
	shutdown(s->socket, SHUT_RD);
	/* who has asked for its channel and was not heard yet gets it, and is told with the others */
	if (!s->channel && !s->wants)
		receive(s);
	if (s->socket < 0 || !s->channel)
		return;
	if (s->by_ring)
		ring_shut(s->ring, ESHUTDOWN);
	s->at_stop = losses(s);
}

bool session_drain(struct session *s, bool drop)
{
	int ret = 1;

	for (int i = 0; i < DRAIN && s->socket >= 0 && ret == 1; i++) {
		if (!drop && !has_room(s))
			return false;
		ret = receive(s);
	}
	if (s->socket < 0 || !s->by_ring)
		return s->socket < 0 || ret != 1;
	if (take_ring(s, drop) == -EPROTO) {
		drop_broken(s, "left an invalid ring");
		return true;
	}
	if (!ring_empty(s->ring))
		return false;
	if (expect_all(s) == -EPROTO)
		drop_broken(s, "left an invalid ring");
	return true;
}

void session_part(struct session *s)
{
	struct channel *c = s->channel;
	struct session_losses now;

	if (s->socket < 0)
		return;
	if (c) {
		now = losses(s);
		/* nor was anything lost since it was told; what found no room it knows itself */
		if (store_idle(&c->store) && !c->intake.gap && now.overrun == s->at_stop.overrun &&
		    now.failed == s->before.failed)
			send_refusal(
				s, ESHUTDOWN,
				"channel %s: the recorder was shut down and has written everything submitted",
				c->config.name);
		else
			send_refusal(
				s, EIO,
				"channel %s: the recorder was shut down before it could write everything submitted",
				c->config.name);
	}
	hang_up(s);
}

/* everything it submitted is durable, or is known to be lost */
static void answer_sync(struct session *s)
{
	struct store *store = &s->channel->store;
	struct ekr_sync answer = { .type = EKR_SYNC, .token = s->sync_token };
	uint64_t wanted = atomic_load(&store->wanted_to);
	struct session_losses now;

	if (s->by_ring && !s->sync_to) {
		if (!ring_empty(s->ring) || !begin_sync(s))
			return;
	}
	if (atomic_load(&store->durable_to) < s->sync_to) {
		if (wanted < s->sync_to) {
			atomic_store(&store->wanted_to, s->sync_to);
			storage_wake(s->ingest->storage);
		}
		return;
	}
	now = losses(s);
	if (now.failed != s->before.failed)
		answer.error = EIO;
	else if (now.overrun != s->before.overrun)
		answer.error = ENOBUFS;
	s->before = now;
	s->sync = false;
	answer.sequence = s->sync_to;
	send(s->socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void session_turn(struct session *s, uint64_t now)
{
	if (s->socket >= 0 && s->wants)
		answer_open(s, now);
	if (s->socket >= 0 && s->keeps)
		answer_keep(s);
	if (s->socket < 0 || !s->channel)
		return;
	hear_again(s, now);
	if (s->by_ring && take_ring(s, false) == -EPROTO) {
		drop_broken(s, "left an invalid ring");
		return;
	}
	if (s->leaving && ring_empty(s->ring)) {
		session_end(s, EPIPE);
		return;
	}
	if (s->paused && has_room(s))
		go_on_reading(s);
	intake_tell(&s->channel->intake);
	if (s->sync)
		answer_sync(s);
	ingest_wake(s->ingest, s->channel);
}

struct session *session_open(struct ingest *in, int socket)
{
	struct session *s = calloc(1, sizeof(*s));
	struct ucred peer = { 0 };
	socklen_t length = sizeof(peer);

	/* it may have sent descriptors already, which are closed with it */
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
	/* of another namespace: it is there, but has no number here */
	s->pid = peer.pid > 0 ? peer.pid : -1;
	s->since_ns = monotonic_ns();
	if (ingest_watch(in, socket, &s->on_socket, EPOLLIN)) {
		closer_give(&in->closer, &socket, 1);
		free(s);
		return NULL;
	}
	return s;
}

void session_free(struct session *s)
{
	free(s);
}
