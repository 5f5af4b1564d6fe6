// SPDX-License-Identifier: Apache-2.0
/*
 * The store on a fake medium in memory: when it writes, and how it handles failures. Random
 * recordings lose power at random moments: recovery must find everything durable and accept
 * nothing torn.
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
#include "fake_medium.h"
#include "segment.h"
#include "storage.h"

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
	struct intake_writer writer;
};

static struct recorder rec;
static const uint8_t id[16] = { 1, 2, 3 };
static uint8_t boot[16] = { 9 };

/* does what prepare.c does, without a file system */
static struct recovered open_recorder(void)
{
	static struct medium_use segments[MEDIUM_SEGMENTS];
	struct medium_bytes bytes = test_medium_bytes(&flash);
	struct recovered r = { .segments = segments, .count = MEDIUM_SEGMENTS };
	struct error e;

	test_medium_list(segments);
	memset(&rec, 0, sizeof(rec));
	assert_int_equal(recover(&bytes, "arm", &r, &e), 0);
	assert_int_equal(buffer_open(&rec.buffer, config.writeout, config.buffer, &e), 0);
	assert_int_equal(store_open(&rec.store, &config, &rec.buffer, &e), 0);
	intake_open(&rec.intake, &rec.buffer, (uint32_t)config.record_size, config.window_ns,
		    r.next_sequence);
	store_set(&rec.store, r.generation, r.next_sequence, id, boot);
	for (uint32_t i = 0; i < MEDIUM_SEGMENTS; i++) {
		const struct medium_use *u = test_medium_at(segments, i);
		struct segment s = { .index = i, .fd = (int)i, .generation = u->head.generation };

		if (r.newest == u && r.only_restarts)
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
	/* these are no real file descriptors: do not close them */
	rec.store.count = 0;
	store_close(&rec.store);
	buffer_close(&rec.buffer);
}

/* what storage.c does before it writes a chain */
static bool take(uint64_t now, bool alone, struct store_write *w)
{
	if (!store_next(&rec.store, now, alone, w))
		return false;
	store_seal(w);
	return true;
}

static int submit(uint64_t now, uint32_t length)
{
	unsigned char payload[600];
	struct record r = { .sequence = rec.writer.next,
			    .monotonic_ns = now,
			    .length = length,
			    .payload = payload };

	/* the payload depends on the sequence, so that a reader can check it */
	memset(payload, (int)(rec.intake.next_sequence * 7), sizeof(payload));
	return intake_take(&rec.intake, &rec.writer, &r, true);
}

static unsigned int seed_now;
static bool flash_failed;
static int write_out(uint64_t now)
{
	struct store_write w;
	int ret;

	if (!take(now, true, &w))
		return 1;
	/* only one write at a time */
	assert_false(take(now, true, &(struct store_write){ 0 }));
	ret = test_medium_write(&flash, &w, 100);
	store_done(&rec.store, now, ret);
	return ret;
}

/* --- reading by the rules of format.h alone -------------------------------------- */

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
	const struct record_use use = segment_use(h);
	uint64_t batch = 0;
	size_t at = EKR_BLOCK;

	while (at < MEDIUM_SIZE) {
		const struct ekr_record_head *r = record_at(base + at, MEDIUM_SIZE - at, &use);

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
 * Sequences grow by one, or by the number in a gap. Exception: after a use whose head could
 * not be written, a segment between two others may have been reused before an older one.
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

static void it_writes_after_half_a_window_or_with_a_full_chunk(void **state)
{
	uint64_t now = monotonic_ns();

	(void)state;
	assert_int_equal(store_due(&rec.store, now, true), UINT64_MAX);
	assert_int_equal(submit(now, 100), 0);
	now = rec.intake.last_ns;
	assert_int_equal(store_due(&rec.store, now, true), now + WINDOW / 2);
	/* records at a steady pace: between two of them, unless that costs much of the window */
	config.period_ns = WINDOW / 20;
	assert_int_equal(store_due(&rec.store, now, true), now + WINDOW / 2 - WINDOW / 40);
	config.period_ns = WINDOW;
	assert_int_equal(store_due(&rec.store, now, true), now + WINDOW / 2);
	config.period_ns = 0;
	assert_int_equal(write_out(now + WINDOW / 2 - 1), 1);
	assert_int_equal(write_out(now + WINDOW / 2), 0);
	assert_int_equal(rec.store.durable_to, 1);
	assert_true(store_idle(&rec.store));
	/* 12 records of 656 bytes fill a chunk; the 13th starts the next one */
	for (int i = 0; i < 13; i++)
		assert_int_equal(submit(now, 600), 0);
	assert_int_equal(store_due(&rec.store, now, true), now);
	assert_int_equal(write_out(now), 0);
	assert_int_equal(write_out(now), 1);
	assert_int_equal(rec.store.durable_to, 13);
	assert_int_equal(rec.store.counts.durable, 13);
	/* a writer waits in a sync */
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

static void a_failing_medium_loses_new_records_but_no_old_ones(void **state)
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
	/* a sync for these records ends, and reports that they are lost */
	assert_int_equal(rec.store.durable_to, 5);
	/* for 30 s it retries with growing pauses, about a dozen times, in the same segment */
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

static void a_medium_that_hangs_is_reported_until_it_responds(void **state)
{
	uint64_t begin = monotonic_ns() + NSEC_PER_SEC;
	struct store_write w;
	struct error e;

	(void)state;
	submit(begin, 100);
	assert_true(take(begin, true, &w));
	store_watch(&rec.store, begin + STORE_HANGS - 1);
	assert_int_equal(store_state(&rec.store, &e), STORE_RECORDING);
	/* a check that started before the write */
	store_watch(&rec.store, begin - NSEC_PER_SEC);
	assert_int_equal(store_state(&rec.store, &e), STORE_RECORDING);
	store_watch(&rec.store, begin + STORE_HANGS);
	assert_int_equal(store_state(&rec.store, &e), STORE_FAILED);
	assert_int_equal(e.code, ETIMEDOUT);
	assert_string_equal(
		e.text,
		"writing segment 00000000.seg does not finish: the medium does not respond");
	store_done(&rec.store, begin + 60 * NSEC_PER_SEC, 0);
	assert_int_equal(store_state(&rec.store, &e), STORE_RECORDING);
	assert_int_equal(e.code, 0);
	/* without a write in flight nothing can hang */
	store_watch(&rec.store, begin + 600 * NSEC_PER_SEC);
	assert_int_equal(store_state(&rec.store, &e), STORE_RECORDING);
}

/* syncs without a pause, on a medium that needs 10 ms for a write; returns the writes in a second */
static unsigned int sync_for_a_second(uint64_t *first_took)
{
	const uint64_t begin = monotonic_ns(), took = 10 * NSEC_PER_MSEC;
	unsigned int writes = 0;
	uint64_t now = begin;

	*first_took = 0;
	while (now < begin + NSEC_PER_SEC) {
		struct store_write w;
		uint64_t due;

		submit(now, 100);
		atomic_store(&rec.store.wanted_to, rec.intake.next_sequence);
		due = store_due(&rec.store, now, true);
		assert_true(due != UINT64_MAX);
		if (due > now)
			now = due;
		assert_true(take(now, true, &w));
		now += took;
		store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
		if (!writes++)
			*first_took = now - begin;
	}
	return writes;
}

static void a_loop_of_syncs_leaves_the_medium_to_others(void **state)
{
	uint64_t first;

	(void)state;
	config.window_ns = 10 * NSEC_PER_SEC;
	assert_in_range(sync_for_a_second(&first), 10, 1000 / 80 + 2);
	/* the first is served at once */
	assert_int_equal(first, 10 * NSEC_PER_MSEC);
	config.window_ns = WINDOW;
}

static void full_chunks_are_not_delayed_by_syncs(void **state)
{
	uint64_t first, now;

	(void)state;
	config.window_ns = 10 * NSEC_PER_SEC;
	sync_for_a_second(&first);
	now = monotonic_ns() + 2 * NSEC_PER_SEC;
	rec.store.haste_ns = now + NSEC_PER_SEC;
	for (int i = 0; i < 13; i++)
		submit(now, 600);
	assert_int_equal(store_due(&rec.store, now, true), now);
	assert_int_equal(write_out(now), 0);
	config.window_ns = WINDOW;
}

static void full_batches_and_syncs_leave_the_medium_to_others(void **state)
{
	uint64_t now = monotonic_ns();
	struct store_write w;

	(void)state;
	/* a full chunk, and a record in the next one */
	for (int i = 0; i < 13; i++)
		assert_int_equal(submit(now, 600), 0);
	now = rec.intake.last_ns;
	assert_int_equal(store_due(&rec.store, now, true), now);
	assert_int_equal(store_due(&rec.store, now, false), UINT64_MAX);
	assert_false(take(now + WINDOW, false, &w));
	assert_true(take(now, true, &w));
	store_done(&rec.store, now, 0);
	/* a batch that is due is written, also while other channels write */
	assert_int_equal(store_due(&rec.store, now, false), now + WINDOW / 2);
	assert_false(take(now + WINDOW / 2 - NSEC_PER_MSEC, false, &w));
	assert_true(take(now + WINDOW / 2, false, &w));
	store_done(&rec.store, now + WINDOW / 2, 0);
	/* a sync waits for its turn */
	assert_int_equal(submit(now, 600), 0);
	atomic_store(&rec.store.wanted_to, rec.intake.next_sequence);
	now = rec.intake.last_ns;
	assert_false(take(now, false, &w));
	/* at a shutdown everything is due */
	atomic_store(&rec.store.stopping, true);
	assert_true(take(now, false, &w));
	store_done(&rec.store, now, 0);
	assert_true(store_idle(&rec.store));
}

static void a_failure_for_lack_of_space_ends_with_a_new_segment(void **state)
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
	/* but another segment does not end the failure of a medium */
	s.state = STORE_FAILED;
	s.failures = 2;
	segment.index = 2;
	store_add(&s, &segment);
	assert_int_equal(s.state, STORE_FAILED);
	store_close(&s);
}

/* a following reader can then tell which segment is next, whatever the order of the directory */
static void unused_segments_are_used_in_order_of_their_index(void **state)
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

static void a_dropped_segment_is_not_used_again(void **state)
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
	/* not dropped while it is being written, but no later batch goes there */
	submit(now, 10);
	assert_true(take(now, true, &w));
	assert_int_equal(w.fd, (int)gone);
	assert_false(store_drop(&rec.store, gone));
	store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
	submit(now, 10);
	assert_true(take(now, true, &w));
	assert_int_not_equal(w.fd, (int)gone);
	assert_non_null(w.head);
	assert_true(store_drop(&rec.store, gone));
	store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
	assert_int_equal(rec.store.count, MEDIUM_SEGMENTS - 1);
	assert_int_equal(rec.store.durable_to, 3);
	/* drop the segment in use while nothing is being written */
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
	/* with one segment it does not record until there are two again */
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

/* use some segments at @now, with retain_time = 1 min */
static void use_some_segments(uint64_t now)
{
	config.retain_ns = 60 * NSEC_PER_SEC;
	atomic_store(&rec.store.wanted_to, UINT64_MAX);
	for (int i = 0; i < 40; i++) {
		submit(now, 600);
		assert_int_equal(write_out(now), 0);
	}
}

static void old_uses_expire(void **state)
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

/* otherwise records of a channel that writes without pause would never expire */
static void old_uses_expire_while_a_batch_is_written(void **state)
{
	uint64_t now = monotonic_ns();
	struct store_write w;
	struct segment gone;
	uint32_t used;

	(void)state;
	use_some_segments(now);
	submit(now, 600);
	assert_true(take(now, true, &w));
	used = rec.store.segments[rec.store.current].index;
	while (store_expire(&rec.store, now + 61 * NSEC_PER_SEC, 0, &gone)) {
		assert_int_not_equal(gone.index, used);
		assert_int_equal(rec.store.segments[rec.store.current].index, used);
	}
	assert_true(rec.store.count < MEDIUM_SEGMENTS);
	store_done(&rec.store, now, test_medium_write(&flash, &w, 100));
	assert_int_equal(rec.store.counts.errors, 0);
	submit(now, 600);
	assert_int_equal(write_out(now), 0);
	config.retain_ns = 0;
}

/* the monotonic clock does not reach back to earlier boots */
static void uses_of_earlier_boots_expire_by_real_time(void **state)
{
	uint64_t now = monotonic_ns();
	int64_t opened = 0;
	struct segment gone;

	(void)state;
	use_some_segments(now);
	/* this boot is old enough for its real-time clock to count */
	now += 600 * NSEC_PER_SEC;
	for (unsigned int i = 0; i < rec.store.count; i++) {
		rec.store.segments[i].opened_ns = 0;
		if (rec.store.segments[i].opened_realtime_ns > opened)
			opened = rec.store.segments[i].opened_realtime_ns;
	}
	/* a board without a battery starts in 1970; records of unknown age stay */
	assert_false(store_expire(&rec.store, now + 3600 * NSEC_PER_SEC, 0, &gone));
	assert_false(store_expire(&rec.store, now, opened + 59 * (int64_t)NSEC_PER_SEC, &gone));
	assert_true(store_expire(&rec.store, now, opened + 61 * (int64_t)NSEC_PER_SEC, &gone));
	assert_true(gone.generation < rec.store.generation);
	config.retain_ns = 0;
}

/* a recording with these uses, oldest first, each in its own segment; retain_time = 1 h */
static void set_uses(const struct segment *uses, unsigned int count)
{
	config.retain_ns = 3600 * NSEC_PER_SEC;
	rec.store.current = rec.store.count;
	for (unsigned int i = 0; i < count; i++) {
		rec.store.segments[i] = uses[i];
		rec.store.segments[i].generation = i + 1;
		rec.store.segments[i].index = i;
	}
}

/* number of uses that expire at this uptime and real time (s); asserts that they are the oldest */
static unsigned int expired(uint64_t uptime_s, int64_t realtime_s)
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
#define UPTIME	 7200

static void a_clock_that_was_not_set_expires_nothing_early(void **state)
{
	/* three uses of one boot; of the next boot two before its clock was set, and two after */
	const struct segment uses[] = {
		DATED(0), DATED(1), DATED(2), DATED(-YEARS), DATED(1 - YEARS), DATED(9), DATED(10),
	};

	(void)state;
	rec.store.count = 4;
	set_uses(uses, 4);
	assert_int_equal(expired(UPTIME, DATE + 20), 0);
	rec.store.count = 6;
	set_uses(uses, 6);
	assert_int_equal(expired(UPTIME, DATE + 20), 0);
	assert_int_equal(expired(UPTIME, DATE + 1 + 3600), 0);
	assert_int_equal(expired(UPTIME, DATE + 2 + 3600), 1);
	/* the last use with a correct clock, and those after it, are older than the next dated use */
	assert_int_equal(expired(UPTIME, DATE + 9 + 3600), 1);
	assert_int_equal(expired(UPTIME, DATE + 10 + 3600), 3);
	assert_int_equal(expired(UPTIME, DATE + YEARS), 0);
}

static void a_clock_that_was_ahead_expires_nothing_early_or_late(void **state)
{
	const struct segment uses[] = { DATED(0), DATED(1), DATED(YEARS), DATED(3), DATED(4) };
	const struct segment before[] = { DATED(0), DATED(YEARS), DATED(-YEARS), TIMED(1000) };

	(void)state;
	rec.store.count = 5;
	set_uses(uses, 5);
	assert_int_equal(expired(UPTIME, DATE + 20), 0);
	assert_int_equal(expired(UPTIME, DATE + 2 + 3600), 1);
	assert_int_equal(expired(UPTIME, DATE + 4 + 3600), 2);
	assert_int_equal(expired(UPTIME, DATE + 5 + 3600), 1);
	/* whatever the clocks were: earlier boots are older than the first use of this boot */
	rec.store.count = 4;
	set_uses(before, 4);
	assert_int_equal(expired(1000 + 3600, 0), 0);
	assert_int_equal(expired(1000 + 3601, 0), 3);
	/* the clock is ahead now, until it is corrected */
	rec.store.count = 4;
	set_uses(uses, 4);
	assert_int_equal(expired(599, DATE + 2 * YEARS), 0);
	assert_int_equal(expired(600, DATE + 3 + 3600), 1);
}

static void a_time_before_the_start_of_a_use_expires_nothing(void **state)
{
	const struct segment uses[] = { TIMED(1000), TIMED(2000), TIMED(3000) };

	(void)state;
	rec.store.count = 3;
	set_uses(uses, 3);
	assert_int_equal(expired(1999, DATE), 0);
	assert_int_equal(expired(2000 + 3600, DATE), 0);
	assert_int_equal(expired(2001 + 3600, DATE), 1);
}

/*
 * A recording of random records, with or without failing steps, over several starts. A power
 * cut in the middle of a chain of I/O ends each.
 */
static void one_recording(unsigned int seed, unsigned int failing)
{
	uint64_t now = monotonic_ns(), durable = 0;
	struct seen seen;

	srandom(seed);
	seed_now = seed;
	flash_failed = failing;
	test_medium_make(&flash, "arm", id);
	/* some of the starts are in the next boot */
	for (int start = 0; start < 8; start++, boot[0] += random() % 2) {
		struct recovered r = open_recorder();
		int turns = (int)(random() % 60);
		struct store_write w;

		if (start && durable) {
			/* every durable record is found, and no sequence is assigned twice */
			if (!r.any || r.last_sequence + 1 < durable)
				fail_msg("seed %u: %llu records were durable, %llu are found", seed,
					 (unsigned long long)durable,
					 (unsigned long long)(r.any ? r.last_sequence + 1 : 0));
			assert_false(r.damaged);
			see_all(&seen);
			assert_complete(&seen);
			assert_true(seen.count &&
				    seen.sequences[seen.count - 1] == r.last_sequence);
			/* retained: all segments except the oldest and the one just started */
			assert_true(seen.count >= 10 || seen.sequences[0] == 0 || !r.newest ||
				    r.newest->head.generation > MEDIUM_SEGMENTS - 2);
		}
		flash.fail = failing;
		while (turns--) {
			for (long n = random() % 12; n > 0; n--)
				submit(now, (uint32_t)(random() % 601));
			/* time advances slowly, so that batches are full before they are due; or fast */
			now += (uint64_t)random() % (seed % 2 ? WINDOW : WINDOW / 16);
			while (random() % 8 && !write_out(now))
				;
		}
		durable = rec.store.durable_to;
		/* records that the store gave up do not count, even if their gap is not written yet */
		if (rec.store.lost_first != rec.store.lost_next && rec.store.lost_first < durable)
			durable = rec.store.lost_first;
		flash.fail = 0;
		if (take(now + WINDOW, true, &w))
			test_medium_write(&flash, &w, (unsigned int)random() % 4);
		test_medium_cut(&flash);
		close_recorder();
	}
}

static void power_cuts(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 150; seed++)
		one_recording(seed, 0);
	for (unsigned int seed = 1; seed <= 100; seed++)
		one_recording(seed, 0);
}

static void power_cuts_of_a_failing_medium(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= 150; seed++)
		one_recording(seed, 10);
}

static void a_shutdown_continues_while_a_medium_accepts_data(void **state)
{
	const uint64_t began = 100 * NSEC_PER_SEC;

	(void)state;
	/* what the medium accepted before the stop does not count */
	assert_int_equal(shutdown_by(began, 0), began + SHUTDOWN_TIME);
	assert_int_equal(shutdown_by(began, began - 1), began + SHUTDOWN_TIME);
	assert_int_equal(shutdown_by(began, began + NSEC_PER_SEC),
			 began + NSEC_PER_SEC + SHUTDOWN_TIME);
	/* not longer than SHUTDOWN_MOST */
	assert_int_equal(shutdown_by(began, began + 4 * NSEC_PER_SEC), began + SHUTDOWN_MOST);
	assert_int_equal(shutdown_by(began, began + 60 * NSEC_PER_SEC), began + SHUTDOWN_MOST);
}

/* while the board was suspended, the real time went on and the monotonic time did not */
static void a_suspend_ages_no_record(void **state)
{
	const uint64_t now = monotonic_ns();
	struct segment gone;

	(void)state;
	use_some_segments(now);
	assert_false(store_expire(&rec.store, now + 1,
				  realtime_ns() + 8 * 3600 * (int64_t)NSEC_PER_SEC, &gone));
	assert_true(store_expire(&rec.store, now + 61 * NSEC_PER_SEC, realtime_ns(), &gone));
	config.retain_ns = 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(it_writes_after_half_a_window_or_with_a_full_chunk),
		TEST(late_records_are_counted),
		TEST(a_failed_batch_goes_to_the_next_segment),
		TEST(a_failing_medium_loses_new_records_but_no_old_ones),
		TEST(a_medium_that_hangs_is_reported_until_it_responds),
		TEST(a_suspend_ages_no_record),
		TEST(a_loop_of_syncs_leaves_the_medium_to_others),
		TEST(full_chunks_are_not_delayed_by_syncs),
		TEST(full_batches_and_syncs_leave_the_medium_to_others),
		TEST(a_failure_for_lack_of_space_ends_with_a_new_segment),
		TEST(unused_segments_are_used_in_order_of_their_index),
		TEST(a_dropped_segment_is_not_used_again),
		TEST(old_uses_expire),
		TEST(old_uses_expire_while_a_batch_is_written),
		TEST(uses_of_earlier_boots_expire_by_real_time),
		TEST(a_clock_that_was_not_set_expires_nothing_early),
		TEST(a_clock_that_was_ahead_expires_nothing_early_or_late),
		TEST(a_time_before_the_start_of_a_use_expires_nothing),
		cmocka_unit_test(a_shutdown_continues_while_a_medium_accepts_data),
		cmocka_unit_test(power_cuts),
		cmocka_unit_test(power_cuts_of_a_failing_medium),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
