// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch.h"

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

static void records_are_read_back(void **state)
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
	/* bytes after the batch are unchanged */
	assert_int_equal(memory[bytes], 0xee);
}

static void sealing_again_replaces_the_generation(void **state)
{
	size_t used = fill(3);

	(void)state;
	batch_seal(memory, used, 1, 0);
	batch_seal(memory, used, 2, 5);
	assert_null(record_at(memory, MEMORY, 1, 200));
	assert_non_null(record_at(memory, MEMORY, 2, 200));
}

static void any_changed_bit_invalidates_a_record(void **state)
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

/* AddressSanitizer detects reads beyond the bytes that are there */
static void random_bytes_are_no_record(void **state)
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
		cmocka_unit_test(records_are_read_back),
		cmocka_unit_test(sealing_again_replaces_the_generation),
		cmocka_unit_test(any_changed_bit_invalidates_a_record),
		cmocka_unit_test(random_bytes_are_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
