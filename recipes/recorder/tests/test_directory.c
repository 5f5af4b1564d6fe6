// SPDX-License-Identifier: Apache-2.0
/* Segments of an open channel, while its storage thread writes. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "directory.h"

/* a slow card with a full queue takes seconds; the recorder waits for up to STORE_HANGS */
#define SLOW (NSEC_PER_SEC / 2)

static struct channel channel = {
	.config = { .name = "arm",
		    .record_size = 100,
		    .window_ns = NSEC_PER_SEC,
		    .segment = 65536,
		    .segments = 3 },
};

static int open_channel(void **state)
{
	static const uint8_t id[16], boot[16];
	struct error e;

	(void)state;
	assert_int_equal(buffer_open(&channel.buffer, 8192, 3 * (size_t)8192, &e), 0);
	assert_int_equal(store_open(&channel.store, &channel.config, &channel.buffer, &e), 0);
	store_set(&channel.store, 0, 0, id, boot);
	for (uint32_t i = 0; i < 3; i++) {
		struct segment s = { .index = i,
				     .fd = open(".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600) };

		assert_true(s.fd >= 0);
		assert_int_equal(store_add(&channel.store, &s), 0);
	}
	atomic_store(&channel.made, 3);
	return 0;
}

static int close_channel(void **state)
{
	(void)state;
	store_close(&channel.store);
	buffer_close(&channel.buffer);
	return 0;
}

static void *end_write(void *arg)
{
	const struct timespec slow = timespec_of(SLOW);

	(void)arg;
	nanosleep(&slow, NULL);
	store_done(&channel.store, monotonic_ns(), 0);
	return NULL;
}

static void a_segment_is_dropped_after_a_slow_write(void **state)
{
	const uint64_t now = monotonic_ns();
	const struct record r = { .monotonic_ns = now, .payload = "x", .length = 1 };
	struct store_write w;
	struct segment s;
	bool wake = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(buffer_put(&channel.buffer, &r, 0, &wake), 0);
	assert_true(store_next(&channel.store, now + NSEC_PER_SEC, true, &w));
	assert_true(store_segment(&channel.store, channel.store.current, &s));
	assert_int_equal(pthread_create(&thread, NULL, end_write, NULL), 0);
	assert_true(segments_drop(&channel, &s));
	pthread_join(thread, NULL);
	assert_true(monotonic_ns() - now >= SLOW);
	assert_int_equal(channel.store.count, 2);
	assert_int_equal(atomic_load(&channel.made), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_segment_is_dropped_after_a_slow_write,
						open_channel, close_channel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
