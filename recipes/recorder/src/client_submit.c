// SPDX-License-Identifier: Apache-2.0
/* libek-recorder: submitting records. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client_state.h"
#include "clock.h"

/* longest time without a check whether a recorder that takes nothing from the ring still runs */
#define TAKES_NOTHING (200 * NSEC_PER_MSEC)

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

void client_ring_bell(const struct ek_writer *w)
{
	/* EAGAIN: the bell is set already */
	eventfd_write(w->bell, 1);
}
bool client_has_left(struct ek_writer *w)
{
	w->leaving = true;
	client_fail(w, EPIPE, "the recorder is shutting down");
	return client_has_gone(w);
}

int ek_writer_reserve(struct ek_writer *w, void **place)
{
	if (w->way != EK_BY_RING)
		return client_fail(w, EINVAL, "only a writer by ring can reserve");
	if (client_move_on(w, false) && client_is_shut(w) && !client_has_left(w))
		return lose_absent(w);
	if (w->state != CONNECTED || w->leaving)
		return lose_absent(w);
	if (client_filled(w) >= w->slots) {
		/* a killed recorder has not shut its ring */
		if (client_has_gone(w))
			return lose_absent(w);
		client_ring_bell(w);
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
		return client_has_left(w) ? met_end(w) : -ENOTCONN;
	tail = client_taken(w);
	if (w->head - tail == w->slots / 2)
		client_ring_bell(w);
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
		client_has_left(w);
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
