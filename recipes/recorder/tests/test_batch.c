// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch.h"

#define ROOM (4 * EKR_BLOCK)

static unsigned char memory[ROOM] __attribute__((aligned(EKR_BLOCK)));

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

static void each_record_comes_back(void **state)
{
	size_t used = fill(50), at = 0, bytes = batch_seal(memory, used, 9, 3);

	(void)state;
	assert_int_equal(bytes % EKR_BLOCK, 0);
	assert_true(bytes >= used && bytes - used < EKR_BLOCK);
	for (unsigned int i = 0; i < 50; i++) {
		const struct ekr_record_head *head = record_at(memory + at, bytes - at, 9, 200);

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
	/* beyond: untouched */
	assert_int_equal(memory[bytes], 0xee);
}

static void sealed_anew_it_is_of_the_other_generation_only(void **state)
{
	size_t used = fill(3);

	(void)state;
	batch_seal(memory, used, 1, 0);
	batch_seal(memory, used, 2, 5);
	assert_null(record_at(memory, ROOM, 1, 200));
	assert_non_null(record_at(memory, ROOM, 2, 200));
}

/* any changed bit of head or payload makes it invalid */
static void each_bit_counts(void **state)
{
	const struct record r = { .payload = "0123456789", .length = 10 };
	size_t used = batch_append(memory, &r);

	(void)state;
	batch_seal(memory, used, 1, 0);
	for (size_t bit = 0; bit < (sizeof(struct ekr_record_head) + 10) * 8; bit++) {
		memory[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_null(record_at(memory, used, 1, 4000));
		memory[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	assert_non_null(record_at(memory, used, 1, 10));
	assert_null(record_at(memory, used, 1, 9));
	assert_null(record_at(memory, used - 8, 1, 10));
}

/* ASan sees a step beyond what is there */
static void noise_is_no_record(void **state)
{
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
		assert_null(record_at(bytes, left, 1, UINT32_MAX));
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_record_comes_back),
		cmocka_unit_test(sealed_anew_it_is_of_the_other_generation_only),
		cmocka_unit_test(each_bit_counts),
		cmocka_unit_test(noise_is_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
