// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hist.h"

/* each value is in the first bucket whose upper bound is not below it */
static void buckets_cover_all_times_without_overlap(void **state)
{
	(void)state;
	for (unsigned int i = 0; i + 1 < HIST_BUCKETS; i++) {
		assert_int_equal(hist_bucket(hist_upper(i)), i);
		assert_int_equal(hist_bucket(hist_upper(i) + 1), i + 1);
	}
	assert_int_equal(hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
	assert_int_equal(hist_bucket(8), 8);
	assert_int_equal(hist_bucket(1000), 63);
}

static void percentiles(void **state)
{
	static struct hist h;

	(void)state;
	memset(&h, 0, sizeof(h));
	assert_int_equal(hist_percentile(&h, 9900), 0);
	for (unsigned int us = 1; us <= 1000; us++)
		hist_add(&h, us * 1000 + 999);
	assert_int_equal(h.count, 1000);
	assert_int_equal(h.max_us, 1000);
	/* at most 1/8 above the exact value, never below it */
	assert_in_range(hist_percentile(&h, 5000), 500, 563);
	assert_in_range(hist_percentile(&h, 9900), 990, 1000);
	assert_int_equal(hist_percentile(&h, 10000), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_cover_all_times_without_overlap),
		cmocka_unit_test(percentiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
