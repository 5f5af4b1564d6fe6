// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch.h"
#include "segment.h"

#define MEMORY (4 * EKR_BLOCK)

static unsigned char memory[MEMORY] __attribute__((aligned(EKR_BLOCK)));

static size_t fill(unsigned int records)
{
	unsigned char payload[200];
	size_t used = 0;

	memset(memory, 0xee, sizeof(memory));
	for (unsigned int i = 0; i < records; i++) {
		const struct record r = {
			.sequence = i, .monotonic_ns = 7, .payload = payload, .length = i
		};

		memset(payload, (int)i, sizeof(payload));
		used += batch_append(memory + used, &r);
	}
	return used;
}

static const struct record_use use = { .generation = 9, .seed = 77, .record_size = 200 };

static void records_are_read_back(void **state)
{
	size_t used = fill(50), at = 0, bytes = batch_seal(memory, used, &use, 3);

	(void)state;
	assert_int_equal(bytes % EKR_BLOCK, 0);
	assert_true(bytes >= used && bytes - used < EKR_BLOCK);
	for (unsigned int i = 0; i < 50; i++) {
		const struct ekr_record_head *head = record_at(memory + at, bytes - at, &use);

		assert_non_null(head);
		assert_int_equal(at % 8, 0);
		assert_int_equal(head->sequence, i);
		assert_int_equal(head->length, i);
		assert_int_equal(head->batch, 3);
		for (unsigned int j = 0; j < i; j++)
			assert_int_equal(((const unsigned char *)(head + 1))[j], i);
		at += record_bytes(head->length);
	}
	assert_int_equal(at, used);
	for (; at < bytes; at++)
		assert_int_equal(memory[at], 0);
	/* bytes after the batch are unchanged */
	assert_int_equal(memory[bytes], 0xee);
}

static void sealing_again_replaces_the_generation(void **state)
{
	const struct record_use first = { .generation = 1, .record_size = 200 },
				second = { .generation = 2, .record_size = 200 };
	size_t used = fill(3);

	(void)state;
	batch_seal(memory, used, &first, 0);
	batch_seal(memory, used, &second, 5);
	assert_null(record_at(memory, MEMORY, &first));
	assert_non_null(record_at(memory, MEMORY, &second));
}

/* the CRC begins with that of the channel's id and the segment's index */
static void a_block_of_another_channel_or_segment_is_invalid(void **state)
{
	const struct ekr_segment_head arm = {
		.channel_id = { 1 }, .index = 3, .generation = 7, .record_size = 200
	};
	struct ekr_segment_head other = arm;
	struct record_use of = segment_use(&arm);
	size_t used = fill(3);

	(void)state;
	batch_seal(memory, used, &of, 0);
	assert_non_null(record_at(memory, MEMORY, &of));
	other.channel_id[15] = 1;
	of = segment_use(&other);
	assert_null(record_at(memory, MEMORY, &of));
	other = arm;
	other.index = 4;
	of = segment_use(&other);
	assert_null(record_at(memory, MEMORY, &of));
}

static void both_times_of_a_record_are_there(void **state)
{
	const struct record r = { .monotonic_ns = 90, .realtime_ns = -3, .acquired_ns = 50 };
	const struct ekr_record_head *head;

	(void)state;
	batch_seal(memory, batch_append(memory, &r), &use, 0);
	head = record_at(memory, MEMORY, &use);
	assert_non_null(head);
	assert_int_equal(head->monotonic_ns, 90);
	assert_int_equal(head->realtime_ns, -3);
	assert_int_equal(head->acquired_ns, 50);
}

static void any_changed_bit_invalidates_a_record(void **state)
{
	const struct record r = { .payload = "0123456789", .length = 10 };
	const struct record_use large = { .generation = 9, .record_size = 4000 };
	const struct record_use ten = { .generation = 9, .record_size = 10 },
				nine = { .generation = 9, .record_size = 9 };
	size_t used = batch_append(memory, &r);

	(void)state;
	batch_seal(memory, used, &large, 0);
	for (size_t bit = 0; bit < (sizeof(struct ekr_record_head) + 10) * 8; bit++) {
		memory[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_null(record_at(memory, used, &large));
		memory[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	assert_non_null(record_at(memory, used, &ten));
	assert_null(record_at(memory, used, &nine));
	assert_null(record_at(memory, used - 8, &ten));
}

/* AddressSanitizer detects reads beyond the bytes that are there */
static void random_bytes_are_no_record(void **state)
{
	const struct record_use any = { .generation = 1, .record_size = UINT32_MAX };

	(void)state;
	srandom(1);
	for (int i = 0; i < 20000; i++) {
		size_t left = (size_t)random() % 300;
		unsigned char *bytes = malloc(left + 1);
		struct ekr_record_head head = {
			.magic = EKR_RECORD_MAGIC,
			.generation = 1,
			.length = random() % 3 ? (uint32_t)random() % 300 : (uint32_t)random() * 2u,
		};

		memset(bytes, 0, left + 1);
		memcpy(bytes, &head, left < sizeof(head) ? left : sizeof(head));
		assert_null(record_at(bytes, left, &any));
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_read_back),
		cmocka_unit_test(sealing_again_replaces_the_generation),
		cmocka_unit_test(a_block_of_another_channel_or_segment_is_invalid),
		cmocka_unit_test(both_times_of_a_record_are_there),
		cmocka_unit_test(any_changed_bit_invalidates_a_record),
		cmocka_unit_test(random_bytes_are_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
