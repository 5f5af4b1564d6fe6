// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../src/hist.h"
#include "util.h"

static void buckets_tile_all_numbers(void **state)
{
	uint64_t next = 0;

	(void)state;
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		uint64_t upper = hist_upper(i);

		assert_true(upper >= next);
		assert_int_equal(hist_bucket(next), i);
		assert_int_equal(hist_bucket(upper), i);
		/* the width of a bucket is at most 1/32 of its smallest value */
		assert_true(upper - next <= next >> HIST_BITS);
		next = upper + 1;
	}
	assert_int_equal(next, 0); /* the last bucket ends at 2^64 - 1 */
}

static void empty_is_zero(void **state)
{
	static struct hist h, empty;

	(void)state;
	assert_int_equal(hist_percentile(&h, 5000), 0);
	assert_int_equal(hist_mean(&h), 0);
	hist_merge(&h, &empty);
	assert_int_equal(h.count, 0);
	hist_add(&h, 7);
	hist_merge(&h, &empty);
	assert_int_equal(h.min, 7);
	assert_int_equal(h.max, 7);
	assert_int_equal(hist_percentile(&h, 0), 7);
	assert_int_equal(hist_percentile(&h, 10000), 7);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Compares the percentiles of a histogram with those of the sorted values. Half of the values
 * go into a second histogram, which is then merged into the first.
 */
static void one_random_set(uint64_t seed)
{
	static const unsigned int asked[] = { 1, 100, 2500, 5000, 9000, 9900, 9990, 9999, 10000 };
	static struct hist h, other;
	uint64_t values[3000], last = 0, rng = noise_seed(seed);
	unsigned int n, spread;

	memset(&h, 0, sizeof(h));
	memset(&other, 0, sizeof(other));
	n = 1 + (unsigned int)(noise_next(&rng) % 3000);
	spread = 1 + (unsigned int)(noise_next(&rng) % 56);
	for (unsigned int i = 0; i < n; i++) {
		/* values up to 2^56; each number of bits is equally likely */
		values[i] = noise_next(&rng) >> (64 - spread) >> (noise_next(&rng) % spread);
		hist_add(i % 2 ? &other : &h, values[i]);
	}
	hist_merge(&h, &other);
	qsort(values, n, sizeof(*values), compare);
	assert_int_equal(h.count, n);
	assert_int_equal(h.min, values[0]);
	assert_int_equal(h.max, values[n - 1]);
	for (unsigned int i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		unsigned int rank = (n * asked[i] + 9999) / 10000;
		uint64_t exact = values[rank ? rank - 1 : 0];
		uint64_t got = hist_percentile(&h, asked[i]);

		if (got < exact || got - exact > exact >> HIST_BITS || got < last)
			fail_msg("seed %llu: percentile %u of %u is %llu, not %llu",
				 (unsigned long long)seed, asked[i], n, (unsigned long long)got,
				 (unsigned long long)exact);
		last = got;
	}
}

static void random_sets(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 400; seed++)
		one_random_set(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_tile_all_numbers),
		cmocka_unit_test(empty_is_zero),
		cmocka_unit_test(random_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
