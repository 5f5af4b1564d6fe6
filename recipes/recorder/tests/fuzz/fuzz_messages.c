// SPDX-License-Identifier: Apache-2.0
/*
 * A connection that sends any messages: pieces of a length and bytes. If it has a ring, it rings the bell with
 * each. The session is the real one; its channel has a buffer and no threads.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "fuzz.h"
#include "ingest.h"
#include "session.h"

static struct channel channel;
static struct ingest in;
static struct storage_writer writer;
static struct storage storage = { .writers = &writer, .count = 1 };

static void set_up(void)
{
	struct error e;
	int listener = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	channel.config = (struct channel_config){ .name = "arm",
						  .record_size = 100,
						  .window_ns = NSEC_PER_SEC,
						  .segment = 64 * EKR_BLOCK,
						  .writeout = EKR_BLOCK,
						  .buffer = 3 * EKR_BLOCK,
						  .segments = 4,
						  .ring = true,
						  .writers = 1 };
	FUZZ_CHECK(!channel_open(&channel, &e));
	FUZZ_CHECK(!ingest_open(&in, &channel, 1, listener, &e));
	FUZZ_CHECK(!closer_start(&in.closer, &e) && !closer_start(&in.ring_closer, &e));
	in.storage = &storage;
}

static void turn(struct session *s)
{
	struct epoll_event events[8];
	int n = epoll_wait(in.epoll, events, 8, 0);

	for (int i = 0; i < n; i++) {
		struct handler *h = events[i].data.ptr;

		/* an event of a connection may follow the one that ended it */
		if (h == &s->on_socket || h == &s->on_bell)
			h->on_event(h, events[i].events);
	}
	session_turn(s, monotonic_ns());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t id[16], boot[16];
	struct segment segments[2] = { { .index = 0, .fd = -1 }, { .index = 1, .fd = -1 } };
	struct session *s;
	int ends[2];

	if (!in.epoll)
		set_up();
	channel.store.count = 0;
	intake_open(&channel.intake, &channel.buffer, 100, NSEC_PER_SEC, 0);
	channel.intake.gap = false;
	store_set(&channel.store, 0, 0, id, boot);
	for (int i = 0; i < 2; i++)
		store_add(&channel.store, &segments[i]);
	atomic_store(&channel.open, true);
	atomic_store(&channel.use, CHANNEL_USED);
	atomic_store(&channel.writer, 0);
	channel.writers = 0;
	in.logged = 1000;
	in.logged_until_ns = UINT64_MAX;
	FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
	s = session_open(&in, ends[0]);
	FUZZ_CHECK(s);
	in.sessions = s;
	for (size_t at = 0; at < size;) {
		size_t length = data[at++];

		length = length < size - at ? length : size - at;
		(void)!send(ends[1], data + at, length, MSG_NOSIGNAL);
		/* the bell rings in the same turn */
		if (s->by_ring)
			(void)!eventfd_write(s->ring.eventfd, 1);
		at += length;
		turn(s);
	}
	close(ends[1]);
	for (int i = 0; i < 50 && s->socket >= 0; i++) {
		struct chunk *c = buffer_take(&channel.buffer, true);

		if (c)
			buffer_release(&channel.buffer, c);
		turn(s);
	}
	session_end(s, 0);
	FUZZ_CHECK(s->socket < 0 && !atomic_load(&channel.writer));
	in.sessions = NULL;
	free(s);
	for (struct chunk *c; (c = buffer_take(&channel.buffer, true));)
		buffer_release(&channel.buffer, c);
	channel.store.count = 0;
	return 0;
}
