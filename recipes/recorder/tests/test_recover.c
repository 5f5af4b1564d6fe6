// SPDX-License-Identifier: Apache-2.0
/* What is found in damaged segments; power cuts are test_store.c's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch.h"
#include "medium.h"
#include "segment.h"

static struct test_medium flash;
static struct recovered_segment segments[MEDIUM_SEGMENTS];
static unsigned char scratch[RECOVER_BUFFER] __attribute__((aligned(EKR_BLOCK)));
static const uint8_t id[16] = { 5 };

/* a use with @batches batches of one block, 20 records each, numbered from @first */
static void use(unsigned int i, uint64_t generation, uint64_t first, unsigned int batches)
{
	struct ekr_segment_head *head = (struct ekr_segment_head *)flash.cache[i];
	uint64_t sequence = first;

	head->generation = generation;
	head->first_sequence = first;
	segment_seal_head(flash.cache[i]);
	for (unsigned int b = 0; b < batches; b++) {
		unsigned char *at = flash.cache[i] + (1 + b) * EKR_BLOCK;
		size_t used = 0;

		for (int n = 0; n < 20; n++) {
			const struct record r = { .sequence = sequence++,
						  .length = 100,
						  .payload = scratch };

			used += batch_append(at + used, &r);
		}
		batch_seal(at, used, generation, b);
	}
}

static int look(struct recovered *r, struct error *e)
{
	struct medium medium = test_medium_read(&flash);

	for (uint32_t i = 0; i < MEDIUM_SEGMENTS; i++)
		segments[i].index = i;
	*r = (struct recovered){ .segments = segments, .count = MEDIUM_SEGMENTS };
	return recover(&medium, "arm", r, scratch, e);
}

static struct recovered found(void)
{
	struct recovered r;
	struct error e;

	assert_int_equal(look(&r, &e), 0);
	return r;
}

static int set_up(void **state)
{
	(void)state;
	test_medium_make(&flash, "arm", id);
	return 0;
}

static void nothing_was_recorded(void **state)
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

static void only_a_head(void **state)
{
	struct recovered r;

	(void)state;
	use(1, 6, 0, 5);
	use(2, 7, 60, 0);
	r = found();
	/* what an earlier use holds from 60 on is void */
	assert_int_equal(r.last_sequence, 59);
	assert_int_equal(r.next_sequence, 60);
	assert_true(r.only_restarts);
}

static void behind_damage_it_goes_on(void **state)
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
	/* of the cached backend it may be what the power cut left */
	((struct ekr_segment_head *)flash.cache[0])->flags = EKR_SEGMENT_CACHED;
	segment_seal_head(flash.cache[0]);
	r = found();
	assert_in_range(r.last_sequence, 40, 59);
	assert_false(r.damaged);
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

static void a_head_that_is_none_is_told(void **state)
{
	struct recovered r;

	(void)state;
	use(0, 1, 0, 3);
	use(1, 2, 60, 3);
	flash.cache[1][80] ^= 1;
	flash.unreadable[3] = true;
	memcpy(flash.cache[4], flash.cache[0], EKR_BLOCK);
	r = found();
	assert_int_equal(r.last_sequence, 59);
	assert_string_equal(segments[1].problem, "bad CRC");
	assert_string_equal(segments[3].problem, "cannot be read");
	assert_string_equal(segments[4].problem, "another file's index");
	assert_null(segments[2].problem);
}

static void what_is_not_ours_is_refused(void **state)
{
	struct ekr_segment_head *head = (struct ekr_segment_head *)flash.cache[3];
	struct recovered r;
	struct error e;

	(void)state;
	use(0, 1, 0, 3);
	head->channel_id[0] ^= 1;
	segment_seal_head(flash.cache[3]);
	assert_int_equal(look(&r, &e), -EINVAL);
	assert_string_equal(e.text, "segment 00000003.seg is of another recording; take it away");
	head->channel_id[0] ^= 1;
	head->name[0] = 'x';
	segment_seal_head(flash.cache[3]);
	assert_int_equal(look(&r, &e), -EINVAL);
	assert_string_equal(e.text, "segment 00000003.seg is of channel 'xrm'; take it away");
}

/* ASan sees a step beyond the buffer; a sealed head may say anything */
static void noise(void **state)
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
		look(&r, &e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_was_recorded, set_up),
		cmocka_unit_test_setup(the_last_record_is_found, set_up),
		cmocka_unit_test_setup(only_a_head, set_up),
		cmocka_unit_test_setup(behind_damage_it_goes_on, set_up),
		cmocka_unit_test_setup(a_torn_last_batch_counts_up_to_the_tear, set_up),
		cmocka_unit_test_setup(a_head_that_is_none_is_told, set_up),
		cmocka_unit_test_setup(what_is_not_ours_is_refused, set_up),
		cmocka_unit_test_setup(noise, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
