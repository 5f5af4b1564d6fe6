// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of playout.c on a fake clock: first single cases, then random configurations on
 * devices of random latency, for which invariants must hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "playout.h"
#include "util.h"

#define SEC  NSEC_PER_SEC
#define MSEC NSEC_PER_MSEC

/* 1000 bytes/s in chunks of 100: one chunk is 100 ms */
static const struct playout_cfg small = {
	.rate = 1000,
	.chunk = 100,
	.slots = 20,
	.movie = 5000,
	.preroll = 1000,
	.rebuffer = 500,
	.depth = 2,
};

static void start(struct playout *p, const struct playout_cfg *cfg, uint64_t now)
{
	assert_null(playout_init(p, cfg, now));
}

/* starts n reads of chunks at the time now, and completes each at once */
static void feed(struct playout *p, unsigned int n, uint64_t now)
{
	struct playout_read r;

	while (n--) {
		assert_true(playout_next_read(p, now, &r));
		playout_done(p, r.seq, now);
	}
}

static struct playout_stats stats(struct playout *p, uint64_t now)
{
	struct playout_stats s;

	playout_advance(p, now);
	playout_get_stats(p, now, &s);
	return s;
}

static void waits_for_preroll(void **state)
{
	struct playout p;

	(void)state;
	start(&p, &small, 0);
	feed(&p, 9, 0);
	assert_int_equal(stats(&p, 60 * SEC).state, PLAYOUT_PREROLL);
	assert_int_equal(playout_next_event(&p, 60 * SEC), PLAYOUT_NEVER);
	feed(&p, 1, 60 * SEC);
	assert_int_equal(stats(&p, 60 * SEC).state, PLAYOUT_PLAYING);
	/* a wait before the movie starts is never a stall, even if it is long */
	assert_int_equal(stats(&p, 60 * SEC).stalls, 0);
	assert_int_equal(stats(&p, 60 * SEC).buffered, 1000);
	playout_free(&p);
}

static void stalls_when_empty_and_resumes(void **state)
{
	struct playout p;
	struct playout_stats s;

	(void)state;
	start(&p, &small, 0);
	feed(&p, 10, 0);
	/* 1000 bytes last exactly one second: at its end there is no stall yet */
	assert_int_equal(stats(&p, SEC).state, PLAYOUT_PLAYING);
	assert_int_equal(playout_next_event(&p, 0), SEC + 1);
	s = stats(&p, SEC + 300 * MSEC);
	assert_int_equal(s.state, PLAYOUT_BUFFERING);
	assert_int_equal(s.stalls, 1);
	assert_int_equal(s.stall_ns, 300 * MSEC);
	assert_int_equal(s.recent, 1);
	feed(&p, 4, SEC + 400 * MSEC);
	assert_int_equal(stats(&p, SEC + 400 * MSEC).state, PLAYOUT_BUFFERING);
	feed(&p, 1, SEC + 700 * MSEC);
	s = stats(&p, SEC + 700 * MSEC);
	assert_int_equal(s.state, PLAYOUT_PLAYING);
	assert_int_equal(s.stall_ns, 700 * MSEC);
	assert_int_equal(s.worst_ns, 700 * MSEC);
	/* after 500 bytes comes another stall; it is shorter, so worst_ns stays */
	feed(&p, 5, SEC + 1300 * MSEC);
	s = stats(&p, SEC + 1300 * MSEC);
	assert_int_equal(s.stalls, 2);
	assert_int_equal(s.stall_ns, 800 * MSEC);
	assert_int_equal(s.worst_ns, 700 * MSEC);
	playout_free(&p);
}

static void a_stall_that_is_noticed_late_has_its_full_length(void **state)
{
	struct playout p;

	(void)state;
	start(&p, &small, 0);
	feed(&p, 10, 0);
	feed(&p, 5, 3 * SEC); /* no call between 0 and 3 s */
	assert_int_equal(stats(&p, 3 * SEC).stalls, 1);
	assert_int_equal(stats(&p, 3 * SEC).stall_ns, 2 * SEC);
	playout_free(&p);
}

static void recent_forgets_after_10_s(void **state)
{
	struct playout_cfg cfg = small;
	struct playout p;

	(void)state;
	cfg.slots = 400;
	cfg.movie = 40000;
	start(&p, &cfg, 0);
	feed(&p, 10, 0);
	feed(&p, 300, 2 * SEC); /* the stall ends at 2 s */
	assert_int_equal(stats(&p, 12 * SEC - 1).recent, 1);
	assert_int_equal(stats(&p, 12 * SEC).recent, 0);
	assert_int_equal(stats(&p, 12 * SEC).stalls, 1);
	playout_free(&p);
}

static void data_after_a_gap_do_not_count(void **state)
{
	struct playout_read a, b;
	struct playout p;

	(void)state;
	start(&p, &small, 0);
	assert_true(playout_next_read(&p, 0, &a));
	assert_true(playout_next_read(&p, 0, &b));
	assert_false(playout_next_read(&p, 0, &b)); /* depth */
	playout_done(&p, b.seq, 0);
	assert_int_equal(stats(&p, 0).buffered, 0);
	playout_done(&p, a.seq, 0);
	assert_int_equal(stats(&p, 0).buffered, 200);
	playout_free(&p);
}

static void reads_as_far_ahead_as_there_is_room(void **state)
{
	struct playout_read r;
	struct playout p;

	(void)state;
	start(&p, &small, 0);
	feed(&p, 20, 0);
	assert_false(playout_next_read(&p, 0, &r));
	/* the first chunk is played after 100 ms and makes room */
	assert_int_equal(playout_next_event(&p, 0), 100 * MSEC);
	assert_false(playout_next_read(&p, 100 * MSEC - 1, &r));
	assert_true(playout_next_read(&p, 100 * MSEC, &r));
	assert_int_equal(r.slot, 0);
	assert_int_equal(r.chunk, 20);
	playout_free(&p);
}

static void a_new_movie_is_no_stall(void **state)
{
	struct playout_cfg cfg = small;
	struct playout_read r, old;
	struct playout_stats s;
	struct playout p;

	(void)state;
	cfg.movie = 1500;
	start(&p, &cfg, 0);
	feed(&p, 17, 0); /* the 15 chunks of the movie, then its first two chunks again */
	assert_true(playout_next_read(&p, 0, &old));
	assert_int_equal(old.movie, 0);
	assert_int_equal(old.chunk, 2);
	assert_int_equal(stats(&p, 1500 * MSEC - 1).state, PLAYOUT_PLAYING);
	s = stats(&p, 1500 * MSEC);
	assert_int_equal(s.state, PLAYOUT_PREROLL);
	assert_int_equal(s.stalls, 0);
	assert_int_equal(s.movies, 1);
	assert_int_equal(s.buffered, 0);
	assert_true(playout_next_read(&p, 2 * SEC, &r));
	assert_int_equal(r.movie, 1);
	assert_int_equal(r.chunk, 0);
	/* a read of the old movie does not count */
	playout_done(&p, old.seq, 2 * SEC);
	assert_int_equal(stats(&p, 2 * SEC).buffered, 0);
	playout_done(&p, r.seq, 2 * SEC);
	assert_int_equal(stats(&p, 2 * SEC).buffered, 100);
	playout_free(&p);
}

static void a_movie_shorter_than_preroll_plays(void **state)
{
	struct playout_cfg cfg = small;
	struct playout p;

	(void)state;
	cfg.movie = 300;
	start(&p, &cfg, 0);
	feed(&p, 3, 0);
	assert_int_equal(stats(&p, 0).state, PLAYOUT_PLAYING);
	assert_int_equal(stats(&p, 300 * MSEC).movies, 1);
	playout_free(&p);
}

static void the_last_bytes_end_a_stall(void **state)
{
	struct playout_cfg cfg = small;
	struct playout p;

	(void)state;
	cfg.movie = 1200;
	start(&p, &cfg, 0);
	feed(&p, 10, 0);
	feed(&p, 1, 2 * SEC);
	assert_int_equal(stats(&p, 2 * SEC).state, PLAYOUT_BUFFERING);
	feed(&p, 1, 2 * SEC); /* 200 bytes: less than re-buffering, but the rest of the movie */
	assert_int_equal(stats(&p, 2 * SEC).state, PLAYOUT_PLAYING);
	playout_free(&p);
}

static void a_short_last_chunk_plays_to_its_last_byte(void **state)
{
	struct playout_cfg cfg = small;
	struct playout_read r;
	struct playout p;

	(void)state;
	cfg.movie = 1130;
	start(&p, &cfg, 0);
	feed(&p, 11, 0);
	assert_true(playout_next_read(&p, 0, &r));
	assert_int_equal(r.chunk, 11);
	assert_int_equal(r.bytes, 30);
	playout_done(&p, r.seq, 0);
	assert_true(playout_next_read(&p, 0, &r));
	assert_int_equal(r.chunk, 0);
	assert_int_equal(r.bytes, 100);
	assert_int_equal(stats(&p, 1130 * MSEC - 1).movies, 0);
	assert_int_equal(stats(&p, 1130 * MSEC).movies, 1);
	assert_int_equal(stats(&p, 1130 * MSEC).stalls, 0);
	playout_free(&p);
}

static void the_index_is_on_the_critical_path(void **state)
{
	struct playout_read index, r;
	struct playout_cfg cfg = small;
	struct playout_stats s;
	struct playout p;

	(void)state;
	cfg.index_every = 15;
	start(&p, &cfg, 0);
	assert_true(playout_next_read(&p, 0, &index));
	assert_int_equal(index.seq, PLAYOUT_INDEX);
	assert_false(playout_next_read(&p, 0, &r));
	/* The index read takes 2 s. The viewer waits in the pre-roll, which is no stall. */
	playout_done(&p, index.seq, 2 * SEC);
	feed(&p, 15, 2 * SEC);
	s = stats(&p, 2 * SEC);
	assert_int_equal(s.state, PLAYOUT_PLAYING);
	assert_int_equal(s.start_ns, 2 * SEC);
	/* The next index read takes 3 s, but only 1.5 s of play-out are buffered. */
	assert_true(playout_next_read(&p, 2 * SEC, &index));
	assert_int_equal(index.seq, PLAYOUT_INDEX);
	assert_int_equal(index.chunk, 1);
	playout_done(&p, index.seq, 5 * SEC);
	feed(&p, 5, 5 * SEC);
	s = stats(&p, 5 * SEC);
	assert_int_equal(s.stalls, 1);
	assert_int_equal(s.stall_ns, 1500 * MSEC);
	playout_free(&p);
}

static void the_last_movie_is_the_end(void **state)
{
	struct playout_cfg cfg = small;
	struct playout_read r;
	struct playout p;

	(void)state;
	cfg.movie = 1200;
	cfg.movies = 2;
	start(&p, &cfg, 0);
	feed(&p, 13, 0); /* beyond the end of the first movie */
	assert_int_equal(stats(&p, 1200 * MSEC).movies, 1);
	feed(&p, 12, 2 * SEC);
	assert_false(playout_next_read(&p, 2 * SEC, &r));
	assert_int_equal(stats(&p, 3200 * MSEC).movies, 2);
	assert_int_equal(stats(&p, 3200 * MSEC).stalls, 0);
	assert_false(playout_next_read(&p, 3200 * MSEC, &r));
	playout_free(&p);
}

static void a_late_index_does_not_serve_the_next_movie(void **state)
{
	struct playout_read index, r;
	struct playout_cfg cfg = small;
	struct playout p;

	(void)state;
	cfg.index_every = 12;
	cfg.movie = 1300;
	cfg.depth = 3;
	start(&p, &cfg, 0);
	assert_true(playout_next_read(&p, 0, &index));
	playout_done(&p, index.seq, 0);
	feed(&p, 12, 0);
	assert_true(playout_next_read(&p, 0, &index));
	assert_int_equal(index.seq, PLAYOUT_INDEX);
	/* play-out has stalled before the last chunk, so the movie has not ended */
	assert_int_equal(stats(&p, 9 * SEC).state, PLAYOUT_BUFFERING);
	playout_done(&p, index.seq, 9 * SEC);
	feed(&p, 1, 9 * SEC);
	assert_int_equal(stats(&p, 10 * SEC).movies, 1);
	/* the new movie begins with an index read of its own */
	assert_true(playout_next_read(&p, 10 * SEC, &r));
	assert_int_equal(r.seq, PLAYOUT_INDEX);
	assert_int_equal(r.chunk, 0);
	assert_int_equal(r.movie, 1);
	playout_free(&p);
}

static void impossible_configurations_are_refused(void **state)
{
	struct playout_cfg cfg;
	struct playout p;

	(void)state;
#define REFUSED(field, value)                               \
	do {                                                \
		cfg = small;                                \
		cfg.field = (value);                        \
		assert_non_null(playout_init(&p, &cfg, 0)); \
	} while (0)
	REFUSED(rate, 0);
	REFUSED(rate, PLAYOUT_MAX_RATE + 1);
	REFUSED(chunk, 0);
	REFUSED(slots, 0);
	REFUSED(slots, 11); /* pre-roll alone is 10 chunks */
	REFUSED(movie, 0);
	REFUSED(movie, UINT64_MAX / 2);
	REFUSED(chunk, UINT64_MAX / 2);
	REFUSED(preroll, 0);
	REFUSED(rebuffer, 0);
	REFUSED(rebuffer, 1900);
	REFUSED(depth, 0);
#undef REFUSED
	cfg = small;
	cfg.slots = 12;
	assert_null(playout_init(&p, &cfg, 0));
	playout_free(&p);
}

/* Rounding must not lose a byte, even after a day of play at an odd rate. */
static void no_drift(void **state)
{
	struct playout_cfg cfg = small;
	uint64_t day = 86400 * SEC;
	struct playout p;

	(void)state;
	cfg.rate = 31999999;
	cfg.chunk = UINT64_C(1) << 40;
	cfg.movie = UINT64_C(50) << 40;
	cfg.preroll = cfg.rebuffer = 1;
	cfg.slots = 9;
	start(&p, &cfg, 0);
	feed(&p, 4, 0);
	assert_int_equal(playout_position(&p, day), UINT64_C(31999999) * 86400);
	playout_free(&p);
}

/* state of the random numbers of draw() */
static uint64_t rng;

static uint64_t draw(uint64_t below)
{
	return (noise_next(&rng) >> 11) % below;
}

struct flight {
	struct playout_read r;
	uint64_t due;
};

/*
 * Runs a random configuration on a device of random latency, with additional calls of
 * playout_advance() at random times. Asserts the invariants of playout.c after every step.
 */
static void one_random_run(uint64_t seed)
{
	struct flight flight[16];
	unsigned int flying = 0;
	uint64_t *holds; /* per slot: number of the chunk that is in it, or on its way into it */
	uint64_t now, begin, expect_seq = 0, stalled = 0, played = 0, last_movie = 0;
	uint64_t last_pos = 0, playing_ns = 0, latency, chunks, indexed = 0, index_movie = 0;
	struct playout_cfg cfg;
	struct playout_stats s;
	struct playout p;

	rng = noise_seed(seed);
	cfg.rate = 1 + draw(2000000);
	cfg.chunk = 1 + draw(100000);
	cfg.depth = 1 + (unsigned int)draw(8);
	/* some movies end within a chunk, some are shorter than one */
	cfg.movie = 1 + draw(60 * cfg.chunk);
	cfg.index_every = draw(2) ? 0 : 1 + draw(20);
	cfg.slots = 4 + draw(40);
	cfg.preroll = 1 + draw((cfg.slots - 3) * cfg.chunk);
	cfg.rebuffer = 1 + draw((cfg.slots - 3) * cfg.chunk);
	/* some devices are far too fast for the rate, some far too slow */
	latency = 1 + cfg.chunk * SEC / cfg.rate * (1 + draw(30)) / 10;
	begin = now = draw(1000 * SEC);
	start(&p, &cfg, now);
	chunks = (cfg.movie + cfg.chunk - 1) / cfg.chunk;
	holds = calloc(cfg.slots, sizeof(*holds));
	assert_non_null(holds);

	for (int step = 0; step < 3000; step++) {
		enum playout_state before;
		struct playout_read r;
		uint64_t event, then = now, movies;
		int first = -1;

		while (playout_next_read(&p, now, &r)) {
			uint64_t oldest = p.base + playout_position(&p, now) / cfg.chunk;

			assert_true(flying < cfg.depth);
			/* no read may begin while an index read is in flight */
			for (unsigned int i = 0; i < flying; i++)
				assert_true(flight[i].r.seq != PLAYOUT_INDEX);
			if (r.movie != index_movie)
				indexed = 0;
			index_movie = r.movie;
			if (r.seq == PLAYOUT_INDEX) {
				assert_true(cfg.index_every > 0);
				assert_int_equal(r.chunk, indexed++);
				flight[flying++] =
					(struct flight){ r, now + 1 + draw(2 * latency) };
				continue;
			}
			if (cfg.index_every && r.seq - p.base < chunks)
				assert_int_equal(indexed, 1 + (r.seq - p.base) / cfg.index_every);
			assert_int_equal(r.bytes, r.chunk == chunks - 1 ?
							  cfg.movie - (chunks - 1) * cfg.chunk :
							  cfg.chunk);
			assert_int_equal(r.seq, expect_seq++);
			assert_int_equal(r.slot, r.seq % cfg.slots);
			assert_int_equal(r.chunk, (r.seq - p.base) % chunks);
			assert_int_equal(r.movie, p.movies);
			/* no read may go into a slot with data that are needed or in flight */
			if (r.seq >= cfg.slots)
				assert_true(holds[r.slot] < oldest);
			for (unsigned int i = 0; i < flying; i++)
				assert_true(flight[i].r.slot != r.slot ||
					    flight[i].r.seq == PLAYOUT_INDEX);
			holds[r.slot] = r.seq;
			flight[flying++] = (struct flight){ r, now + 1 + draw(2 * latency) };
		}

		/* go to the next completion, the next event, or a time in between */
		event = playout_next_event(&p, now);
		assert_true(event > now);
		for (unsigned int i = 0; i < flying; i++)
			if (first < 0 || flight[i].due < flight[first].due)
				first = (int)i;
		if (first >= 0 && flight[first].due < event)
			event = flight[first].due;
		/* There is always a next event, or the player would hang. */
		assert_true(event != PLAYOUT_NEVER);
		if (draw(4) == 0)
			event = now + 1 + draw(event - now);

		before = p.state;
		movies = p.movies;
		now = event;
		playout_advance(&p, now);
		/* add the time since the last step to the state that was valid in it */
		if (before == PLAYOUT_BUFFERING)
			stalled += now - then;
		if (before == PLAYOUT_PLAYING && p.state == PLAYOUT_BUFFERING)
			stalled += now - p.since;
		if (before == PLAYOUT_PLAYING)
			playing_ns += (p.state == PLAYOUT_PLAYING ? now : p.since) - then;
		if (p.movies != movies)
			played += cfg.movie;

		while (first >= 0 && flight[first].due <= now) {
			playout_done(&p, flight[first].r.seq, now);
			flight[first] = flight[--flying];
			first = -1;
			for (unsigned int i = 0; i < flying; i++)
				if (flight[i].due <= now)
					first = (int)i;
		}

		playout_get_stats(&p, now, &s);
		assert_int_equal(s.stall_ns, stalled);
		assert_true(s.worst_ns <= s.stall_ns);
		assert_true(s.recent <= s.stalls);
		assert_true(s.buffered <= cfg.slots * cfg.chunk);
		assert_true(playout_position(&p, now) <= cfg.movie);
		if (s.movies == last_movie)
			assert_true(playout_position(&p, now) >= last_pos);
		last_movie = s.movies;
		last_pos = playout_position(&p, now);
	}
	/* Played bytes are playing time × rate. Each change of state may round 1 ns and 1 byte. */
	{
		double want = (double)playing_ns / 1e9 * (double)cfg.rate;
		double got = (double)(played + last_pos);
		double slack =
			(2.0 + (double)cfg.rate / 1e9) * (2.0 + (double)(p.movies + p.stalls));

		if (want - got > slack || got - want > slack)
			fail_msg("seed %llu: played %.0f bytes, the clock says %.0f",
				 (unsigned long long)seed, got, want);
	}
	assert_true(stalled + playing_ns <= now - begin);
	free(holds);
	playout_free(&p);
}

static void random_devices(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 400; seed++)
		one_random_run(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_for_preroll),
		cmocka_unit_test(stalls_when_empty_and_resumes),
		cmocka_unit_test(a_stall_that_is_noticed_late_has_its_full_length),
		cmocka_unit_test(recent_forgets_after_10_s),
		cmocka_unit_test(data_after_a_gap_do_not_count),
		cmocka_unit_test(reads_as_far_ahead_as_there_is_room),
		cmocka_unit_test(a_new_movie_is_no_stall),
		cmocka_unit_test(a_movie_shorter_than_preroll_plays),
		cmocka_unit_test(the_last_bytes_end_a_stall),
		cmocka_unit_test(a_short_last_chunk_plays_to_its_last_byte),
		cmocka_unit_test(the_index_is_on_the_critical_path),
		cmocka_unit_test(the_last_movie_is_the_end),
		cmocka_unit_test(a_late_index_does_not_serve_the_next_movie),
		cmocka_unit_test(impossible_configurations_are_refused),
		cmocka_unit_test(no_drift),
		cmocka_unit_test(random_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
