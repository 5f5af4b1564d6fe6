// SPDX-License-Identifier: Apache-2.0
/* The writer's end: libek-recorder. It needs nothing but libc. */
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

/* for the recorder to answer that a channel is open: it may be starting */
#define OPEN_TIMEOUT_MS 10000
/* for one that stops to say whether all is on the medium; systemd kills it after this */
#define LAST_WORDS_MS 10000
/* a Unix socket takes messages that are this much smaller than its buffer */
#define MESSAGE_COST 64u
#define SEND_BUFFER  (4 << 20)
/* at most, until a recorder that takes nothing from its ring is asked whether it is there */
#define TAKES_NOTHING (200 * NSEC_PER_MSEC)

struct ek_writer {
	struct ek_channel channel;
	enum ek_way way;
	int socket;	       /* -1: none */
	int bell;	       /* eventfd of the ring */
	struct ekr_ring *ring; /* NULL: none */
	size_t ring_size;
	uint32_t slots, stride; /* our own copies */
	uint64_t head;		/* slots filled */
	uint64_t tail;		/* slots taken, as last seen */
	uint64_t alive_ns; /* monotonic, when that moved, or the recorder was seen to be there */
	uint64_t sequence; /* of the next record */
	uint64_t lost;
	uint64_t token; /* of the last sync */
	int owed;	/* errno of what was lost, of a sync that was given up; 0: none */
	bool gone;	/* the recorder has, or there never was a channel */
	bool said_why;	/* its last words */
	bool in_order;	/* and said that it has taken all that was submitted */
	char error[256];
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

static int say_gone(struct ek_writer *w)
{
	w->gone = true;
	return failed(w, EPIPE, "the recorder exited or closed the connection");
}

static int connect_to(struct ek_writer *w, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_sec = OPEN_TIMEOUT_MS / 1000 };
	int size = SEND_BUFFER;

	if (strlen(path) >= sizeof(address.sun_path))
		return failed(w, EINVAL, "the path of the socket is too long: %.100s", path);
	memcpy(address.sun_path, path, strlen(path));
	w->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (w->socket < 0)
		return failed(w, errno, "creating a socket: %s", strerror(errno));
	/* as large as is allowed: each message in it is a record that is not lost */
	setsockopt(w->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(w->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(w->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (!connect(w->socket, (struct sockaddr *)&address, sizeof(address)))
		return 0;
	/* -ENOENT is a channel that there is not */
	return failed(w, errno == ENOENT ? ECONNREFUSED : errno,
		      "connecting to the recorder at %.100s: %s", path, strerror(errno));
}

static int map_ring(struct ek_writer *w, const struct ekr_opened *opened, int memfd)
{
	struct stat st;

	w->ring_size = EKR_RING_DATA + (size_t)opened->slots * opened->stride;
	if (memfd < 0 || w->bell < 0 || !opened->slots ||
	    opened->stride < sizeof(struct ekr_slot) + opened->record_size || fstat(memfd, &st) ||
	    (size_t)st.st_size != w->ring_size)
		return failed(w, EPROTO, "the recorder sent an invalid ring");
	w->ring = mmap(NULL, w->ring_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memfd,
		       0);
	if (w->ring == MAP_FAILED) {
		w->ring = NULL;
		return failed(w, errno, "mapping the ring: %s", strerror(errno));
	}
	w->slots = opened->slots;
	w->stride = opened->stride;
	w->alive_ns = monotonic_ns();
	return 0;
}

/* what a message would need; a socket that is too small for one fails now, not with each record */
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

static int take_answer(struct ek_writer *w, const void *message, size_t length, int memfd)
{
	struct ekr_opened opened;
	struct ekr_refused refused;

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
	w->sequence = opened.next_sequence;
	return w->way == EK_BY_RING ? map_ring(w, &opened, memfd) : check_socket(w);
}

static int receive_answer(struct ek_writer *w)
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
	ssize_t n;

	do {
		n = recvmsg(w->socket, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return failed(w, ETIMEDOUT, "the recorder did not answer within %d s",
			      OPEN_TIMEOUT_MS / 1000);
	if (n <= 0)
		return say_gone(w);
	head = CMSG_FIRSTHDR(&message);
	/* one of both, where the other finds no place in this process */
	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len <= CMSG_LEN(sizeof(fds)))
		memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
	w->bell = fds[1];
	ret = message.msg_flags & MSG_CTRUNC ?
		      failed(w, EMFILE, "receiving the ring: too many open files") :
		      take_answer(w, &answer, (size_t)n, fds[0]);
	if (fds[0] >= 0)
		close(fds[0]);
	return ret;
}

static int open_channel(struct ek_writer *w, const char *socket, const char *channel,
			enum ek_way way)
{
	struct ekr_open open = { .type = EKR_OPEN,
				 .version = EKR_WIRE_VERSION,
				 .way = (uint32_t)way };
	int ret;

	if (way != EK_BY_SOCKET && way != EK_BY_RING)
		return failed(w, EINVAL, "invalid way %d; use EK_BY_SOCKET or EK_BY_RING",
			      (int)way);
	if (!channel || !*channel || strlen(channel) > EKR_NAME_MAX)
		return failed(w, EINVAL, "the name of a channel has 1 to %u characters",
			      EKR_NAME_MAX);
	memcpy(open.name, channel, strlen(channel));
	ret = connect_to(w, socket ? socket : EKR_SOCKET);
	if (ret)
		return ret;
	/* one that has been refused already finds out below */
	if (send(w->socket, &open, sizeof(open), MSG_NOSIGNAL) < 0 && errno != EPIPE)
		return failed(w, errno, "asking the recorder for channel %s: %s", channel,
			      strerror(errno));
	return receive_answer(w);
}

int ek_writer_open(struct ek_writer **writer, const char *socket, const char *channel,
		   enum ek_way way)
{
	struct ek_writer *w = calloc(1, sizeof(*w));
	int ret;

	*writer = w;
	if (!w)
		return -ENOMEM;
	w->way = way;
	w->socket = w->bell = -1;
	ret = open_channel(w, socket, channel, way);
	/* it has no ring or no socket; its words stay those of the failure */
	w->gone = ret != 0;
	return ret;
}

union answer {
	struct ekr_sync sync;
	struct ekr_refused refused;
};

static bool is_refusal(const union answer *a, ssize_t n)
{
	return n == sizeof(a->refused) && a->refused.type == EKR_REFUSED;
}

/* the recorder's last words */
static int say_last(struct ek_writer *w, const struct ekr_refused *refused)
{
	w->gone = w->said_why = true;
	w->in_order = refused->error == ESHUTDOWN;
	return failed(w, EPIPE, "%.*s", (int)sizeof(refused->why), refused->why);
}

/*
 * An answer to a sync, which may have been given up. What it says of losses is not said
 * again: the next one is owed it.
 */
static void take_late(struct ek_writer *w, const union answer *a, ssize_t n)
{
	if (n == sizeof(a->sync) && a->sync.type == EKR_SYNC && a->sync.error > 0 && w->owed != EIO)
		w->owed = a->sync.error;
}

/* the recorder's last words, if it has closed the connection; -EAGAIN: it has not */
static int check_gone(struct ek_writer *w)
{
	union answer answer;
	ssize_t n;

	while ((n = recv(w->socket, &answer, sizeof(answer), MSG_DONTWAIT)) > 0) {
		if (is_refusal(&answer, n))
			return say_last(w, &answer.refused);
		take_late(w, &answer, n);
	}
	if (!n || (errno != EAGAIN && errno != EINTR))
		return say_gone(w);
	return -EAGAIN;
}

static int lose(struct ek_writer *w)
{
	w->sequence++;
	w->lost++;
	return failed(w, EAGAIN, "the recorder cannot keep up: this record is lost");
}

static uint64_t taken(const struct ek_writer *w)
{
	return atomic_load_explicit(&w->ring->tail, memory_order_acquire);
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

static bool is_shut(const struct ek_writer *w)
{
	return atomic_load_explicit(&w->ring->closed, memory_order_seq_cst) != 0;
}

/* why it is, if the recorder has said so */
static int say_shut(struct ek_writer *w)
{
	int ret = check_gone(w);

	return ret == -EAGAIN ? say_gone(w) : ret;
}

static void ring_bell(const struct ek_writer *w)
{
	uint64_t one = 1;

	/* a bell that has been rung before is as good */
	(void)!write(w->bell, &one, sizeof(one));
}

int ek_writer_reserve(struct ek_writer *w, void **place)
{
	if (w->gone || w->way != EK_BY_RING)
		return w->gone ? -EPIPE : failed(w, EINVAL, "only a writer by ring can reserve");
	if (is_shut(w))
		return say_shut(w);
	if (filled(w) >= w->slots) {
		/* a recorder that was killed has not shut its ring */
		int ret = check_gone(w);

		if (ret != -EAGAIN)
			return ret;
		ring_bell(w);
		atomic_store_explicit(&w->ring->lost, w->lost + 1, memory_order_relaxed);
		return lose(w);
	}
	*place = next_slot(w)->payload;
	return 0;
}

/*
 * A recorder that was killed shuts no ring. One that is there looks into it at least four
 * times in a window: if for half of one it was not seen to take anything, a system call asks
 * whether it is there. So what a dead one is given is younger than the window. It is seen
 * with a record only: where that long is between two, each asks.
 */
static int check_alive(struct ek_writer *w, uint64_t tail, uint64_t now)
{
	uint64_t patience = w->channel.window_ns / 2;
	int ret;

	if (now - w->alive_ns < (patience < TAKES_NOTHING ? patience : TAKES_NOTHING)) {
		if (tail != w->tail)
			w->alive_ns = now;
		w->tail = tail;
		return 0;
	}
	w->tail = tail;
	w->alive_ns = now;
	ret = check_gone(w);
	return ret == -EAGAIN ? 0 : ret;
}

int ek_writer_commit(struct ek_writer *w, size_t length)
{
	struct ekr_slot *slot;
	uint64_t now, tail;

	if (w->gone || w->way != EK_BY_RING)
		return w->gone ? -EPIPE : failed(w, EINVAL, "only a writer by ring can commit");
	if (length > w->channel.record_size)
		return failed(w, EMSGSIZE, "the record has %zu bytes; the channel accepts up to %u",
			      length, w->channel.record_size);
	slot = next_slot(w);
	slot->length = (uint32_t)length;
	slot->sequence = w->sequence++;
	slot->monotonic_ns = now = monotonic_ns();
	slot->realtime_ns = realtime_ns();
	w->head++;
	/*
	 * Ordered with the look at `closed`: the recorder shuts the ring and then takes
	 * what is in it, so a record is taken, or its writer learns that it may not be.
	 */
	atomic_store_explicit(&w->ring->head, w->head, memory_order_seq_cst);
	if (is_shut(w))
		return say_shut(w);
	tail = taken(w);
	if (w->head - tail == w->slots / 2)
		ring_bell(w);
	return check_alive(w, tail, now);
}

static int submit_by_ring(struct ek_writer *w, const void *record, size_t length)
{
	void *place;
	int ret = ek_writer_reserve(w, &place);

	if (ret)
		return ret;
	if (length)
		memcpy(place, record, length);
	return ek_writer_commit(w, length);
}

static int submit_by_socket(struct ek_writer *w, const void *record, size_t length)
{
	struct ekr_submit submit = {
		.type = EKR_RECORD,
		.length = (uint32_t)length,
		.sequence = w->sequence,
		.monotonic_ns = monotonic_ns(),
		.realtime_ns = realtime_ns(),
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
		int ret = check_gone(w);

		return ret == -EAGAIN ? say_gone(w) : ret;
	}
	return failed(w, errno, "sending a record: %s", strerror(errno));
}

int ek_writer_submit(struct ek_writer *w, const void *record, size_t length)
{
	if (w->gone)
		return -EPIPE;
	if (length > w->channel.record_size)
		return failed(w, EMSGSIZE, "the record has %zu bytes; the channel accepts up to %u",
			      length, w->channel.record_size);
	return w->way == EK_BY_RING ? submit_by_ring(w, record, length) :
				      submit_by_socket(w, record, length);
}

/* ms left until @until, at least 0; -1: for ever */
static int left_ms(int timeout_ms, uint64_t until)
{
	uint64_t now = monotonic_ns();

	if (timeout_ms < 0)
		return -1;
	return now < until ? (int)((until - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : 0;
}

static int send_sync(struct ek_writer *w, int timeout_ms, uint64_t until)
{
	const struct ekr_sync sync = { .type = EKR_SYNC,
				       .token = ++w->token,
				       .sequence = w->sequence };
	struct pollfd poll_fd = { .fd = w->socket, .events = POLLOUT };

	for (;;) {
		int ret;

		if (send(w->socket, &sync, sizeof(sync), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			break;
		if (errno == EPIPE || errno == ECONNRESET) {
			ret = check_gone(w);
			return ret == -EAGAIN ? say_gone(w) : ret;
		}
		if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
			return failed(w, errno, "asking for a sync: %s", strerror(errno));
		/* the socket is full of records */
		ret = left_ms(timeout_ms, until);
		if (!ret)
			return failed(w, ETIMEDOUT, "the recorder does not read its socket");
		poll(&poll_fd, 1, ret);
	}
	/* the recorder empties the ring when it sees the message, and needs no bell */
	return 0;
}

static int say_lost(struct ek_writer *w, int code)
{
	return failed(
		w, code, "records were lost before this: %s",
		code == ENOBUFS ?
			"there was no space, because records arrived faster than they were written" :
		code == EIO ? "the medium failed to write them" :
			      strerror(code));
}

int ek_writer_sync(struct ek_writer *w, int timeout_ms)
{
	uint64_t until =
		monotonic_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * NSEC_PER_MSEC;
	int ret, lost;

	if (w->gone)
		return -EPIPE;
	ret = send_sync(w, timeout_ms, until);
	while (!ret) {
		struct pollfd poll_fd = { .fd = w->socket, .events = POLLIN };
		union answer answer;
		ssize_t n;

		ret = poll(&poll_fd, 1, left_ms(timeout_ms, until));
		if (ret < 0 && errno == EINTR) {
			ret = 0;
			continue;
		}
		if (!ret)
			return failed(w, ETIMEDOUT, "not everything is on the medium yet");
		ret = 0;
		n = recv(w->socket, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (is_refusal(&answer, n))
			return say_last(w, &answer.refused);
		if (n <= 0)
			return say_gone(w);
		take_late(w, &answer, n);
		if (n != sizeof(answer.sync) || answer.sync.type != EKR_SYNC ||
		    answer.sync.token != w->token)
			continue;
		lost = w->owed;
		w->owed = 0;
		return lost ? say_lost(w, lost) : 0;
	}
	return ret;
}

int ek_writer_wait(struct ek_writer *w, int timeout_ms)
{
	uint64_t until =
		monotonic_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * NSEC_PER_MSEC;

	if (w->gone)
		return -EPIPE;
	for (;;) {
		struct pollfd poll_fd = { .fd = w->socket,
					  .events = w->way == EK_BY_RING ? 0 : POLLOUT };
		int left = left_ms(timeout_ms, until), ret;

		if (w->way == EK_BY_RING && (is_shut(w) || filled(w) < w->slots))
			return is_shut(w) ? say_shut(w) : 0;
		if (w->way == EK_BY_RING) {
			ring_bell(w);
			/* the recorder rings no bell of ours: that would cost it a call for each record */
			left = left && left != 1 ? 1 : left;
		}
		ret = poll(&poll_fd, 1, left);
		if (ret > 0 && poll_fd.revents & (POLLHUP | POLLERR)) {
			ret = check_gone(w);
			return ret == -EAGAIN ? say_gone(w) : ret;
		}
		if (ret > 0)
			return 0;
		if (!left_ms(timeout_ms, until))
			return failed(w, ETIMEDOUT, "there is no space for a record yet");
	}
}

const struct ek_channel *ek_writer_channel(const struct ek_writer *w)
{
	return &w->channel;
}

uint64_t ek_writer_lost(const struct ek_writer *w)
{
	return w->lost;
}

bool client_in_order(struct ek_writer *w)
{
	struct pollfd poll_fd = { .fd = w->socket, .events = POLLIN };

	/* it may still be taking what it was given; of one that was killed nothing more comes */
	if (w->gone && !w->said_why && poll(&poll_fd, 1, LAST_WORDS_MS) > 0)
		check_gone(w);
	return w->in_order;
}

const char *ek_writer_error(const struct ek_writer *w)
{
	return w->error;
}

void ek_writer_close(struct ek_writer *w)
{
	if (!w)
		return;
	/* the last ones that were lost: nobody waits for the answer */
	if (w->way == EK_BY_SOCKET && w->lost && !w->gone)
		send_sync(w, 0, 0);
	if (w->ring)
		munmap(w->ring, w->ring_size);
	if (w->bell >= 0)
		close(w->bell);
	if (w->socket >= 0)
		close(w->socket);
	free(w);
}
