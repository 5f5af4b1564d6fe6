// SPDX-License-Identifier: Apache-2.0
/*
 * The writer's end: libek-recorder. It needs nothing but libc.
 *
 * A writer is not connected, or it has asked for its channel, or it is connected. Each
 * submission moves it on without waiting, so a writer survives any number of restarts of
 * the recorder. Records that find it not connected are counted, and the next connection
 * reports their number, so that the recording has a gap of that size.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"
#include "clock.h"
#include "ek_recorder.h"
#include "wire.h"

/* from one attempt to connect to the next, and after the recorder refused for good */
#define RETRY	      (100 * NSEC_PER_MSEC)
#define RETRY_REFUSED NSEC_PER_SEC
/* from one look for the recorder's answer to the next */
#define LOOK NSEC_PER_MSEC
/* a recorder that shuts down reports within this time whether all is on the medium; then systemd kills it */
#define LAST_WORDS_MS 10000
/* a Unix socket accepts messages that are this much smaller than its buffer */
#define MESSAGE_COST 64u
#define SEND_BUFFER  (4 << 20)
/* longest time in which a recorder that takes nothing from the ring is not checked */
#define TAKES_NOTHING (200 * NSEC_PER_MSEC)

enum state { IDLE, ASKED, CONNECTED };

struct ek_writer {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char name[EKR_NAME_MAX + 1];
	enum ek_way way;
	enum state state;
	struct ek_channel channel; /* as of the last connection */
	int socket;		   /* -1: none */
	int bell;		   /* eventfd of the ring */
	struct ekr_ring *ring;	   /* of the last connection; NULL: none */
	size_t ring_size;
	uint32_t slots, stride; /* our own copies */
	uint64_t head;		/* slots filled */
	uint64_t tail;		/* slots taken, as last seen */
	uint64_t alive_ns; /* monotonic: when that moved, or the recorder was last seen to run */
	uint64_t retry_ns; /* monotonic: no attempt to connect, no look for an answer before */
	uint64_t sequence; /* of the next record on this connection */
	uint64_t skipped;  /* sequences that this connection left out */
	uint64_t lost;
	uint64_t absent; /* records lost without a connection that no connection has reported */
	uint64_t told;	 /* of these, in the request that was sent */
	uint64_t token;	 /* of the last sync */
	int refused;	 /* errno of the last attempt to connect; 0: none failed since */
	int owed;	 /* errno that the next sync returns */
	bool leaving;	 /* the recorder has shut the ring, and has not closed the connection yet */
	bool in_order;	 /* the last connection ended, and the recorder has written everything */
	unsigned int ended; /* connections that have ended */
	bool untaken;	    /* the record that met the end of the last connection is lost */
	char error[256];
	char why[256]; /* the last connection ended */
};

static int failed(struct ek_writer *w, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int failed(struct ek_writer *w, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->error, sizeof(w->error), fmt, ap);
	va_end(ap);
	return -code;
}

/* --- connecting ------------------------------------------------------------------- */

static void close_socket(struct ek_writer *w)
{
	if (w->socket >= 0)
		close(w->socket);
	if (w->bell >= 0)
		close(w->bell);
	w->socket = w->bell = -1;
	w->state = IDLE;
	w->leaving = false;
}

static void unmap_ring(struct ek_writer *w)
{
	if (w->ring)
		munmap(w->ring, w->ring_size);
	w->ring = NULL;
}

/* an attempt failed: @code as for ek_writer_connect() */
static int refuse(struct ek_writer *w, int code, uint64_t pause)
{
	close_socket(w);
	w->refused = code;
	w->retry_ns = monotonic_ns() + pause;
	return -code;
}

static int ask(struct ek_writer *w)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct ekr_open open = { .type = EKR_OPEN,
				 .version = EKR_WIRE_VERSION,
				 .way = (uint32_t)w->way,
				 .lost = w->absent };
	int size = SEND_BUFFER;

	memcpy(address.sun_path, w->path, sizeof(address.sun_path));
	memcpy(open.name, w->name, sizeof(w->name));
	w->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (w->socket < 0) {
		failed(w, errno, "creating a socket: %s", strerror(errno));
		return refuse(w, errno, RETRY);
	}
	/* as large as is allowed: each message in it is a record that is not lost */
	setsockopt(w->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (connect(w->socket, (struct sockaddr *)&address, sizeof(address))) {
		int code = errno;

		failed(w, code, "connecting to the recorder at %.100s: %s", w->path,
		       strerror(code));
		/* ENOENT means that there is no such channel; EAGAIN that too many wait for the recorder */
		return refuse(w, code == ENOENT ? ECONNREFUSED : code, RETRY);
	}
	/* a recorder that has closed the connection may have said why */
	if (send(w->socket, &open, sizeof(open), MSG_NOSIGNAL) < 0 && errno != EPIPE) {
		failed(w, errno, "asking the recorder for channel %s: %s", w->name,
		       strerror(errno));
		return refuse(w, errno, RETRY);
	}
	w->told = w->absent;
	w->state = ASKED;
	w->refused = 0;
	failed(w, EAGAIN, "the recorder has not answered yet");
	return 0;
}

/* @populate: now, so that no later submission meets a page for the first time */
static int map_ring(struct ek_writer *w, const struct ekr_opened *opened, int memfd, bool populate)
{
	struct stat st;

	unmap_ring(w);
	w->ring_size = EKR_RING_DATA + (size_t)opened->slots * opened->stride;
	if (memfd < 0 || w->bell < 0 || !opened->slots ||
	    opened->stride < sizeof(struct ekr_slot) + opened->record_size || fstat(memfd, &st) ||
	    (size_t)st.st_size != w->ring_size)
		return failed(w, EPROTO, "the recorder sent an invalid ring");
	w->ring = mmap(NULL, w->ring_size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | (populate ? MAP_POPULATE : 0), memfd, 0);
	if (w->ring == MAP_FAILED) {
		w->ring = NULL;
		return failed(w, errno, "mapping the ring: %s", strerror(errno));
	}
	w->slots = opened->slots;
	w->stride = opened->stride;
	w->head = w->tail = 0;
	return 0;
}

/* a socket that is too small for a record fails now, not with each record */
static int check_socket(struct ek_writer *w)
{
	int size = 0;
	socklen_t length = sizeof(size);

	if (getsockopt(w->socket, SOL_SOCKET, SO_SNDBUF, &size, &length))
		return failed(w, errno, "reading the size of the socket's buffer: %s",
			      strerror(errno));
	if (sizeof(struct ekr_submit) + w->channel.record_size + MESSAGE_COST > (unsigned int)size)
		return failed(
			w, EMSGSIZE,
			"records of %u bytes do not fit into the socket's buffer of %d bytes; use a ring, or raise net.core.wmem_max",
			w->channel.record_size, size);
	return 0;
}

static int take_answer(struct ek_writer *w, const void *message, size_t length, int memfd,
		       bool populate)
{
	struct ekr_opened opened;
	struct ekr_refused refused;
	int ret;

	memcpy(&refused, message, length < sizeof(refused) ? length : sizeof(refused));
	if (length == sizeof(refused) && refused.type == EKR_REFUSED && refused.error > 0)
		return failed(w, refused.error, "%.*s", (int)sizeof(refused.why), refused.why);
	memcpy(&opened, message, length < sizeof(opened) ? length : sizeof(opened));
	if (length != sizeof(opened) || opened.type != EKR_OPENED ||
	    opened.record_size > EKR_RECORD_MAX)
		return failed(w, EPROTO, "the recorder sent an invalid answer");
	w->channel = (struct ek_channel){
		.record_size = opened.record_size,
		.period_ns = opened.period_ns,
		.window_ns = opened.window_ns,
	};
	ret = w->way == EK_BY_RING ? map_ring(w, &opened, memfd, populate) : check_socket(w);
	if (ret)
		return ret;
	/* what was lost since the request is a number that is left out */
	w->skipped = w->absent - w->told;
	w->sequence = opened.next_sequence + w->skipped;
	w->absent = w->told = 0;
	if (w->ring)
		atomic_store_explicit(&w->ring->lost, w->skipped, memory_order_relaxed);
	w->alive_ns = monotonic_ns();
	w->state = CONNECTED;
	return 0;
}

/* 0: it is connected; -EAGAIN: no answer yet; else it was refused */
static int receive_answer(struct ek_writer *w, bool populate)
{
	union {
		struct ekr_opened opened;
		struct ekr_refused refused;
	} answer;
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec piece = { &answer, sizeof(answer) };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *head;
	int fds[2] = { -1, -1 }, ret;
	ssize_t n = recvmsg(w->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0) {
		failed(w, EPIPE, "the recorder exited or closed the connection");
		return refuse(w, EPIPE, RETRY);
	}
	head = CMSG_FIRSTHDR(&message);
	/* only one of both if this process has no place for the other */
	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len <= CMSG_LEN(sizeof(fds)))
		memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
	w->bell = fds[1];
	ret = message.msg_flags & MSG_CTRUNC ?
		      failed(w, EMFILE, "receiving the ring: too many open files") :
		      take_answer(w, &answer, (size_t)n, fds[0], populate);
	if (fds[0] >= 0)
		close(fds[0]);
	return ret ? refuse(w, -ret, ret == -EAGAIN ? RETRY : RETRY_REFUSED) : 0;
}

/* --- the end of a connection ---------------------------------------------------------- */

union answer {
	struct ekr_sync sync;
	struct ekr_refused refused;
};

static bool is_refusal(const union answer *a, ssize_t n)
{
	return n == sizeof(a->refused) && a->refused.type == EKR_REFUSED;
}

static uint64_t taken(const struct ek_writer *w)
{
	return atomic_load_explicit(&w->ring->tail, memory_order_acquire);
}

static void count_absent(struct ek_writer *w, uint64_t records)
{
	w->absent += records;
	w->lost += records;
	if (records && !w->owed)
		w->owed = ENOTCONN;
}

/*
 * The recorder, which ended the connection, has not heard of the last sequences that were left
 * out: no record followed that would show it. The next connection reports them.
 */
static void keep_unheard(struct ek_writer *w, uint64_t heard, uint64_t left)
{
	uint64_t unheard = heard && heard <= w->sequence ? w->sequence - heard : 0;

	if (unheard > left)
		w->absent += unheard - left < w->skipped ? unheard - left : w->skipped;
}

/* the recorder has closed the connection; what is still in the ring is lost */
static void disconnect(struct ek_writer *w, const struct ekr_refused *why)
{
	uint64_t left = w->ring ? w->head - taken(w) : 0;

	if (why)
		keep_unheard(w, why->sequence, left);
	w->in_order = why && why->error == ESHUTDOWN;
	w->untaken = left > 0 && left <= w->slots;
	if (!w->in_order)
		w->owed = EPIPE;
	if (w->untaken)
		count_absent(w, left);
	close_socket(w);
	w->retry_ns = monotonic_ns();
	if (why)
		failed(w, EPIPE, "%.*s", (int)sizeof(why->why), why->why);
	else
		failed(w, EPIPE, "the recorder exited or closed the connection");
	w->ended++;
	memcpy(w->why, w->error, sizeof(w->why));
}

/* an answer to a sync that was given up: the next sync returns what it reports */
static void take_late(struct ek_writer *w, const union answer *a, ssize_t n)
{
	if (n == sizeof(a->sync) && a->sync.type == EKR_SYNC && a->sync.error > 0 &&
	    w->owed != EIO && w->owed != EPIPE)
		w->owed = a->sync.error;
}

/* Reads what the recorder has sent. True: the connection has ended. */
static bool has_gone(struct ek_writer *w)
{
	union answer answer;
	ssize_t n;

	while ((n = recv(w->socket, &answer, sizeof(answer), MSG_DONTWAIT)) > 0) {
		if (is_refusal(&answer, n)) {
			disconnect(w, &answer.refused);
			return true;
		}
		take_late(w, &answer, n);
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	disconnect(w, NULL);
	return true;
}

static bool is_shut(const struct ek_writer *w)
{
	return atomic_load_explicit(&w->ring->closed, memory_order_seq_cst) != 0;
}

/* Moves on without waiting. True: it is connected. */
static bool move_on(struct ek_writer *w, bool populate)
{
	uint64_t now;

	if (w->state == CONNECTED && !w->leaving)
		return true;
	now = monotonic_ns();
	if (now < w->retry_ns)
		return false;
	w->retry_ns = now + LOOK;
	if (w->leaving && !has_gone(w))
		return false;
	if (w->state == IDLE && ask(w))
		return false;
	return !receive_answer(w, populate);
}

/* ms left until @until, at least 0; -1: no limit */
static int left_ms(int timeout_ms, uint64_t until)
{
	uint64_t now = monotonic_ns();

	if (timeout_ms < 0)
		return -1;
	return now < until ? (int)((until - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : 0;
}

static uint64_t until_ms(int timeout_ms)
{
	return monotonic_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * NSEC_PER_MSEC;
}

/* what another attempt may change soon */
static bool is_passing(int code, bool patient)
{
	return code == EAGAIN || code == EPIPE || (patient && code == ECONNREFUSED);
}

/* @patient: nobody listens is not final */
static int wait_connected(struct ek_writer *w, int timeout_ms, uint64_t until, bool patient)
{
	while (!move_on(w, true)) {
		struct pollfd poll_fd = { .fd = w->socket, .events = POLLIN };
		int left = left_ms(timeout_ms, until);

		if (w->refused && !is_passing(w->refused, patient))
			return -w->refused;
		if (!left)
			return w->refused ? -w->refused : -ETIMEDOUT;
		/* the answer wakes it; without a socket poll() only sleeps */
		poll(&poll_fd, 1, left < 0 || left > 10 ? 10 : left);
		if (w->state == ASKED || w->leaving)
			w->retry_ns = 0;
	}
	return 0;
}

int ek_writer_open(struct ek_writer **writer, const char *socket, const char *channel,
		   enum ek_way way)
{
	struct ek_writer *w = calloc(1, sizeof(*w));

	*writer = w;
	if (!w)
		return -ENOMEM;
	w->way = way;
	w->socket = w->bell = -1;
	w->in_order = true;
	/* of a writer that could not be opened no call connects */
	w->retry_ns = UINT64_MAX;
	w->refused = EINVAL;
	if (!socket)
		socket = EKR_SOCKET;
	if (way != EK_BY_SOCKET && way != EK_BY_RING)
		return failed(w, EINVAL, "invalid way %d; use EK_BY_SOCKET or EK_BY_RING",
			      (int)way);
	if (!channel || !*channel || strlen(channel) > EKR_NAME_MAX)
		return failed(w, EINVAL, "the name of a channel has 1 to %u characters",
			      EKR_NAME_MAX);
	if (strlen(socket) >= sizeof(w->path))
		return failed(w, EINVAL, "the path of the socket is too long: %.100s", socket);
	memcpy(w->path, socket, strlen(socket));
	memcpy(w->name, channel, strlen(channel));
	w->retry_ns = 0;
	w->refused = 0;
	move_on(w, true);
	return 0;
}

int ek_writer_connect(struct ek_writer *w, int timeout_ms)
{
	return wait_connected(w, timeout_ms, until_ms(timeout_ms), false);
}

/* --- submitting ----------------------------------------------------------------------- */

/* the sentence of the failure stays */
static int lose_absent(struct ek_writer *w)
{
	count_absent(w, 1);
	return -ENOTCONN;
}

/* the record that met the end of the connection */
static int met_end(struct ek_writer *w)
{
	return w->untaken ? -ENOTCONN : 0;
}

static int lose(struct ek_writer *w)
{
	w->sequence++;
	w->skipped++;
	w->lost++;
	return failed(w, EAGAIN, "the recorder cannot keep up: this record is lost");
}

static uint64_t filled(const struct ek_writer *w)
{
	return w->head - taken(w);
}

static struct ekr_slot *next_slot(const struct ek_writer *w)
{
	return (struct ekr_slot *)((unsigned char *)w->ring + EKR_RING_DATA +
				   (w->head % w->slots) * w->stride);
}

static void ring_bell(const struct ek_writer *w)
{
	uint64_t one = 1;

	/* a bell that was rung before is as good */
	(void)!write(w->bell, &one, sizeof(one));
}

/* the recorder shut the ring; true: it has also closed the connection */
static bool has_left(struct ek_writer *w)
{
	w->leaving = true;
	failed(w, EPIPE, "the recorder is shutting down");
	return has_gone(w);
}

int ek_writer_reserve(struct ek_writer *w, void **place)
{
	if (w->way != EK_BY_RING)
		return failed(w, EINVAL, "only a writer by ring can reserve");
	if (move_on(w, false) && is_shut(w) && !has_left(w))
		return lose_absent(w);
	if (w->state != CONNECTED || w->leaving)
		return lose_absent(w);
	if (filled(w) >= w->slots) {
		/* a recorder that was killed has not shut its ring */
		if (has_gone(w))
			return lose_absent(w);
		ring_bell(w);
		lose(w);
		atomic_store_explicit(&w->ring->lost, w->skipped, memory_order_relaxed);
		return -EAGAIN;
	}
	*place = next_slot(w)->payload;
	return 0;
}

/*
 * A recorder that was killed shuts no ring. A running one looks into the ring at least four
 * times in a window. If it was not seen to take anything for half a window, a system call
 * checks whether it runs. So what a dead recorder is given is younger than the window. The
 * writer sees progress only when it submits: if records are further apart, each one checks.
 */
static bool is_alive(struct ek_writer *w, uint64_t tail, uint64_t now)
{
	uint64_t patience = w->channel.window_ns / 2;

	if (now - w->alive_ns < (patience < TAKES_NOTHING ? patience : TAKES_NOTHING)) {
		if (tail != w->tail)
			w->alive_ns = now;
		w->tail = tail;
		return true;
	}
	w->tail = tail;
	w->alive_ns = now;
	return !has_gone(w);
}

int ek_writer_commit_at(struct ek_writer *w, size_t length, uint64_t acquired_ns)
{
	struct ekr_slot *slot;
	uint64_t now, tail;

	if (w->way != EK_BY_RING)
		return failed(w, EINVAL, "only a writer by ring can commit");
	if (w->state != CONNECTED || w->leaving)
		return lose_absent(w);
	if (length > w->channel.record_size)
		return failed(w, EMSGSIZE, "the record has %zu bytes; the channel accepts up to %u",
			      length, w->channel.record_size);
	slot = next_slot(w);
	slot->length = (uint32_t)length;
	slot->sequence = w->sequence++;
	slot->monotonic_ns = now = monotonic_ns();
	slot->realtime_ns = realtime_ns();
	slot->acquired_ns = acquired_ns;
	w->head++;
	/*
	 * Ordered with the look at `closed`: the recorder shuts the ring and then takes
	 * what is in it, so a record is taken, or its writer learns that it may not be.
	 */
	atomic_store_explicit(&w->ring->head, w->head, memory_order_seq_cst);
	if (is_shut(w))
		/* whether it was taken shows when the connection has ended; if not, it is counted then */
		return has_left(w) ? met_end(w) : -ENOTCONN;
	tail = taken(w);
	if (w->head - tail == w->slots / 2)
		ring_bell(w);
	return is_alive(w, tail, now) ? 0 : met_end(w);
}

int ek_writer_commit(struct ek_writer *w, size_t length)
{
	return ek_writer_commit_at(w, length, 0);
}

static int submit_by_ring(struct ek_writer *w, const void *record, size_t length,
			  uint64_t acquired_ns)
{
	void *place;
	int ret = ek_writer_reserve(w, &place);

	if (ret)
		return ret;
	if (length)
		memcpy(place, record, length);
	return ek_writer_commit_at(w, length, acquired_ns);
}

static int submit_by_socket(struct ek_writer *w, const void *record, size_t length,
			    uint64_t acquired_ns)
{
	struct ekr_submit submit = {
		.type = EKR_RECORD,
		.length = (uint32_t)length,
		.sequence = w->sequence,
		.monotonic_ns = monotonic_ns(),
		.realtime_ns = realtime_ns(),
		.acquired_ns = acquired_ns,
	};
	struct iovec pieces[2] = { { &submit, sizeof(submit) },
				   { (void *)(uintptr_t)record, length } };
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 2 };
	ssize_t n;

	do {
		n = sendmsg(w->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0) {
		w->sequence++;
		return 0;
	}
	if (errno == EAGAIN || errno == ENOBUFS)
		return lose(w);
	if (errno == EPIPE || errno == ECONNRESET) {
		/* nothing more can be sent, but the recorder may still write what was */
		w->leaving = !has_gone(w);
		w->untaken = true;
		return lose_absent(w);
	}
	return failed(w, errno, "sending a record: %s", strerror(errno));
}

int ek_writer_submit_at(struct ek_writer *w, const void *record, size_t length,
			uint64_t acquired_ns)
{
	if (!move_on(w, false))
		return lose_absent(w);
	if (length > w->channel.record_size)
		return failed(w, EMSGSIZE, "the record has %zu bytes; the channel accepts up to %u",
			      length, w->channel.record_size);
	return w->way == EK_BY_RING ? submit_by_ring(w, record, length, acquired_ns) :
				      submit_by_socket(w, record, length, acquired_ns);
}

int ek_writer_submit(struct ek_writer *w, const void *record, size_t length)
{
	return ek_writer_submit_at(w, record, length, 0);
}

/* --- waiting -------------------------------------------------------------------------- */

/* 0; -ETIMEDOUT; -EPIPE: the connection has ended */
static int send_sync(struct ek_writer *w, int timeout_ms, uint64_t until)
{
	const struct ekr_sync sync = { .type = EKR_SYNC,
				       .token = ++w->token,
				       .sequence = w->sequence };
	struct pollfd poll_fd = { .fd = w->socket, .events = POLLOUT };

	for (;;) {
		int left;

		if (send(w->socket, &sync, sizeof(sync), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == EPIPE || errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
			return failed(w, errno, "asking for a sync: %s", strerror(errno));
		/* the socket is full of records */
		left = left_ms(timeout_ms, until);
		if (!left)
			return failed(w, ETIMEDOUT, "the recorder does not read its socket");
		poll(&poll_fd, 1, left);
	}
}

/* 0: all is on the medium, except what w->owed says; -ETIMEDOUT; -EPIPE: the connection has ended */
static int sync_connected(struct ek_writer *w, int timeout_ms)
{
	uint64_t until = until_ms(timeout_ms);
	int ret = w->leaving ? -EPIPE : send_sync(w, timeout_ms, until);

	if (ret && ret != -EPIPE)
		return ret;
	for (;;) {
		struct pollfd poll_fd = { .fd = w->socket, .events = POLLIN };
		union answer answer;
		ssize_t n;

		ret = poll(&poll_fd, 1, left_ms(timeout_ms, until));
		if (ret < 0 && errno == EINTR)
			continue;
		if (!ret)
			return failed(w, ETIMEDOUT, "not everything is on the medium yet");
		n = recv(w->socket, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0 || is_refusal(&answer, n)) {
			disconnect(w, n > 0 ? &answer.refused : NULL);
			return -EPIPE;
		}
		take_late(w, &answer, n);
		if (n == sizeof(answer.sync) && answer.sync.type == EKR_SYNC &&
		    answer.sync.token == w->token)
			return 0;
	}
}

int ek_writer_sync(struct ek_writer *w, int timeout_ms)
{
	int ret = 0, owed;

	if (w->state == CONNECTED)
		ret = sync_connected(w, timeout_ms);
	else if (w->refused == EINVAL)
		return -ENOTCONN;
	if (ret && ret != -EPIPE)
		return ret;
	/* a recorder that has written everything before it exited has done what a sync asks for */
	owed = w->owed;
	w->owed = 0;
	if (owed == EPIPE)
		return w->state == CONNECTED ?
			       failed(w, EPIPE,
				      "the recorder was restarted, and records may be lost") :
			       -EPIPE;
	if (owed)
		failed(w, owed, "records were lost before this: %s",
		       owed == ENOBUFS ?
			       "there was no space, because records arrived faster than they were written" :
		       owed == ENOTCONN ? "the recorder was not running" :
		       owed == EIO	? "the medium failed to write them" :
					  strerror(owed));
	return -owed;
}

int ek_writer_wait(struct ek_writer *w, int timeout_ms)
{
	uint64_t until = until_ms(timeout_ms);

	for (;;) {
		struct pollfd poll_fd = { .events = w->way == EK_BY_RING ? 0 : POLLOUT };
		int ret = wait_connected(w, timeout_ms, until, true), left;

		if (ret)
			return ret;
		if (w->way == EK_BY_RING && is_shut(w)) {
			has_left(w);
			continue;
		}
		if (w->way == EK_BY_RING && filled(w) < w->slots)
			return 0;
		left = left_ms(timeout_ms, until);
		if (w->way == EK_BY_RING) {
			ring_bell(w);
			/* the recorder rings no bell of ours: that would cost it a call for each record */
			left = left && left != 1 ? 1 : left;
		}
		poll_fd.fd = w->socket;
		ret = poll(&poll_fd, 1, left);
		if (ret > 0 && poll_fd.revents & (POLLHUP | POLLERR))
			w->leaving = !has_gone(w);
		else if (ret > 0)
			return 0;
		else if (!left_ms(timeout_ms, until))
			return failed(w, ETIMEDOUT, "there is no space for a record yet");
	}
}

/* --- for the program ------------------------------------------------------------------- */

bool client_take_back(struct ek_writer *w)
{
	const uint64_t until = until_ms(LAST_WORDS_MS);
	int left;

	while (w->state == CONNECTED && !has_gone(w) && (left = left_ms(LAST_WORDS_MS, until))) {
		struct pollfd poll_fd = { .fd = w->socket, .events = POLLIN };

		poll(&poll_fd, 1, left);
	}
	if (!w->untaken || !w->absent)
		return false;
	w->untaken = false;
	w->absent--;
	w->lost--;
	/* it is submitted again: nothing is owed for it */
	if (!w->absent && w->owed == ENOTCONN)
		w->owed = 0;
	return true;
}

unsigned int client_ended(const struct ek_writer *w, bool *in_order, const char **why)
{
	*in_order = w->in_order;
	*why = w->why;
	return w->ended;
}

/* ---------------------------------------------------------------------------------------- */

const struct ek_channel *ek_writer_channel(const struct ek_writer *w)
{
	return &w->channel;
}

uint64_t ek_writer_lost(const struct ek_writer *w)
{
	return w->lost;
}

const char *ek_writer_error(const struct ek_writer *w)
{
	return w->error;
}

void ek_writer_close(struct ek_writer *w)
{
	if (!w)
		return;
	/* reports the records lost at the end; nobody waits for the answer */
	if (w->way == EK_BY_SOCKET && w->skipped && w->state == CONNECTED)
		send_sync(w, 0, 0);
	unmap_ring(w);
	close_socket(w);
	free(w);
}
