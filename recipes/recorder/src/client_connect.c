// SPDX-License-Identifier: Apache-2.0
/* libek-recorder: the connections of a writer, their beginning and their end. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client_state.h"
#include "clock.h"

/* from one attempt to connect to the next, and after a refusal that is not temporary */
#define RETRY	      (100 * NSEC_PER_MSEC)
#define RETRY_REFUSED NSEC_PER_SEC
/* from one look for the recorder's answer to the next */
#define LOOK NSEC_PER_MSEC
/* a Unix socket accepts messages that are this much smaller than its buffer */
#define MESSAGE_COST 64u
#define SEND_BUFFER  (4 << 20)
/* descriptors of a ring: slots, state and bell */
#define RING_FDS 3

int client_fail(struct ek_writer *w, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->error, sizeof(w->error), fmt, ap);
	va_end(ap);
	return -code;
}

void client_close_socket(struct ek_writer *w)
{
	if (w->socket >= 0)
		close(w->socket);
	if (w->bell >= 0)
		close(w->bell);
	w->socket = w->bell = -1;
	w->state = IDLE;
	w->leaving = false;
}

void client_unmap_ring(struct ek_writer *w)
{
	if (w->ring)
		munmap(w->ring, w->ring_size);
	if (w->ring_state)
		munmap((void *)(uintptr_t)w->ring_state, sizeof(*w->ring_state));
	w->ring = NULL;
	w->ring_state = NULL;
}

/* an attempt failed: @code as for ek_writer_connect() */
static int refuse(struct ek_writer *w, int code, uint64_t pause)
{
	client_close_socket(w);
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
		client_fail(w, errno, "creating a socket: %s", strerror(errno));
		return refuse(w, errno, RETRY);
	}
	/* as large as possible: each message in it is a record that is not lost */
	setsockopt(w->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (connect(w->socket, (struct sockaddr *)&address, sizeof(address))) {
		int code = errno;

		client_fail(w, code, "connecting to the recorder at %.100s: %s", w->path,
			    strerror(code));
		/* ENOENT means that there is no such channel; EAGAIN that too many wait for the recorder */
		return refuse(w, code == ENOENT ? ECONNREFUSED : code, RETRY);
	}
	/* EPIPE: the recorder has closed the connection, and may have sent the reason */
	if (send(w->socket, &open, sizeof(open), MSG_NOSIGNAL) < 0 && errno != EPIPE) {
		client_fail(w, errno, "asking the recorder for channel %s: %s", w->name,
			    strerror(errno));
		return refuse(w, errno, RETRY);
	}
	w->reported = w->absent;
	w->state = ASKED;
	w->refused = 0;
	client_fail(w, EAGAIN, "the recorder has not answered yet");
	return 0;
}

static void *map(int fd, size_t size, int protection, int flags)
{
	struct stat st;
	void *p = MAP_FAILED;

	errno = EPROTO;
	if (!fstat(fd, &st) && (size_t)st.st_size == size)
		p = mmap(NULL, size, protection, MAP_SHARED | flags, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* @populate: maps all pages now, so that no later submission faults */
static int map_ring(struct ek_writer *w, const struct ekr_opened *opened, const int fds[RING_FDS],
		    bool populate)
{
	client_unmap_ring(w);
	w->ring_size = EKR_RING_DATA + (size_t)opened->slots * opened->stride;
	if (fds[2] < 0 || !opened->slots ||
	    opened->stride < sizeof(struct ekr_slot) + opened->record_size)
		return client_fail(
			w, EPROTO,
			"the recorder sent an invalid ring; libek-recorder may be of another version");
	w->ring = map(fds[0], w->ring_size, PROT_READ | PROT_WRITE, populate ? MAP_POPULATE : 0);
	if (w->ring)
		w->ring_state = map(fds[1], sizeof(*w->ring_state), PROT_READ, MAP_POPULATE);
	if (!w->ring || !w->ring_state) {
		int code = errno;

		client_unmap_ring(w);
		return client_fail(w, code, "mapping the ring: %s", strerror(code));
	}
	w->slots = opened->slots;
	w->stride = opened->stride;
	w->head = w->tail = 0;
	return 0;
}

/* a socket that is too small for a record fails now, and not with each record */
static int check_socket(struct ek_writer *w)
{
	int size = 0;
	socklen_t length = sizeof(size);

	if (getsockopt(w->socket, SOL_SOCKET, SO_SNDBUF, &size, &length))
		return client_fail(w, errno, "reading the size of the socket's buffer: %s",
				   strerror(errno));
	if (sizeof(struct ekr_submit) + w->channel.record_size + MESSAGE_COST > (unsigned int)size)
		return client_fail(
			w, EMSGSIZE,
			"records of %u bytes do not fit into the socket's buffer of %d bytes; use a ring, or raise net.core.wmem_max",
			w->channel.record_size, size);
	return 0;
}

static int take_answer(struct ek_writer *w, const void *message, size_t length,
		       const int fds[RING_FDS], bool populate)
{
	struct ekr_opened opened;
	struct ekr_refused refused;
	int ret;

	memcpy(&refused, message, length < sizeof(refused) ? length : sizeof(refused));
	if (length == sizeof(refused) && refused.type == EKR_REFUSED && refused.error > 0)
		return client_fail(w, refused.error, "%.*s", (int)sizeof(refused.why), refused.why);
	memcpy(&opened, message, length < sizeof(opened) ? length : sizeof(opened));
	if (length != sizeof(opened) || opened.type != EKR_OPENED ||
	    opened.record_size > EKR_RECORD_MAX)
		return client_fail(w, EPROTO, "the recorder sent an invalid answer");
	w->channel = (struct ek_channel){
		.record_size = opened.record_size,
		.period_ns = opened.period_ns,
		.window_ns = opened.window_ns,
	};
	ret = w->way == EK_BY_RING ? map_ring(w, &opened, fds, populate) : check_socket(w);
	if (ret)
		return ret;
	/* the records that were lost since the request take sequences */
	w->skipped = w->absent - w->reported;
	w->sequence = opened.next_sequence + w->skipped;
	w->absent = w->reported = 0;
	if (w->ring)
		atomic_store_explicit(&w->ring->lost, w->skipped, memory_order_relaxed);
	w->alive_ns = monotonic_ns();
	w->state = CONNECTED;
	return 0;
}

/* 0: connected; -EAGAIN: there is no answer yet; otherwise refused */
static int receive_answer(struct ek_writer *w, bool populate)
{
	union {
		struct ekr_opened opened;
		struct ekr_refused refused;
	} answer;
	union {
		char bytes[CMSG_SPACE(RING_FDS * sizeof(int))];
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
	int fds[RING_FDS] = { -1, -1, -1 }, ret;
	ssize_t n = recvmsg(w->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0) {
		client_fail(w, EPIPE, "the recorder exited or closed the connection");
		return refuse(w, EPIPE, RETRY);
	}
	head = CMSG_FIRSTHDR(&message);
	/* fewer if this process may open no more files */
	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len <= CMSG_LEN(sizeof(fds)))
		memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
	w->bell = fds[2];
	ret = message.msg_flags & MSG_CTRUNC ?
		      client_fail(w, EMFILE, "receiving the ring: too many open files") :
		      take_answer(w, &answer, (size_t)n, fds, populate);
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return ret ? refuse(w, -ret, ret == -EAGAIN ? RETRY : RETRY_REFUSED) : 0;
}

/* --- the end of a connection ---------------------------------------------------------- */

void client_count_absent(struct ek_writer *w, uint64_t records)
{
	w->absent += records;
	w->lost += records;
	if (records && !w->owed)
		w->owed = ENOTCONN;
}

/*
 * The last records that were lost on this connection were not reported, because no record followed them.
 * The next connection reports them.
 */
static void keep_unheard(struct ek_writer *w, uint64_t heard, uint64_t left)
{
	uint64_t unheard = heard <= w->sequence ? w->sequence - heard : 0;

	if (unheard > left)
		w->absent += unheard - left < w->skipped ? unheard - left : w->skipped;
}

/* The recorder has closed the connection; what is still in the ring is lost. @why: its last message; NULL: none. */
static void disconnect(struct ek_writer *w, const struct ekr_refused *why)
{
	uint64_t left = w->ring ? w->head - client_taken(w) : 0;

	if (why)
		keep_unheard(w, why->sequence, left);
	w->in_order = why && why->error == ESHUTDOWN;
	w->untaken = left > 0 && left <= w->slots;
	if (!w->in_order)
		w->owed = EPIPE;
	if (w->untaken)
		client_count_absent(w, left);
	client_close_socket(w);
	w->retry_ns = monotonic_ns();
	if (why)
		client_fail(w, EPIPE, "%.*s", (int)sizeof(why->why), why->why);
	else
		client_fail(w, EPIPE, "the recorder exited or closed the connection");
	w->ended++;
	memcpy(w->why, w->error, sizeof(w->why));
}

int client_receive(struct ek_writer *w, uint64_t *token)
{
	union {
		struct ekr_sync sync;
		struct ekr_refused refused;
	} answer;
	ssize_t n = recv(w->socket, &answer, sizeof(answer), MSG_DONTWAIT);

	*token = 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 || (n == sizeof(answer.refused) && answer.refused.type == EKR_REFUSED)) {
		disconnect(w, n > 0 ? &answer.refused : NULL);
		return -EPIPE;
	}
	if (n != sizeof(answer.sync) || answer.sync.type != EKR_SYNC)
		return 1;
	*token = answer.sync.token;
	/* also of a sync that was given up: the next one returns what it reports */
	if (answer.sync.error > 0 && w->owed != EIO && w->owed != EPIPE)
		w->owed = answer.sync.error;
	return 1;
}

bool client_has_gone(struct ek_writer *w)
{
	uint64_t token;
	int ret;

	do
		ret = client_receive(w, &token);
	while (ret > 0);
	return ret < 0;
}

bool client_move_on(struct ek_writer *w, bool populate)
{
	uint64_t now;

	if (w->state == CONNECTED && !w->leaving)
		return true;
	now = monotonic_ns();
	if (now < w->retry_ns)
		return false;
	w->retry_ns = now + LOOK;
	if (w->leaving && !client_has_gone(w))
		return false;
	if (w->state == IDLE && ask(w))
		return false;
	return !receive_answer(w, populate);
}

int client_left_ms(int timeout_ms, uint64_t until)
{
	uint64_t now = monotonic_ns();

	if (timeout_ms < 0)
		return -1;
	return now < until ? (int)((until - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : 0;
}

uint64_t client_until_ms(int timeout_ms)
{
	return monotonic_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * NSEC_PER_MSEC;
}

/* another attempt may succeed soon */
static bool is_passing(int code, bool patient)
{
	return code == EAGAIN || code == EPIPE || (patient && code == ECONNREFUSED);
}

int client_wait_connected(struct ek_writer *w, int timeout_ms, uint64_t until, bool patient)
{
	while (!client_move_on(w, true)) {
		struct pollfd poll_fd = { .fd = w->socket, .events = POLLIN };
		int left = client_left_ms(timeout_ms, until);

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
		return client_fail(w, EINVAL, "invalid way %d; use EK_BY_SOCKET or EK_BY_RING",
				   (int)way);
	if (!channel || !*channel || strlen(channel) > EKR_NAME_MAX)
		return client_fail(w, EINVAL, "the name of a channel has 1 to %u characters",
				   EKR_NAME_MAX);
	if (strlen(socket) >= sizeof(w->path))
		return client_fail(w, EINVAL, "the path of the socket is too long: %.100s", socket);
	memcpy(w->path, socket, strlen(socket));
	memcpy(w->name, channel, strlen(channel));
	w->retry_ns = 0;
	w->refused = 0;
	client_move_on(w, true);
	return 0;
}

int ek_writer_connect(struct ek_writer *w, int timeout_ms)
{
	return client_wait_connected(w, timeout_ms, client_until_ms(timeout_ms), false);
}
