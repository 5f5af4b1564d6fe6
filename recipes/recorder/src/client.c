// SPDX-License-Identifier: Apache-2.0
/* libek-recorder: waiting, and what is left. The library needs nothing but libc. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client_state.h"
#include "clock.h"

/* time for a recorder that shuts down to report whether everything is on the medium; then systemd kills it */
#define LAST_WORDS_MS 10000

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
			client_has_left(w);
			continue;
		}
		if (w->way == EK_BY_RING && client_filled(w) < w->slots)
			return 0;
		left = client_left_ms(timeout_ms, until);
		if (w->way == EK_BY_RING) {
			client_ring_bell(w);
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
