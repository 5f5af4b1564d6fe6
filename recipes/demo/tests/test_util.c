// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util.h"

static void bytes_with_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "1K", 1024 },
		{ "100M", 104857600 },
		{ "4G", UINT64_C(4294967296) },
		{ "1kB", 1000 },
		{ "32MB", 32000000 },
		{ "2GB", 2000000000 },
		{ "9223372036854775807", INT64_MAX },
	};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(parse_bytes(good[i].text, &bytes));
		assert_int_equal(bytes, good[i].bytes);
	}
}

static void bytes_that_are_none(void **state)
{
	static const char *const bad[] = { "",	 " 1", "-1", "+1", "1 ",   "1m",  "1KB",
					   "1T", "M",  "x",  "0x10", "1.5M", "1MBs",
					   "9223372036854775808", "9007199254740992K",
					   "99999999999999999999" };
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse_bytes(bad[i], &bytes));
}

static void seconds(void **state)
{
	static const char *const bad[] = { "", "-1", "1s", "nan", "inf", "0x1", "1e3", "1000001",
					   "1.2.3", "." };
	uint64_t ns;

	(void)state;
	assert_true(parse_seconds("1", &ns));
	assert_int_equal(ns, NSEC_PER_SEC);
	assert_true(parse_seconds("0.25", &ns));
	assert_int_equal(ns, 250 * NSEC_PER_MSEC);
	assert_true(parse_seconds("0", &ns));
	assert_int_equal(ns, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse_seconds(bad[i], &ns));
}

static void stats_are_replaced_whole(void **state)
{
	char dir[] = "/tmp/ek-util-XXXXXX", path[64], temp[80], text[16] = "";
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s.json", dir);
	snprintf(temp, sizeof(temp), "%s.tmp", path);
	assert_int_equal(write_stats(path, "{\"a\":100}\n"), 0);
	assert_int_equal(write_stats(path, "{}\n"), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "{}\n");
	assert_int_equal(access(temp, F_OK), -1);

	assert_true(write_stats("/nonexistent/s.json", "{}") < 0);
	unlink(path);
	/* the target cannot be replaced: no temporary file stays behind */
	assert_true(write_stats(dir, "{}") < 0);
	snprintf(temp, sizeof(temp), "%s.tmp", dir);
	assert_int_equal(access(temp, F_OK), -1);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_with_units),
		cmocka_unit_test(bytes_that_are_none),
		cmocka_unit_test(seconds),
		cmocka_unit_test(stats_are_replaced_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
