// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"

static unsigned char record[16384 + 3];

static void records_are_recognized(void **state)
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

/* also in trailing bytes that do not fill a word */
static void any_changed_bit_is_detected(void **state)
{
	struct bench_head head;

	(void)state;
	bench_fill(record, sizeof(record), 7, 1);
	for (size_t bit = 0; bit < 8 * sizeof(record); bit++) {
		record[bit / 8] ^= (unsigned char)(1u << bit % 8);
		if (bench_holds(record, sizeof(record), &head))
			fail_msg("a change of bit %zu is not detected", bit);
		record[bit / 8] ^= (unsigned char)(1u << bit % 8);
		/* only the first and last bytes: all of them would take quadratic time */
		if (bit == 8 * 256)
			bit = 8 * (sizeof(record) - 8) - 1;
	}
	assert_true(bench_holds(record, sizeof(record), &head));
}

static void a_mix_of_two_records_is_detected(void **state)
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
		cmocka_unit_test(records_are_recognized),
		cmocka_unit_test(any_changed_bit_is_detected),
		cmocka_unit_test(a_mix_of_two_records_is_detected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
