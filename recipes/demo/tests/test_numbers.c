// SPDX-License-Identifier: Apache-2.0
/* Simulates the player with the demo's numbers (from meson.build) on a fake clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "playout.h"

#define SEC UINT64_C(1000000000)

/*
 * Plays for `seconds` on a device that serves the player at `bps` bytes/s, one
 * chunk after the other. Returns the number of stalls. *idle receives the number of
 * chunks during which the player had fewer than two reads in flight.
 */
static uint64_t demo(double bps, unsigned int seconds, unsigned int *idle)
{
	const struct playout_cfg cfg = {
		.rate = DEMO_RATE,
		.chunk = UINT64_C(1) << 20,
		.slots = DEMO_BUFFER >> 20,
		.movie = DEMO_MOVIE,
		.preroll = DEMO_RATE,
		.rebuffer = DEMO_RATE / 2,
		.depth = 2,
	};
	uint64_t now = 0, step = (uint64_t)(1e9 * (double)cfg.chunk / bps);
	struct playout_read r;
	uint64_t queue[2];
	unsigned int queued = 0;
	struct playout_stats s;
	struct playout p;

	assert_null(playout_init(&p, &cfg, 0));
	*idle = 0;
	while (now < seconds * SEC) {
		while (queued < 2 && playout_next_read(&p, now, &r))
			queue[queued++] = r.seq;
		now += step;
		if (queued < 2)
			(*idle)++;
		if (queued) {
			playout_done(&p, queue[0], now);
			queue[0] = queue[1];
			queued--;
		}
	}
	playout_get_stats(&p, now, &s);
	playout_free(&p);
	return s.stalls;
}

/* Returns the device's speed in bytes/s. In each 20 ms, null_blk passes only whole requests. */
static double demo_device(void)
{
	unsigned int tick = (1 << 20) / 50 * DEMO_MBPS;
	unsigned int request = DEMO_MAX_SECTORS * 512;

	return 50.0 * (tick / request) * request;
}

static void demo_device_has_the_documented_speed(void **state)
{
	(void)state;
	assert_int_equal((int)(demo_device() / 1e5), 524);
}

static void demo_stalls_at_equal_weights(void **state)
{
	unsigned int idle;

	(void)state;
	/* on average at least one stall in 10 s, and the player always has two reads in flight */
	assert_true(demo(demo_device() / 2, 120, &idle) >= 12);
	assert_int_equal(idle, 0);
}

static void demo_plays_at_4_to_1_and_stays_backlogged(void **state)
{
	unsigned int idle;

	(void)state;
	assert_int_equal(demo(demo_device() * 4 / 5, 600, &idle), 0);
	assert_int_equal(idle, 0);
	/* 3.6:1 is the lowest ratio that the browser test accepts */
	assert_int_equal(demo(demo_device() * 3.6 / 4.6, 600, &idle), 0);
	/* a device that is 20 % slower, for example on a busy host */
	assert_int_equal(demo(demo_device() * 0.8 * 4 / 5, 600, &idle), 0);
	/* at 10:1 there are no stalls, and the buffer does not become full */
	assert_int_equal(demo(demo_device() * 10 / 11, 600, &idle), 0);
	assert_int_equal(idle, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(demo_device_has_the_documented_speed),
		cmocka_unit_test(demo_stalls_at_equal_weights),
		cmocka_unit_test(demo_plays_at_4_to_1_and_stays_backlogged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
