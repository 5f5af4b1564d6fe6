// SPDX-License-Identifier: Apache-2.0
/* What a connection sends: records, syncs, requests, and file descriptors that it must not send. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "prepare.h"
#include "session.h"

/* a range is kept without records that find no space for so long */
#define KEEP_PATIENCE (5 * NSEC_PER_SEC)

enum coming {
	COMES_NOTHING, /* the end, or nothing yet */
	COMES_MESSAGE,
	COMES_DESCRIPTORS, /* a message with descriptors */
};

static void want_credentials(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int));
}

/*
 * What a socket would deliver next. The message stays there: descriptors that are received, also if they
 * are discarded, may take long to close. Each message must have its sender's credentials (want_credentials()):
 * without them, an empty message would look like the end of the connection.
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

	n = recvmsg(fd, &head, MSG_DONTWAIT | MSG_PEEK);
	/* a reset is reported once, and the messages sent before it follow */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(fd, &head, MSG_DONTWAIT | MSG_PEEK);
	if (n < 0 || !head.msg_controllen)
		return COMES_NOTHING;
	/* the credentials come first and fill the buffer */
	return head.msg_flags & MSG_CTRUNC ? COMES_DESCRIPTORS : COMES_MESSAGE;
}

bool session_discard(int fd, int most)
{
	enum coming next;
	char byte;

	want_credentials(fd);
	for (int i = 0; i < most; i++) {
		next = what_comes(fd);
		if (next != COMES_MESSAGE)
			return next == COMES_NOTHING;
		recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
	}
	return false;
}

/* 0, or why the range cannot be kept now, as an errno and a phrase */
static int why_not_keep(const struct session *s, struct channel *c, const char **why)
{
	if (!c) {
		*why = "there is no such channel";
		return ENOENT;
	}
	if (!access_may_write(&s->access, &c->config)) {
		*why = "this user may not write to it";
		return EACCES;
	}
	*why = "it is not open, or another range is being kept";
	return !atomic_load(&c->open) || c->keep.owned ||
			       atomic_load(&c->keep.state) == KEEP_ASKED ?
		       EAGAIN :
		       0;
}

static void take_keep(struct session *s, const void *message, size_t length)
{
	struct ekr_keep keep;
	struct channel *c;
	const char *why;
	int code;

	memcpy(&keep, message, length < sizeof(keep) ? length : sizeof(keep));
	if (length != sizeof(keep) || keep.version != EKR_WIRE_VERSION ||
	    !memchr(keep.name, 0, sizeof(keep.name)) ||
	    !memchr(keep.incident, 0, sizeof(keep.incident)) || !about_name_ok(keep.incident)) {
		session_break(s, "sent an invalid request to keep a range");
		return;
	}
	c = about_name_ok(keep.name) ? session_find_channel(s->ingest, keep.name) : NULL;
	code = why_not_keep(s, c, &why);
	if (code) {
		session_refuse(s, code, "channel %.*s: %s", (int)EKR_NAME_MAX, keep.name, why);
		return;
	}
	s->keeps = c;
	c->keep.owned = true;
	memcpy(c->keep.incident, keep.incident, sizeof(c->keep.incident));
	c->keep.from_ns = keep.from_ns;
	c->keep.to_ns = keep.to_ns;
	atomic_store(&c->keep.state, KEEP_NONE);
	s->keep_ns = monotonic_ns() + SESSION_INTERVAL;
	s->keep_to = 0;
}

/* All sequences below @to are on the medium, or lost. Otherwise asks the storage thread to write at once. */
static bool is_durable(const struct session *s, struct channel *c, uint64_t to)
{
	if (atomic_load(&c->store.durable_to) >= to)
		return true;
	if (atomic_load(&c->store.wanted_to) < to) {
		atomic_store(&c->store.wanted_to, to);
		storage_wake(s->ingest->storage, (unsigned int)(c - s->ingest->channels));
	}
	return false;
}

/* Records of the channel wait in a ring or socket, because the buffer is full. */
static bool any_waits(const struct ingest *in, const struct channel *c)
{
	for (const struct session *s = in->sessions; s; s = s->next)
		if (s->channel == c && s->socket >= 0 &&
		    (s->paused || (s->by_ring && !ring_empty(&s->ring))))
			return true;
	return false;
}

/* The range may end now: its last records must leave the memory before their segment is moved. */
static void ask_to_keep(struct session *s, uint64_t now)
{
	struct channel *c = s->keeps;

	if (now < s->keep_ns)
		return;
	if (!s->keep_to) {
		if (!intake_has_room(&c->intake) && any_waits(s->ingest, c) &&
		    now < s->keep_ns + KEEP_PATIENCE)
			return;
		s->keep_to = c->intake.next_sequence;
	}
	if (!is_durable(s, c, s->keep_to))
		return;
	atomic_store(&c->keep.state, KEEP_ASKED);
	if (s->ingest->prepare)
		prepare_wake(s->ingest->prepare, c);
}

void session_answer_keep(struct session *s, uint64_t now)
{
	struct keep_request *r = &s->keeps->keep;
	struct ekr_keep answer = { .type = EKR_KEEP, .version = EKR_WIRE_VERSION };

	if (atomic_load(&r->state) == KEEP_NONE)
		ask_to_keep(s, now);
	if (atomic_load(&r->state) != KEEP_DONE)
		return;
	if (r->result < 0) {
		session_refuse(s, -r->result, "channel %s: %.200s", s->keeps->config.name,
			       r->error.text);
		return;
	}
	answer.segments = (uint64_t)r->result;
	send(s->socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
	session_hang_up(s);
}

static void take_record(struct session *s, const unsigned char *message, size_t length)
{
	struct ekr_submit submit;
	struct record record;
	int ret;

	if (length < sizeof(submit)) {
		session_break(s, "sent a record without a header");
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
	if (s->by_ring) {
		session_break(s, "uses a ring, but sent a record by socket");
	} else if (submit.length > s->channel->config.record_size) {
		session_break(s, "sent a record larger than declared");
	} else if (submit.length != length - sizeof(submit)) {
		session_break(s, "sent a record with a wrong length field");
	} else {
		ret = intake_take(&s->channel->intake, &s->writer, &record, true);
		s->dropped |= ret == -ENOBUFS;
		if (ret == -EPROTO)
			session_break(s, "sent a record with an invalid sequence");
	}
}

/* Everything that it submitted has arrived. False: its sequence is invalid, and the connection is closed. */
static bool begin_sync(struct session *s)
{
	/* by ring, records that were submitted after the request may have been taken already */
	const uint64_t next = s->by_ring && s->sync_next < s->writer.next ? s->writer.next :
									    s->sync_next;

	if (intake_expect(&s->channel->intake, &s->writer, next)) {
		session_break(s, "sent a sync with an invalid sequence");
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
		session_break(s, "sent an invalid message");
		return;
	}
	memcpy(&sync, message, sizeof(sync));
	/* a new sync replaces one that the writer gave up */
	s->sync = true;
	s->sync_token = sync.token;
	s->sync_next = sync.sequence;
	s->sync_to = 0;
	if (!s->by_ring)
		begin_sync(s);
}

void session_answer_sync(struct session *s)
{
	struct ekr_sync answer = { .type = EKR_SYNC, .token = s->sync_token };
	struct session_losses now;

	if (s->by_ring && !s->sync_to) {
		if (!ring_empty(&s->ring) || !begin_sync(s))
			return;
	}
	if (!is_durable(s, s->channel, s->sync_to))
		return;
	now = session_count(s);
	if (now.failed != s->before.failed)
		answer.error = EIO;
	else if (now.overrun != s->before.overrun)
		answer.error = ENOBUFS;
	s->before = now;
	s->sync = false;
	answer.sequence = s->sync_to;
	send(s->socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void take_message(struct session *s, const unsigned char *message, size_t length)
{
	uint32_t type = 0;

	memcpy(&type, message, length < sizeof(type) ? length : sizeof(type));
	if (!s->channel && !s->wants && !s->keeps && type == EKR_OPEN)
		session_take_open(s, message, length);
	else if (!s->channel && !s->wants && !s->keeps && type == EKR_KEEP)
		take_keep(s, message, length);
	else if (s->channel && type == EKR_RECORD)
		take_record(s, message, length);
	else if (s->channel && type == EKR_SYNC)
		take_sync(s, message, length);
	else
		session_break(s, "sent an invalid message");
}

/* otherwise it was an empty message: recvmsg() returns 0 for both */
static bool has_ended(int fd)
{
	struct pollfd end = { .fd = fd, .events = POLLRDHUP };

	return poll(&end, 1, 0) != 0;
}

/* passes the descriptors of a message to the closer; false: there were none */
static bool take_descriptors(struct session *s, struct msghdr *head)
{
	/* also if there were more than this process may open */
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

int session_receive(struct session *s)
{
	/*
	 * Space for all descriptors that a message can carry: the kernel closes those without space before
	 * recvmsg() returns, however long that takes. The credentials are those of what_comes().
	 */
	union {
		char bytes[CMSG_SPACE(CLOSER_BATCH * sizeof(int)) +
			   CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec piece = { s->ingest->message, RING_COPY };
	struct msghdr head = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;

	if (closer_behind(&s->ingest->closer)) {
		want_credentials(s->socket);
		if (what_comes(s->socket) == COMES_DESCRIPTORS) {
			session_break(s, "sent file descriptors");
			return 1;
		}
	}
	n = recvmsg(s->socket, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	/* after a reset, the messages that the client sent before are still here */
	if (n < 0)
		return errno == EINTR || errno == ECONNRESET ? 1 : errno == EAGAIN ? -EAGAIN : 0;
	if (take_descriptors(s, &head)) {
		session_break(s, "sent file descriptors");
		return 1;
	}
	if (!n && has_ended(s->socket))
		return 0;
	if (head.msg_flags & MSG_TRUNC)
		session_break(s, "sent a record larger than declared");
	else
		take_message(s, s->ingest->message, (size_t)n);
	return 1;
}
