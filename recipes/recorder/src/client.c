// SPDX-License-Identifier: Apache-2.0
/* libek-recorder: submitting records, and waiting. The library needs nothing but libc. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client_state.h"
#include "clock.h"

/* longest time without a check whether a recorder that takes nothing from the ring still runs */
#define TAKES_NOTHING (200 * NSEC_PER_MSEC)
/* time for a recorder that shuts down to report whether everything is on the medium; then systemd kills it */
#define LAST_WORDS_MS 10000

/* sets no message: ek_writer_error() keeps the reason why there is no connection */
static int lose_absent(struct ek_writer *w)
{
	client_count_absent(w, 1);
	return -ENOTCONN;
}

/* the result for the record that met the end of the connection */
static int met_end(const struct ek_writer *w)
{
	return w->untaken ? -ENOTCONN : 0;
}

static int lose(struct ek_writer *w)
{
	w->sequence++;
	w->skipped++;
	w->lost++;
	return client_fail(w, EAGAIN, "the recorder cannot keep up: this record is lost");
}

static struct ekr_slot *next_slot(const struct ek_writer *w)
{
	return (struct ekr_slot *)((unsigned char *)w->ring + EKR_RING_DATA +
				   (w->head % w->slots) * w->stride);
}

static void ring_bell(const struct ek_writer *w)
{
	/* EAGAIN: the bell is set already */
	eventfd_write(w->bell, 1);
}

/* The recorder has shut the ring. True: it has also closed the connection. */
static bool has_left(struct ek_writer *w)
{
	w->leaving = true;
	client_fail(w, EPIPE, "the recorder is shutting down");
	return client_has_gone(w);
}

int ek_writer_reserve(struct ek_writer *w, void **place)
{
	if (w->way != EK_BY_RING)
		return client_fail(w, EINVAL, "only a writer by ring can reserve");
	if (client_move_on(w, false) && client_is_shut(w) && !has_left(w))
		return lose_absent(w);
	if (w->state != CONNECTED || w->leaving)
		return lose_absent(w);
	if (client_filled(w) >= w->slots) {
		/* a killed recorder has not shut its ring */
		if (client_has_gone(w))
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
	return !client_has_gone(w);
}

int ek_writer_commit_at(struct ek_writer *w, size_t length, uint64_t acquired_ns)
{
	struct ekr_slot *slot;
	uint64_t now, tail;

	if (w->way != EK_BY_RING)
		return client_fail(w, EINVAL, "only a writer by ring can commit");
	if (w->state != CONNECTED || w->leaving)
		return lose_absent(w);
	if (length > w->channel.record_size)
		return client_fail(w, EMSGSIZE,
				   "the record has %zu bytes; the channel accepts up to %u", length,
				   w->channel.record_size);
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
	if (client_is_shut(w))
		/* whether it was taken shows when the connection has ended; if not, it is counted then */
		return has_left(w) ? met_end(w) : -ENOTCONN;
	tail = client_taken(w);
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

	if (TEMP_FAILURE_RETRY(sendmsg(w->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL)) >= 0) {
		w->sequence++;
		return 0;
	}
	if (errno == EAGAIN || errno == ENOBUFS)
		return lose(w);
	if (errno == EPIPE || errno == ECONNRESET) {
		/* nothing more can be sent, but the recorder may still write what was */
		has_left(w);
		w->untaken = true;
		return lose_absent(w);
	}
	return client_fail(w, errno, "sending a record: %s", strerror(errno));
}

int ek_writer_submit_at(struct ek_writer *w, const void *record, size_t length,
			uint64_t acquired_ns)
{
	if (!client_move_on(w, false))
		return lose_absent(w);
	if (length > w->channel.record_size)
		return client_fail(w, EMSGSIZE,
				   "the record has %zu bytes; the channel accepts up to %u", length,
				   w->channel.record_size);
	return w->way == EK_BY_RING ? submit_by_ring(w, record, length, acquired_ns) :
				      submit_by_socket(w, record, length, acquired_ns);
}

int ek_writer_submit(struct ek_writer *w, const void *record, size_t length)
{
	return ek_writer_submit_at(w, record, length, 0);
}

/* --- waiting ------------------------------------------------------------------------------ */

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
			return client_fail(w, errno, "asking for a sync: %s", strerror(errno));
		/* the socket is full of records */
		left = client_left_ms(timeout_ms, until);
		if (!left)
			return client_fail(w, ETIMEDOUT, "the recorder does not read its socket");
		poll(&poll_fd, 1, left);
	}
}

/* 0: all is on the medium, except what w->owed says; -ETIMEDOUT; -EPIPE: the connection has ended */
static int sync_connected(struct ek_writer *w, int timeout_ms)
{
	uint64_t until = client_until_ms(timeout_ms);
	int ret = w->leaving ? -EPIPE : send_sync(w, timeout_ms, until);

	if (ret && ret != -EPIPE)
		return ret;
	for (;;) {
		struct pollfd poll_fd = { .fd = w->socket, .events = POLLIN };
		uint64_t token;

		ret = poll(&poll_fd, 1, client_left_ms(timeout_ms, until));
		if (ret < 0 && errno == EINTR)
			continue;
		if (!ret)
			return client_fail(w, ETIMEDOUT, "not everything is on the medium yet");
		ret = client_receive(w, &token);
		if (ret < 0 || (token && token == w->token))
			return ret < 0 ? ret : 0;
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
			       client_fail(w, EPIPE,
					   "the recorder was restarted, and records may be lost") :
			       -EPIPE;
	if (owed)
		client_fail(
			w, owed, "records were lost before this: %s",
			owed == ENOBUFS ?
				"there was no space, because records arrived faster than they were written" :
			owed == ENOTCONN ? "the recorder was not running" :
			owed == EIO	 ? "the medium failed to write them" :
					   strerror(owed));
	return -owed;
}

int ek_writer_wait(struct ek_writer *w, int timeout_ms)
{
	uint64_t until = client_until_ms(timeout_ms);

	for (;;) {
		struct pollfd poll_fd = { .events = w->way == EK_BY_RING ? 0 : POLLOUT };
		int ret = client_wait_connected(w, timeout_ms, until, true), left;

		if (ret)
			return ret;
		if (w->way == EK_BY_RING && client_is_shut(w)) {
			has_left(w);
			continue;
		}
		if (w->way == EK_BY_RING && client_filled(w) < w->slots)
			return 0;
		left = client_left_ms(timeout_ms, until);
		if (w->way == EK_BY_RING) {
			ring_bell(w);
			/* polls: for a wake-up, the recorder would need a system call for each record */
			left = left && left != 1 ? 1 : left;
		}
		poll_fd.fd = w->socket;
		ret = poll(&poll_fd, 1, left);
		if (ret > 0 && poll_fd.revents & (POLLHUP | POLLERR))
			w->leaving = !client_has_gone(w);
		else if (ret > 0)
			return 0;
		else if (!client_left_ms(timeout_ms, until))
			return client_fail(w, ETIMEDOUT, "there is no space for a record yet");
	}
}

/* --- for the program ------------------------------------------------------------------- */

bool client_take_back(struct ek_writer *w)
{
	const uint64_t until = client_until_ms(LAST_WORDS_MS);
	int left;

	while (w->state == CONNECTED && !client_has_gone(w) &&
	       (left = client_left_ms(LAST_WORDS_MS, until))) {
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
	/* reports the records lost at the end, and does not wait for the answer */
	if (w->way == EK_BY_SOCKET && w->skipped && w->state == CONNECTED)
		send_sync(w, 0, 0);
	client_unmap_ring(w);
	client_close_socket(w);
	free(w);
}
