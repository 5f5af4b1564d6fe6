// SPDX-License-Identifier: Apache-2.0
/*
 * The store on a medium in memory: when it writes, what it does about failures,
 * and, on random recordings whose power is cut at random moments, that recovery
 * finds everything that was durable and takes nothing that is torn.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "clock.h"
#include "intake.h"
#include "medium.h"
#include "segment.h"

#define WINDOW (100 * NSEC_PER_MSEC)

static struct test_medium flash;
static struct channel_config config = {
	.name = "arm",
	.record_size = 600,
	.window_ns = WINDOW,
	.segment = MEDIUM_SIZE,
	.writeout = 2 * EKR_BLOCK,
	.buffer = 8 * EKR_BLOCK,
	.segments = MEDIUM_SEGMENTS,
};

struct recorder {
	struct buffer buffer;
	struct store store;
	struct intake intake;
};

static struct recorder rec;
static unsigned char scratch[RECOVER_BUFFER] __attribute__((aligned(EKR_BLOCK)));
static const uint8_t id[16] = { 1, 2, 3 }, boot[16] = { 9 };

/* what prepare.c does, without a file system */
static struct recovered open_recorder(void)
{
	static struct recovered_segment segments[MEDIUM_SEGMENTS];
	struct medium medium = test_medium_read(&flash);
	struct recovered r = { .segments = segments, .count = MEDIUM_SEGMENTS };
	struct error e;

	for (uint32_t i = 0; i < MEDIUM_SEGMENTS; i++) {
		segments[i].index = i;
		segments[i].size = MEDIUM_SIZE;
	}
	memset(&rec, 0, sizeof(rec));
	assert_int_equal(recover(&medium, "arm", &r, scratch, &e), 0);
	assert_int_equal(buffer_open(&rec.buffer, config.writeout, config.buffer, &e), 0);
	assert_int_equal(store_open(&rec.store, &config, &rec.buffer, &e), 0);
	intake_open(&rec.intake, &rec.buffer, (uint32_t)config.record_size, r.next_sequence);
	store_set(&rec.store, r.generation, r.next_sequence, id, boot);
	for (uint32_t i = 0; i < MEDIUM_SEGMENTS; i++) {
		struct segment s = { .index = i,
				     .fd = (int)i,
				     .generation = segments[i].head.generation };

		if (r.newest == &segments[i] && r.only_restarts)
			s.generation = 0;
		store_add(&rec.store, &s);
	}
	if (r.newest) {
		intake_lose(&rec.intake, EKR_GAP_RESTART, 0);
		intake_tell(&rec.intake);
	}
	return r;
}

static void close_recorder(void)
{
	/* descriptors of the test's are none */
	rec.store.count = 0;
	store_close(&rec.store);
	buffer_close(&rec.buffer);
}

static int submit(uint64_t now, uint32_t length)
{
	unsigned char payload[600];
	struct record r = { .sequence = rec.intake.next_sequence,
			    .monotonic_ns = now,
			    .length = length,
			    .payload = payload };

	/* the content says what it is */
	memset(payload, (int)(r.sequence * 7), sizeof(payload));
	return intake_take(&rec.intake, &r, true);
}

static unsigned int seed_now;
static bool flash_failed;
static int write_out(uint64_t now)
{
	struct store_write w;
	int ret;

	if (!store_next(&rec.store, now, &w))
		return 1;
	/* under way: no second one */
	assert_false(store_next(&rec.store, now, &(struct store_write){ 0 }));
	ret = test_medium_write(&flash, &w, 100);
	store_done(&rec.store, now, ret);
	return ret;
}

/* --- what a reader sees, by the rules of format.h alone ------------------------- */

struct seen {
	uint64_t sequences[2000];
	bool gap[2000];
	uint32_t lost[2000];
	uint64_t generation[2000];
	unsigned int count;
};

static const struct ekr_segment_head *head_of(unsigned int i)
{
	return segment_head_problem(flash.cache[i]) ?
		       NULL :
		       (const struct ekr_segment_head *)flash.cache[i];
}

static const struct ekr_segment_head *next_use(uint64_t generation)
{
	const struct ekr_segment_head *found = NULL;

	for (unsigned int i = 0; i < MEDIUM_SEGMENTS; i++) {
		const struct ekr_segment_head *h = head_of(i);

		if (h && h->generation > generation &&
		    (!found || h->generation < found->generation))
			found = h;
	}
	return found;
}

static void see(struct seen *seen, const struct ekr_segment_head *h)
{
	const struct ekr_segment_head *next = next_use(h->generation);
	const unsigned char *base = (const unsigned char *)h;
	uint64_t batch = 0;
	size_t at = EKR_BLOCK;

	while (at < MEDIUM_SIZE) {
		const struct ekr_record_head *r =
			record_at(base + at, MEDIUM_SIZE - at, h->generation, 600);

		if (r && r->batch == batch) {
			if (!next || r->sequence < next->first_sequence) {
				assert_true(seen->count < 2000);
				seen->sequences[seen->count] = r->sequence;
				seen->generation[seen->count] = h->generation;
				seen->gap[seen->count] = r->flags & EKR_RECORD_GAP;
				if (r->flags & EKR_RECORD_GAP)
					seen->lost[seen->count] =
						((const struct ekr_gap *)(r + 1))->count_lost;
				for (uint32_t i = 0; i < r->length && !(r->flags & EKR_RECORD_GAP);
				     i++)
					assert_int_equal(((const unsigned char *)(r + 1))[i],
							 (r->sequence * 7) & 0xff);
				seen->count++;
			}
			at += record_bytes(r->length);
			continue;
		}
		if (at % EKR_BLOCK == 0 && !(r && r->batch == batch + 1))
			return;
		if (at % EKR_BLOCK == 0)
			batch++;
		else
			at = whole_blocks(at);
	}
}

static void see_all(struct seen *seen)
{
	uint64_t generation = 0;
	const struct ekr_segment_head *h;

	seen->count = 0;
	while ((h = next_use(generation))) {
		see(seen, h);
		generation = h->generation;
	}
}

static unsigned int seed_now;

/*
 * Numbers grow by one, or by what a gap says; behind a use whose head failed, what
 * lay in between may have been used anew before what is older.
 */
static void assert_complete(const struct seen *seen)
{
	for (unsigned int i = 1; i < seen->count; i++) {
		uint64_t step = seen->sequences[i] - seen->sequences[i - 1];

		assert_true(seen->sequences[i] > seen->sequences[i - 1]);
		if (seen->generation[i] - seen->generation[i - 1] > 1 && flash_failed)
			continue;
		if (step != (seen->gap[i] && seen->lost[i] ? seen->lost[i] : 1))
			fail_msg("seed %u: %llu follows %llu", seed_now,
				 (unsigned long long)seen->sequences[i],
				 (unsigned long long)seen->sequences[i - 1]);
	}
}

/* --- tests ---------------------------------------------------------------------- */

static int set_up(void **state)
{
	(void)state;
	config.cached = false;
	config.retain_ns = 0;
	test_medium_make(&flash, "arm", id);
	open_recorder();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close_recorder();
	return 0;
}

static void it_writes_at_half_of_the_window_or_a_full_chunk(void **state)
{
	uint64_t now = monotonic_ns();

	(void)state;
	assert_int_equal(store_due(&rec.store, now), UINT64_MAX);
	assert_int_equal(submit(now, 100), 0);
	now = rec.intake.last_ns;
	assert_int_equal(store_due(&rec.store, now), now + WINDOW / 2);
	assert_int_equal(write_out(now + WINDOW / 2 - 1), 1);
	assert_int_equal(write_out(now + WINDOW / 2), 0);
	assert_int_equal(rec.store.durable_to, 1);
	assert_true(store_idle(&rec.store));
	/* 12 of 656 bytes fill a chunk; the 13th makes it known */
	for (int i = 0; i < 13; i++)
		assert_int_equal(submit(now, 600), 0);
	assert_int_equal(store_due(&rec.store, now), now);
	assert_int_equal(write_out(now), 0);
	assert_int_equal(write_out(now), 1);
	assert_int_equal(rec.store.durable_to, 13);
	assert_int_equal(rec.store.counts.durable, 13);
	/* somebody waits */
	atomic_store(&rec.store.wanted_to, 14);
	assert_int_equal(write_out(now), 0);
	assert_int_equal(rec.store.durable_to, 14);
	assert_int_equal(rec.store.counts.late, 0);
}

static void late_records_are_counted(void **state)
{
	uint64_t now;

	(void)state;
	assert_int_equal(submit(monotonic_ns(), 1), 0);
	assert_int_equal(submit(monotonic_ns(), 1), 0);
	now = rec.intake.last_ns;
	assert_int_equal(write_out(now + WINDOW + 1000000), 0);
	assert_int_equal(rec.store.counts.late, 2);
	assert_int_equal(rec.store.counts.record.count, 2);
}

static void a_failed_batch_goes_to_the_next_segment(void **state)
{
	struct seen seen;
	uint64_t now = monotonic_ns();
	unsigned int before;

	(void)state;
	atomic_store(&rec.store.wanted_to, UINT64_MAX);
	submit(now, 10);
	assert_int_equal(write_out(now), 0);
	before = rec.store.current;
	submit(now, 10);
	flash.fail = 100;
	assert_int_equal(write_out(now), -EIO);
	assert_int_equal(rec.store.durable_to, 1);
	flash.fail = 0;
	assert_int_equal(write_out(now), 0);
	assert_int_not_equal(rec.store.current, before);
	assert_int_equal(rec.store.durable_to, 2);
	assert_int_equal(rec.store.state, STORE_RECORDING);
	assert_int_equal(rec.store.counts.errors, 1);
	see_all(&seen);
	assert_int_equal(seen.count, 2);
	assert_complete(&seen);
}

static void a_medium_that_fails_costs_a_gap_and_not_its_past(void **state)
{
	struct seen seen;
	uint64_t now = monotonic_ns();
	unsigned int tries = 0, moved = 0, last;

	(void)state;
	atomic_store(&rec.store.wanted_to, UINT64_MAX);
	for (int i = 0; i < 3; i++) {
		submit(now, 10);
		assert_int_equal(write_out(now), 0);
	}
	submit(now, 10);
	submit(now, 10);
	flash.fail = 100;
	assert_int_equal(write_out(now), -EIO);
	assert_int_equal(write_out(now), -EIO);
	assert_int_equal(rec.store.state, STORE_FAILED);
	assert_int_equal(rec.store.reason.code, EIO);
	assert_int_equal(rec.store.counts.failed, 2);
	/* whoever waits for these learns that they are lost */
	assert_int_equal(rec.store.durable_to, 5);
	/* tried with growing pauses, 30 s: a dozen times, in the same segment */
	last = rec.store.current;
	for (uint64_t t = now; t < now + 30 * NSEC_PER_SEC; t += 10 * NSEC_PER_MSEC) {
		tries += write_out(t) == -EIO;
		moved += rec.store.current != last;
		last = rec.store.current;
	}
	assert_in_range(tries, 8, 12);
	assert_int_equal(moved, 0);
	flash.fail = 0;
	now += 60 * NSEC_PER_SEC;
	submit(now, 10);
	while (!write_out(now))
		;
	assert_int_equal(rec.store.state, STORE_RECORDING);
	assert_int_equal(rec.store.reason.code, 0);
	assert_true(store_idle(&rec.store));
	see_all(&seen);
	assert_int_equal(seen.count, 5);
	assert_true(seen.gap[3] && seen.lost[3] == 2 && seen.sequences[3] == 4);
	assert_complete(&seen);
}

static void a_medium_that_hangs_is_told_as_long_as_it_does(void **state)
{
	uint64_t begin = monotonic_ns() + NSEC_PER_SEC;
	struct store_write w;
	struct error e;

	(void)state;
	submit(begin, 100);
	assert_true(store_next(&rec.store, begin, &w));
	store_watch(&rec.store, begin + STORE_HANGS - 1);
	assert_int_equal(store_state(&rec.store, &e), STORE_RECORDING);
	/* a look that began before the write did */
	store_watch(&rec.store, begin - NSEC_PER_SEC);
	assert_int_equal(store_state(&rec.store, &e), STORE_RECORDING);
	store_watch(&rec.store, begin + STORE_HANGS);
	assert_int_equal(store_state(&rec.store, &e), STORE_FAILED);
	assert_int_equal(e.code, ETIMEDOUT);
	assert_string_equal(e.text, "writing segment 00000000.seg does not end: the medium hangs");
	store_done(&rec.store, begin + 60 * NSEC_PER_SEC, 0);
	assert_int_equal(store_state(&rec.store, &e), STORE_RECORDING);
	assert_int_equal(e.code, 0);
	/* nothing is under way: nothing hangs */
	store_watch(&rec.store, begin + 600 * NSEC_PER_SEC);
	assert_int_equal(store_state(&rec.store, &e), STORE_RECORDING);
}

/* 13 records in the device's cache at @now, and not flushed; returns their write */
static struct store_write cached_and_not_flushed(uint64_t now)
{
	struct store_write w;

	config.cached = true;
	for (int i = 0; i < 13; i++)
		submit(now, 600);
	assert_true(store_next(&rec.store, now, &w));
	assert_false(w.flush);
	store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
	return w;
}

static void cached_flushes_once_a_window(void **state)
{
	uint64_t now = monotonic_ns();
	struct store_write w;

	(void)state;
	cached_and_not_flushed(now);
	/* written, and not counted on */
	assert_int_equal(rec.store.durable_to, 0);
	assert_false(store_idle(&rec.store));
	now = rec.intake.last_ns;
	assert_true(store_due(&rec.store, now) <= now + WINDOW / 2);
	assert_true(store_next(&rec.store, now + WINDOW / 2, &w));
	assert_true(w.flush);
	store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
	assert_int_equal(rec.store.durable_to, 13);
	assert_true(store_idle(&rec.store));
}

static void room_that_comes_late_ends_a_failure_for_want_of_it(void **state)
{
	struct error full = { .code = ENOSPC };
	struct store s;
	struct segment segment = { .fd = -1 };
	struct error e;

	(void)state;
	assert_int_equal(store_open(&s, &config, &rec.buffer, &e), 0);
	store_set(&s, 0, 1, id, boot);
	store_add(&s, &segment);
	store_fail(&s, &full);
	assert_int_equal(s.state, STORE_FAILED);
	segment.index = 1;
	store_add(&s, &segment);
	assert_int_equal(s.state, STORE_RECORDING);
	/* but a segment more does not make a medium well that fails */
	s.state = STORE_FAILED;
	s.failures = 2;
	segment.index = 2;
	store_add(&s, &segment);
	assert_int_equal(s.state, STORE_FAILED);
	store_close(&s);
}

/* so that a reader that follows knows which one is next, in whatever order a directory gave them */
static void segments_that_were_never_used_are_used_in_the_order_of_their_index(void **state)
{
	uint64_t now = monotonic_ns();

	(void)state;
	for (uint32_t i = 0; i < MEDIUM_SEGMENTS; i++) {
		rec.store.segments[i].index = (i * 5 + 3) % MEDIUM_SEGMENTS;
		rec.store.segments[i].fd = (int)rec.store.segments[i].index;
	}
	atomic_store(&rec.store.wanted_to, UINT64_MAX);
	for (uint32_t i = 0; i < MEDIUM_SEGMENTS; i++) {
		do {
			submit(now, 600);
			assert_int_equal(write_out(now), 0);
		} while (rec.store.generation <= i);
		assert_int_equal(rec.store.segments[rec.store.current].index, i);
	}
}

static void a_segment_that_is_gone_is_used_no_more(void **state)
{
	uint64_t now = monotonic_ns();
	struct segment segment;
	struct store_write w;
	struct seen seen;
	uint32_t gone;

	(void)state;
	atomic_store(&rec.store.wanted_to, UINT64_MAX);
	submit(now, 10);
	assert_int_equal(write_out(now), 0);
	gone = rec.store.segments[rec.store.current].index;
	assert_true(store_segment(&rec.store, rec.store.current, &segment));
	assert_int_equal(segment.index, gone);
	assert_false(store_segment(&rec.store, MEDIUM_SEGMENTS, &segment));
	/* not while it is written, but no later batch goes there */
	submit(now, 10);
	assert_true(store_next(&rec.store, now, &w));
	assert_int_equal(w.fd, (int)gone);
	assert_false(store_drop(&rec.store, gone));
	store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
	submit(now, 10);
	assert_true(store_next(&rec.store, now, &w));
	assert_int_not_equal(w.fd, (int)gone);
	assert_non_null(w.head);
	assert_true(store_drop(&rec.store, gone));
	store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
	assert_int_equal(rec.store.count, MEDIUM_SEGMENTS - 1);
	assert_int_equal(rec.store.durable_to, 3);
	/* the one in use, while nothing is written */
	gone = rec.store.segments[rec.store.current].index;
	assert_true(store_drop(&rec.store, gone));
	for (int i = 0; i < 3; i++) {
		submit(now, 10);
		assert_int_equal(write_out(now), 0);
		assert_int_not_equal(rec.store.segments[rec.store.current].index, gone);
	}
	assert_int_equal(rec.store.counts.errors, 0);
	see_all(&seen);
	assert_int_equal(seen.count, 6);
	assert_complete(&seen);
	/* down to one: it does not record until there are two again */
	while (rec.store.count > 1)
		assert_true(store_drop(&rec.store, rec.store.segments[0].index));
	assert_int_equal(rec.store.state, STORE_PREPARING);
	submit(now, 10);
	assert_int_equal(write_out(now), 1);
	segment = (struct segment){ .index = 5, .fd = 5 };
	assert_int_equal(store_add(&rec.store, &segment), 0);
	assert_int_equal(write_out(now), 0);
	assert_int_equal(rec.store.durable_to, 7);
}

/* what was written there and not flushed is written again */
static void a_cached_segment_that_is_gone_costs_what_was_flushed_only(void **state)
{
	uint64_t now = monotonic_ns();
	struct store_write w;

	(void)state;
	w = cached_and_not_flushed(now);
	assert_true(store_drop(&rec.store, (uint32_t)w.fd));
	now = rec.intake.last_ns + WINDOW / 2;
	while (store_next(&rec.store, now, &w))
		store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
	assert_int_equal(rec.store.durable_to, 13);
	assert_int_equal(rec.store.counts.durable, 13);
	assert_int_equal(rec.store.counts.batches, 3);
	assert_true(store_idle(&rec.store));
}

/* of which a minute is to be kept */
static void use_some_segments(uint64_t now)
{
	config.retain_ns = 60 * NSEC_PER_SEC;
	atomic_store(&rec.store.wanted_to, UINT64_MAX);
	for (int i = 0; i < 40; i++) {
		submit(now, 600);
		assert_int_equal(write_out(now), 0);
	}
}

static void what_is_too_old_is_forgotten(void **state)
{
	uint64_t now = monotonic_ns();
	struct segment gone;

	(void)state;
	use_some_segments(now);
	assert_true(rec.store.generation >= 3);
	assert_false(store_expire(&rec.store, now + 59 * NSEC_PER_SEC, realtime_ns(), &gone));
	assert_true(store_expire(&rec.store, now + 61 * NSEC_PER_SEC, 0, &gone));
	assert_true(gone.generation < rec.store.generation);
	assert_int_equal(rec.store.count, MEDIUM_SEGMENTS - 1);
	gone.generation = 0;
	assert_int_equal(store_add(&rec.store, &gone), 0);
	submit(now, 600);
	assert_int_equal(write_out(now), 0);
	config.retain_ns = 0;
}

/* of which the monotonic clock says nothing */
static void what_is_too_old_of_an_earlier_boot_is_forgotten_by_the_real_time(void **state)
{
	uint64_t now = monotonic_ns();
	int64_t opened = 0;
	struct segment gone;

	(void)state;
	use_some_segments(now);
	/* the boot has lasted */
	now += 600 * NSEC_PER_SEC;
	for (unsigned int i = 0; i < rec.store.count; i++) {
		rec.store.segments[i].opened_ns = 0;
		if (rec.store.segments[i].opened_realtime_ns > opened)
			opened = rec.store.segments[i].opened_realtime_ns;
	}
	/* a board without a battery begins in 1970, and what cannot be told stays */
	assert_false(store_expire(&rec.store, now + 3600 * NSEC_PER_SEC, 0, &gone));
	assert_false(store_expire(&rec.store, now, opened + 59 * (int64_t)NSEC_PER_SEC, &gone));
	assert_true(store_expire(&rec.store, now, opened + 61 * (int64_t)NSEC_PER_SEC, &gone));
	assert_true(gone.generation < rec.store.generation);
	config.retain_ns = 0;
}

/* what an hour is kept of; each is in another segment, in this order */
static void find_uses(const struct segment *uses, unsigned int count)
{
	config.retain_ns = 3600 * NSEC_PER_SEC;
	rec.store.current = rec.store.count;
	for (unsigned int i = 0; i < count; i++) {
		rec.store.segments[i] = uses[i];
		rec.store.segments[i].generation = i + 1;
		rec.store.segments[i].index = i;
	}
}

/* how many uses are forgotten then, seconds from when; they have to be the oldest */
static unsigned int forgotten(uint64_t uptime_s, int64_t realtime_s)
{
	struct segment gone;
	uint64_t last = 0;
	unsigned int count = 0;

	while (store_expire(&rec.store, uptime_s * NSEC_PER_SEC, realtime_s * (int64_t)NSEC_PER_SEC,
			    &gone)) {
		assert_true(gone.generation > last);
		last = gone.generation;
		gone.generation = 0;
		assert_int_equal(store_add(&rec.store, &gone), 0);
		count++;
	}
	return count;
}

#define DATE	 INT64_C(1790000000)
#define DATED(s) { .opened_realtime_ns = (DATE + (s)) * (int64_t)NSEC_PER_SEC }
#define TIMED(s) { .opened_ns = (s) * NSEC_PER_SEC, .opened_realtime_ns = INT64_MAX }
#define YEARS	 (INT64_C(10) * 365 * 86400)
#define LASTED	 7200

static void a_clock_that_was_not_set_makes_nothing_old(void **state)
{
	/* three uses of a boot, two before the clock of the next one was set, two with it */
	const struct segment uses[] = {
		DATED(0), DATED(1), DATED(2), DATED(-YEARS), DATED(1 - YEARS), DATED(9), DATED(10),
	};

	(void)state;
	rec.store.count = 4;
	find_uses(uses, 4);
	assert_int_equal(forgotten(LASTED, DATE + 20), 0);
	rec.store.count = 6;
	find_uses(uses, 6);
	assert_int_equal(forgotten(LASTED, DATE + 20), 0);
	assert_int_equal(forgotten(LASTED, DATE + 1 + 3600), 0);
	assert_int_equal(forgotten(LASTED, DATE + 2 + 3600), 1);
	/* the last with a good clock, and what was after it, are older than what came then */
	assert_int_equal(forgotten(LASTED, DATE + 9 + 3600), 1);
	assert_int_equal(forgotten(LASTED, DATE + 10 + 3600), 3);
	assert_int_equal(forgotten(LASTED, DATE + YEARS), 0);
}

static void a_clock_that_was_ahead_makes_nothing_old_and_nothing_young(void **state)
{
	const struct segment uses[] = { DATED(0), DATED(1), DATED(YEARS), DATED(3), DATED(4) };
	const struct segment before[] = { DATED(0), DATED(YEARS), DATED(-YEARS), TIMED(1000) };

	(void)state;
	rec.store.count = 5;
	find_uses(uses, 5);
	assert_int_equal(forgotten(LASTED, DATE + 20), 0);
	assert_int_equal(forgotten(LASTED, DATE + 2 + 3600), 1);
	assert_int_equal(forgotten(LASTED, DATE + 4 + 3600), 2);
	assert_int_equal(forgotten(LASTED, DATE + 5 + 3600), 1);
	/* whatever clocks say: all of earlier boots was before the first use of this one */
	rec.store.count = 4;
	find_uses(before, 4);
	assert_int_equal(forgotten(1000 + 3600, 0), 0);
	assert_int_equal(forgotten(1000 + 3601, 0), 3);
	/* ahead now: until it is put right */
	rec.store.count = 4;
	find_uses(uses, 4);
	assert_int_equal(forgotten(599, DATE + 2 * YEARS), 0);
	assert_int_equal(forgotten(600, DATE + 3 + 3600), 1);
}

static void a_look_that_began_before_a_use_did_forgets_nothing(void **state)
{
	const struct segment uses[] = { TIMED(1000), TIMED(2000), TIMED(3000) };

	(void)state;
	rec.store.count = 3;
	find_uses(uses, 3);
	assert_int_equal(forgotten(1999, DATE), 0);
	assert_int_equal(forgotten(2000 + 3600, DATE), 0);
	assert_int_equal(forgotten(2001 + 3600, DATE), 1);
}

/*
 * A recording of random records, with failing steps or without, through several
 * starts, each ended by a power cut in the middle of a chain.
 */
static void one_life(unsigned int seed, unsigned int failing, bool cached)
{
	uint64_t now = monotonic_ns(), durable = 0;
	struct seen seen;

	srandom(seed);
	seed_now = seed;
	flash_failed = failing;
	config.cached = cached;
	test_medium_make(&flash, "arm", id);
	for (int start = 0; start < 8; start++) {
		struct recovered r = open_recorder();
		int turns = (int)(random() % 60);
		struct store_write w;

		if (start && durable) {
			/* everything durable counts, and no number is given twice */
			if (!r.any || r.last_sequence + 1 < durable)
				fail_msg("seed %u: of %llu durable records %llu are found", seed,
					 (unsigned long long)durable,
					 (unsigned long long)(r.any ? r.last_sequence + 1 : 0));
			assert_false(r.damaged);
			see_all(&seen);
			assert_complete(&seen);
			assert_true(seen.count &&
				    seen.sequences[seen.count - 1] == r.last_sequence);
			/* retained: all segments but the oldest and the one that is begun */
			assert_true(seen.count >= 10 || seen.sequences[0] == 0 || !r.newest ||
				    r.newest->head.generation > MEDIUM_SEGMENTS - 2);
		}
		flash.fail = failing;
		while (turns--) {
			for (long n = random() % 12; n > 0; n--)
				submit(now, (uint32_t)(random() % 601));
			/* slowly, so that chunks are full before they are due; or fast */
			now += (uint64_t)random() % (seed % 2 ? WINDOW : WINDOW / 16);
			while (random() % 8 && !write_out(now))
				;
		}
		durable = rec.store.durable_to;
		/* what the store gave up and could not tell yet is no record */
		if (rec.store.lost_first != rec.store.lost_next && rec.store.lost_first < durable)
			durable = rec.store.lost_first;
		flash.fail = 0;
		if (store_next(&rec.store, now + WINDOW, &w))
			test_medium_write(&flash, &w, (unsigned int)random() % 4);
		test_medium_cut(&flash);
		close_recorder();
	}
}

static void power_cuts(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 150; seed++)
		one_life(seed, 0, false);
	for (unsigned int seed = 1; seed <= 100; seed++)
		one_life(seed, 0, true);
}

static void power_cuts_of_a_failing_medium(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 150; seed++)
		one_life(seed, 10, seed % 3 == 0);
}

static void a_stop_goes_on_as_long_as_a_medium_takes_something(void **state)
{
	const uint64_t began = 100 * NSEC_PER_SEC;

	(void)state;
	/* whatever it took before */
	assert_int_equal(store_stop_by(began, 0), began + STORE_STOP_TIME);
	assert_int_equal(store_stop_by(began, began - 1), began + STORE_STOP_TIME);
	assert_int_equal(store_stop_by(began, began + NSEC_PER_SEC),
			 began + NSEC_PER_SEC + STORE_STOP_TIME);
	/* and not for ever */
	assert_int_equal(store_stop_by(began, began + 4 * NSEC_PER_SEC), began + STORE_STOP_MOST);
	assert_int_equal(store_stop_by(began, began + 60 * NSEC_PER_SEC), began + STORE_STOP_MOST);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(it_writes_at_half_of_the_window_or_a_full_chunk),
		TEST(late_records_are_counted),
		TEST(a_failed_batch_goes_to_the_next_segment),
		TEST(a_medium_that_fails_costs_a_gap_and_not_its_past),
		TEST(a_medium_that_hangs_is_told_as_long_as_it_does),
		TEST(cached_flushes_once_a_window),
		TEST(room_that_comes_late_ends_a_failure_for_want_of_it),
		TEST(segments_that_were_never_used_are_used_in_the_order_of_their_index),
		TEST(a_segment_that_is_gone_is_used_no_more),
		TEST(a_cached_segment_that_is_gone_costs_what_was_flushed_only),
		TEST(what_is_too_old_is_forgotten),
		TEST(what_is_too_old_of_an_earlier_boot_is_forgotten_by_the_real_time),
		TEST(a_clock_that_was_not_set_makes_nothing_old),
		TEST(a_clock_that_was_ahead_makes_nothing_old_and_nothing_young),
		TEST(a_look_that_began_before_a_use_did_forgets_nothing),
		cmocka_unit_test(a_stop_goes_on_as_long_as_a_medium_takes_something),
		cmocka_unit_test(power_cuts),
		cmocka_unit_test(power_cuts_of_a_failing_medium),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
