// SPDX-License-Identifier: Apache-2.0
/* The threads that write: channels on one medium take turns, and nothing that was accepted is forgotten. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "storage.h"

#define CHANNELS  4u
#define RECORDS	  3000u
#define SEGMENT	  ((uint64_t)256 << 10)
#define SHUTDOWNS 200u

/* a window so long that no batch is due: only full chunks and the shutdown write */
static const struct channel_config config = {
	.name = "arm",
	.record_size = 1000,
	.window_ns = 600 * NSEC_PER_SEC,
	.segment = SEGMENT,
	.segments = 2,
};

struct one {
	struct buffer buffer;
	struct store store;
	uint64_t next;
};

static void open_one(struct one *o, unsigned int number, uint64_t medium)
{
	static const uint8_t id[16], boot[16];
	struct error e;

	assert_int_equal(buffer_open(&o->buffer, 8192, 3 * (size_t)8192, &e), 0);
	assert_int_equal(store_open(&o->store, &config, &o->buffer, &e), 0);
	atomic_store(&o->store.medium, medium);
	store_set(&o->store, 0, 0, id, boot);
	for (uint32_t i = 0; i < 2; i++) {
		struct segment s = { .index = i };
		char path[64];

		snprintf(path, sizeof(path), "storage-%d-%u-%u", (int)getpid(), number, i);
		s.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(s.fd >= 0);
		unlink(path);
		assert_int_equal(store_add(&o->store, &s), 0);
	}
}

/* submits a record if there is space */
static bool submit(struct storage *s, struct one *all, unsigned int i)
{
	static const unsigned char payload[1000];
	struct one *o = &all[i];
	const struct record r = {
		.sequence = o->next,
		.monotonic_ns = monotonic_ns(),
		.payload = payload,
		.length = sizeof(payload),
	};
	bool wake = false;
	int ret = buffer_put(&o->buffer, &r, r.sequence, &wake);

	if (wake)
		storage_wake(s, i);
	o->next += !ret;
	return !ret;
}

/* opens a channel in each place; they are on @media media by turns */
static void start(struct storage *s, struct one *all, uint64_t media)
{
	struct error e;

	assert_int_equal(storage_start(s, CHANNELS, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), 0, &e),
			 0);
	for (unsigned int i = 0; i < CHANNELS; i++) {
		open_one(&all[i], i, 1 + i % media);
		assert_int_equal(storage_add(s, i, &all[i].store, &e), 0);
	}
}

/* shuts down, and checks that @records of each channel are durable */
static void stop(struct storage *s, struct one *all, uint64_t records)
{
	/* as if the shutdown began later, so that it does not give up on a busy disk of the test machine */
	assert_true(storage_stop(s, monotonic_ns() + 30 * NSEC_PER_SEC));
	storage_close(s);
	close(s->done_fd);
	for (unsigned int i = 0; i < CHANNELS; i++) {
		assert_true(store_idle(&all[i].store));
		assert_int_equal(all[i].store.counts.durable, records);
		store_close(&all[i].store);
		buffer_close(&all[i].buffer);
	}
}

static void write_all_records(uint64_t media)
{
	struct one all[CHANNELS] = { 0 };
	const struct timespec pause = timespec_of(NSEC_PER_MSEC / 10);
	const uint64_t until = monotonic_ns() + 60 * NSEC_PER_SEC;
	struct storage s;
	bool more = true;

	start(&s, all, media);
	while (more) {
		bool any = false;

		more = false;
		for (unsigned int i = 0; i < CHANNELS; i++) {
			if (all[i].next == RECORDS)
				continue;
			more = true;
			any |= submit(&s, all, i);
		}
		/* a channel whose turn never comes fills its buffer */
		assert_true(monotonic_ns() < until);
		if (!any)
			nanosleep(&pause, NULL);
	}
	stop(&s, all, RECORDS);
}

static void channels_on_one_medium_take_turns(void **state)
{
	(void)state;
	write_all_records(1);
}

static void channels_on_two_media_do_not_wait_for_each_other(void **state)
{
	(void)state;
	write_all_records(2);
}

/* the thread may look at its store at any moment of the call that begins the shutdown */
static void a_shutdown_writes_what_is_not_due_yet(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < SHUTDOWNS; round++) {
		struct one all[CHANNELS] = { 0 };
		struct storage s;

		start(&s, all, CHANNELS);
		for (unsigned int i = 0; i < CHANNELS; i++)
			assert_true(submit(&s, all, i));
		for (unsigned int i = 0; i < CHANNELS; i++)
			storage_wake(&s, i);
		stop(&s, all, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channels_on_one_medium_take_turns),
		cmocka_unit_test(channels_on_two_media_do_not_wait_for_each_other),
		cmocka_unit_test(a_shutdown_writes_what_is_not_due_yet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
