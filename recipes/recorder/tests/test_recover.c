// SPDX-License-Identifier: Apache-2.0
/* Recovery of damaged segments. test_store.c tests power cuts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch.h"
#include "config.h"
#include "fake_medium.h"
#include "segment.h"

static struct test_medium flash;
static struct medium_use segments[MEDIUM_SEGMENTS];
static unsigned char scratch[EKR_RECORD_MAX];
static const uint8_t id[16] = { 5 };

/* a use with @batches batches of one block, 20 records each, numbered from @first */
static void use(unsigned int i, uint64_t generation, uint64_t first, unsigned int batches)
{
	struct ekr_segment_head *head = (struct ekr_segment_head *)flash.cache[i];
	uint64_t sequence = first;
	struct record_use in;

	head->generation = generation;
	head->first_sequence = first;
	segment_seal_head(flash.cache[i]);
	in = segment_use(head);
	for (unsigned int b = 0; b < batches; b++) {
		unsigned char *at = flash.cache[i] + (1 + b) * EKR_BLOCK;
		size_t used = 0;

		for (int n = 0; n < 20; n++) {
			const struct record r = { .sequence = sequence++,
						  .length = 100,
						  .payload = scratch };

			used += batch_append(at + used, &r);
		}
		batch_seal(at, used, &in, b);
	}
}

static int run_recover(struct recovered *r, struct error *e)
{
	struct medium_bytes bytes = test_medium_bytes(&flash);

	test_medium_list(segments);
	*r = (struct recovered){ .segments = segments, .count = MEDIUM_SEGMENTS };
	return recover(&bytes, "arm", r, e);
}

static const struct medium_use *at(uint32_t index)
{
	return test_medium_at(segments, index);
}

static struct recovered found(void)
{
	struct recovered r;
	struct error e;

	assert_int_equal(run_recover(&r, &e), 0);
	return r;
}

static int set_up(void **state)
{
	(void)state;
	test_medium_make(&flash, "arm", id);
	return 0;
}

static void an_empty_recording(void **state)
{
	struct recovered r = found();

	(void)state;
	assert_null(r.newest);
	assert_false(r.any);
	assert_int_equal(r.next_sequence, 0);
}

static void the_last_record_is_found(void **state)
{
	struct recovered r;

	(void)state;
	use(2, 7, 100, 4);
	use(1, 6, 0, 5);
	r = found();
	assert_int_equal(r.newest->index, 2);
	assert_int_equal(r.last_sequence, 179);
	assert_int_equal(r.next_sequence, 180);
	assert_int_equal(r.batches, 4);
	assert_int_equal(r.end, 5 * EKR_BLOCK);
	assert_false(r.damaged || r.only_restarts);
}

static void a_newest_segment_with_a_head_only(void **state)
{
	struct recovered r;

	(void)state;
	use(1, 6, 0, 5);
	use(2, 7, 60, 0);
	r = found();
	/* records of an earlier use are void from sequence 60 on */
	assert_int_equal(r.last_sequence, 59);
	assert_int_equal(r.next_sequence, 60);
	assert_true(r.only_restarts);
}

static void recovery_continues_after_damage(void **state)
{
	struct recovered r;

	(void)state;
	use(0, 1, 0, 6);
	memset(flash.cache[0] + 3 * EKR_BLOCK, 0xff, EKR_BLOCK);
	r = found();
	assert_int_equal(r.last_sequence, 119);
	assert_true(r.damaged);
	/* in the middle of a batch */
	set_up(NULL);
	use(0, 1, 0, 6);
	flash.cache[0][3 * EKR_BLOCK + 1000] ^= 1;
	r = found();
	assert_int_equal(r.last_sequence, 119);
	assert_true(r.damaged);
}

static void a_torn_last_batch_counts_up_to_the_tear(void **state)
{
	struct recovered r;

	(void)state;
	use(0, 1, 0, 6);
	flash.cache[0][6 * EKR_BLOCK + 1000] ^= 1;
	r = found();
	assert_in_range(r.last_sequence, 100, 118);
	assert_false(r.damaged);
}

static void invalid_heads_are_reported(void **state)
{
	struct recovered r;

	(void)state;
	use(0, 1, 0, 3);
	use(1, 2, 60, 3);
	flash.cache[1][80] ^= 1;
	flash.unreadable[3] = true;
	memcpy(flash.cache[4], flash.cache[0], EKR_BLOCK);
	r = found();
	/* its records are found nevertheless, and sequences continue after them */
	assert_int_equal(r.last_sequence, 119);
	assert_string_equal(at(1)->damage, "head: bad CRC");
	assert_string_equal(at(3)->damage, "head: cannot be read");
	assert_string_equal(at(4)->damage, "head: its index does not match the name of the file");
	assert_null(at(2)->damage);
}

/* its generation must not be assigned again: its old records would become valid in that use */
static void the_newest_segment_is_found_without_its_head(void **state)
{
	struct recovered r;

	(void)state;
	use(0, 1, 0, 3);
	use(1, 2, 60, 6);
	use(2, 3, 180, 3);
	flash.cache[2][80] ^= 1;
	r = found();
	assert_int_equal(r.generation, 3);
	assert_int_equal(r.newest->index, 2);
	assert_int_equal(r.valid->index, 1);
	assert_string_equal(at(2)->damage, "head: bad CRC");
	assert_int_equal(at(2)->head.generation, 3);
	assert_int_equal(at(2)->head.size, MEDIUM_SIZE);
	assert_int_equal(r.last_sequence, 239);
	assert_int_equal(r.next_sequence, 240);
	assert_int_equal(r.end, 4 * EKR_BLOCK);
	assert_int_equal(r.batches, 3);
	assert_false(r.damaged || r.only_restarts);
	/* the first block may still have a record of an earlier use */
	set_up(NULL);
	use(2, 1, 0, 1);
	memcpy(scratch, flash.cache[2] + EKR_BLOCK, EKR_BLOCK);
	use(2, 7, 180, 4);
	memcpy(flash.cache[2] + EKR_BLOCK, scratch, EKR_BLOCK);
	memset(flash.cache[2], 0xff, EKR_BLOCK);
	use(1, 6, 60, 6);
	r = found();
	assert_int_equal(r.generation, 7);
	assert_int_equal(r.next_sequence, 260);
	/* an older segment without a head is not taken for the newest */
	set_up(NULL);
	use(0, 1, 0, 3);
	use(1, 2, 60, 3);
	flash.cache[0][80] ^= 1;
	r = found();
	assert_int_equal(r.newest->index, 1);
	assert_int_equal(r.generation, 2);
	assert_int_equal(at(0)->head.generation, 1);
	assert_int_equal(r.next_sequence, 120);
}

static void an_unreadable_segment_may_have_had_any_generation(void **state)
{
	struct recovered r;

	(void)state;
	use(0, 1, 0, 3);
	flash.unreadable[3] = true;
	r = found();
	assert_int_equal(r.newest->index, 0);
	assert_int_equal(r.generation, 1 + SEGMENTS_MAX);
	assert_int_equal(r.next_sequence, 60);
	/* no segment is readable */
	set_up(NULL);
	memset(flash.cache, 0xff, sizeof(flash.cache));
	r = found();
	assert_null(r.newest);
	assert_null(r.valid);
	assert_int_equal(r.generation, SEGMENTS_MAX);
}

static void segments_of_other_recordings_are_refused(void **state)
{
	struct ekr_segment_head *head = (struct ekr_segment_head *)flash.cache[3];
	struct recovered r;
	struct error e;

	(void)state;
	use(0, 1, 0, 3);
	head->channel_id[0] ^= 1;
	segment_seal_head(flash.cache[3]);
	assert_int_equal(run_recover(&r, &e), -EINVAL);
	assert_string_equal(e.text, "segment 00000003.seg belongs to another recording; remove it");
	head->channel_id[0] ^= 1;
	head->name[0] = 'x';
	segment_seal_head(flash.cache[3]);
	assert_int_equal(run_recover(&r, &e), -EINVAL);
	assert_string_equal(e.text, "segment 00000003.seg belongs to channel 'xrm'; remove it");
}

/*
 * A segment of 1 GiB whose content is generated when it is read: batches of 2 MiB, each
 * with three records of 600 KiB and a shorter one that ends within a block. After the last
 * batch follow batches of an earlier use.
 */
#define LONG_SIZE  (UINT64_C(1) << 30)
#define LONG_BATCH (UINT64_C(2) << 20)
#define LONG_MOST  ((LONG_SIZE - EKR_BLOCK) / LONG_BATCH)
#define PER_BATCH  4u
#define LENGTH	   (600u << 10)
#define REST	   ((uint32_t)(LONG_BATCH - 3 * record_bytes(LENGTH) - record_bytes(0) - 1000))

struct long_segment {
	uint64_t batches;      /* in this use */
	uint64_t bad, bad_end; /* damaged range, bytes */
	uint64_t first;	       /* sequence of the first record */
	uint64_t bytes;	       /* read so far */
	uint64_t made;	       /* number of the batch in `batch` */
	uint64_t generation;   /* and its generation */
	unsigned char batch[LONG_BATCH] __attribute__((aligned(EKR_BLOCK)));
};

static void make_batch(struct long_segment *s, uint64_t n)
{
	uint64_t generation = n < s->batches ? 9 : 8;
	const struct ekr_segment_head head = { .generation = generation };
	const struct record_use in = segment_use(&head);
	size_t used = 0;

	if (s->made == n && s->generation == generation)
		return;
	s->made = n;
	s->generation = generation;
	memset(s->batch, 0, sizeof(s->batch));
	for (unsigned int i = 0; i < PER_BATCH; i++) {
		const struct record r = { .sequence = s->first + n * PER_BATCH + i,
					  .length = i < 3 ? LENGTH : REST,
					  .payload = scratch };

		used += batch_append(s->batch + used, &r);
	}
	batch_seal(s->batch, used, &in, n);
}

static ssize_t read_long(void *ctx, uint32_t index, void *to, size_t length, uint64_t offset)
{
	struct long_segment *s = ctx;
	unsigned char *out = to;

	assert_int_equal(index, 0);
	assert_int_equal(offset % EKR_BLOCK + length % EKR_BLOCK, 0);
	s->bytes += length;
	for (size_t done = 0; done < length; done += EKR_BLOCK) {
		uint64_t at = offset + done;

		if (!at) {
			struct ekr_segment_head *head = to;

			memset(out, 0, EKR_BLOCK);
			*head = (struct ekr_segment_head){ .name = "arm",
							   .generation = 9,
							   .first_sequence = s->first,
							   .size = LONG_SIZE,
							   .record_size = EKR_RECORD_MAX };
			segment_seal_head(out);
		} else if (at >= s->bad && at < s->bad_end) {
			memset(out + done, 0x5a, EKR_BLOCK);
		} else if ((at - EKR_BLOCK) / LONG_BATCH < LONG_MOST) {
			make_batch(s, (at - EKR_BLOCK) / LONG_BATCH);
			memcpy(out + done, s->batch + (at - EKR_BLOCK) % LONG_BATCH, EKR_BLOCK);
		} else {
			memset(out + done, 0, EKR_BLOCK);
		}
	}
	return (ssize_t)length;
}

static struct recovered found_in(struct long_segment *s)
{
	struct medium_bytes bytes = test_medium_bytes(&flash);
	struct recovered r = { .segments = segments, .count = 1 };
	struct error e;

	bytes.read = read_long;
	bytes.ctx = s;
	segments[0] = (struct medium_use){ .file = "00000000.seg", .size = LONG_SIZE };
	s->bytes = 0;
	s->made = UINT64_MAX;
	assert_int_equal(recover(&bytes, "arm", &r, &e), 0);
	return r;
}

static void only_the_end_of_a_long_segment_is_read(void **state)
{
	static const uint64_t ends[] = { 1, 2, 3, 4, 5, 100, 255, 256, 257, 300, 510, LONG_MOST };
	static struct long_segment s;

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct recovered r;

		s = (struct long_segment){ .batches = ends[i], .first = 77 };
		r = found_in(&s);
		assert_true(r.any);
		assert_false(r.damaged || r.only_restarts);
		assert_int_equal(r.batches, ends[i]);
		assert_int_equal(r.next_sequence, 77 + ends[i] * PER_BATCH);
		assert_in_range(r.end, EKR_BLOCK + (ends[i] - 1) * LONG_BATCH + 1,
				EKR_BLOCK + ends[i] * LONG_BATCH);
		assert_in_range(s.bytes, 0, 96 << 20);
	}
	s = (struct long_segment){ .batches = 0, .first = 77 };
	assert_false(found_in(&s).any);
}

/* a segment of 400 batches, of which these bytes are damaged */
static struct recovered found_with_damage(uint64_t bad, uint64_t bad_end)
{
	static struct long_segment s;

	/* member by member: the whole is too large for the stack */
	s.batches = 400;
	s.bad = bad;
	s.bad_end = bad_end;
	return found_in(&s);
}

static void a_long_segment_with_damage(void **state)
{
	/* in a batch, after its first record */
	const uint64_t inside = EKR_BLOCK + (800 << 10);
	struct recovered r;

	(void)state;
	/* damage in the middle, where the search starts, and near the end */
	r = found_with_damage(LONG_SIZE / 2 - (1 << 20), LONG_SIZE / 2 + (6 << 20));
	assert_int_equal(r.next_sequence, 400 * PER_BATCH);
	r = found_with_damage(EKR_BLOCK + 397 * LONG_BATCH, 2 * EKR_BLOCK + 397 * LONG_BATCH);
	assert_int_equal(r.next_sequence, 400 * PER_BATCH);
	assert_int_equal(r.batches, 400);
	assert_true(r.damaged);
	/* the last batch but one is damaged: the last one proves that it was durable */
	r = found_with_damage(inside + 398 * LONG_BATCH, inside + 398 * LONG_BATCH + EKR_BLOCK);
	assert_int_equal(r.next_sequence, 400 * PER_BATCH);
	assert_true(r.damaged);
	/* the last batch is torn */
	r = found_with_damage(inside + 399 * LONG_BATCH, EKR_BLOCK + 400 * LONG_BATCH);
	assert_int_equal(r.next_sequence, 399 * PER_BATCH + 1);
	assert_false(r.damaged);
}

/* AddressSanitizer detects reads beyond the buffer. Heads with a valid CRC may have any values */
static void random_damage(void **state)
{
	(void)state;
	srandom(1);
	for (int i = 0; i < 1500; i++) {
		struct ekr_segment_head *head = (struct ekr_segment_head *)flash.cache[0];
		struct recovered r;
		struct error e;

		set_up(NULL);
		use(0, 1, 0, 11);
		for (long n = random() % 30; n > 0; n--)
			flash.cache[0][random() % (long)MEDIUM_SIZE] = (unsigned char)random();
		if (i % 2) {
			memset(flash.cache[0], 0, EKR_BLOCK);
			*head = (struct ekr_segment_head){
				.name = "arm",
				.channel_id = { 5 },
				.generation = (uint64_t)(random() % 3),
				.size = (uint64_t)(random() % 40) << (random() % 2 ? 12 : 40),
				.record_size = (uint32_t)(random() % 2 ? 100 : EKR_RECORD_MAX),
			};
			segment_seal_head(flash.cache[0]);
		}
		run_recover(&r, &e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_empty_recording, set_up),
		cmocka_unit_test_setup(the_last_record_is_found, set_up),
		cmocka_unit_test_setup(a_newest_segment_with_a_head_only, set_up),
		cmocka_unit_test_setup(recovery_continues_after_damage, set_up),
		cmocka_unit_test_setup(a_torn_last_batch_counts_up_to_the_tear, set_up),
		cmocka_unit_test_setup(invalid_heads_are_reported, set_up),
		cmocka_unit_test_setup(the_newest_segment_is_found_without_its_head, set_up),
		cmocka_unit_test_setup(an_unreadable_segment_may_have_had_any_generation, set_up),
		cmocka_unit_test_setup(segments_of_other_recordings_are_refused, set_up),
		cmocka_unit_test(only_the_end_of_a_long_segment_is_read),
		cmocka_unit_test(a_long_segment_with_damage),
		cmocka_unit_test_setup(random_damage, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
