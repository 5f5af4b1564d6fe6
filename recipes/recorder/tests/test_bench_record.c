// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"

static unsigned char record[16384 + 3];

static void is_known_again(void **state)
{
	struct bench_head head;

	(void)state;
	for (size_t length = BENCH_RECORD_MIN; length < 200; length++) {
		bench_fill(record, length, 7, length);
		assert_true(bench_holds(record, length, &head));
		assert_int_equal(head.run, 7);
		assert_int_equal(head.index, length);
	}
	assert_false(bench_holds(record, BENCH_RECORD_MIN - 1, &head));
}

/* also in the bytes that are no whole word */
static void each_bit_counts(void **state)
{
	struct bench_head head;

	(void)state;
	bench_fill(record, sizeof(record), 7, 1);
	for (size_t bit = 0; bit < 8 * sizeof(record); bit++) {
		record[bit / 8] ^= (unsigned char)(1u << bit % 8);
		if (bench_holds(record, sizeof(record), &head))
			fail_msg("bit %zu does not count", bit);
		record[bit / 8] ^= (unsigned char)(1u << bit % 8);
		/* all of each word, or it would take as long as the square of the length */
		if (bit == 8 * 256)
			bit = 8 * (sizeof(record) - 8) - 1;
	}
	assert_true(bench_holds(record, sizeof(record), &head));
}

static void half_of_another_is_none(void **state)
{
	static unsigned char other[sizeof(record)];
	struct bench_head head;

	(void)state;
	bench_fill(record, sizeof(record), 7, 1);
	bench_fill(other, sizeof(other), 7, 2);
	memcpy(record + 4096, other + 4096, 512);
	assert_false(bench_holds(record, sizeof(record), &head));
	bench_fill(record, sizeof(record), 7, 2);
	assert_true(bench_holds(record, sizeof(record), &head));
	bench_fill(other, sizeof(other), 8, 2);
	memcpy(record + 8192, other + 8192, 4096);
	assert_false(bench_holds(record, sizeof(record), &head));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_known_again),
		cmocka_unit_test(each_bit_counts),
		cmocka_unit_test(half_of_another_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
