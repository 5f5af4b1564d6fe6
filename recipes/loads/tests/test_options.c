// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "options.h"

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
		{ "16k", 16384 },
		{ "41.9MB", 41900000 },
		{ "1.5M", 1572864 },
		{ "0.698MB", 698000 },
		{ "0.1K", 102 }, /* rounded down */
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
	static const char *const bad[] = {
		"",
		" 1",
		"-1",
		"+1",
		"1 ",
		"1m",
		"1KB",
		"1T",
		"M",
		"x",
		"0x10",
		"1.5",
		"1.M",
		".5M",
		"1.5.5M",
		"1MBs",
		"9223372036854775808",
		"9007199254740992K",
		"99999999999999999999",
		"9999999999999999999G",
		"0.00000000000000000001M",
	};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse_bytes(bad[i], &bytes));
}

static void times(void **state)
{
	static const char *const bad[] = {
		"",	   "-1",    "1m", "nan", "inf", "0x1",	    "1e3",
		"1000001", "1.2.3", ".",  "1ns", "1 s", "1000001s", "1000000000001us",
	};
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "0", 0 },
		{ "1", UINT64_C(1000000000) },
		{ "0.25", 250000000 },
		{ "2s", UINT64_C(2000000000) },
		{ "5ms", 5000000 },
		{ "0.5ms", 500000 },
		{ "300us", 300000 },
		{ "1000000", UINT64_C(1000000000000000) },
	};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(parse_time(good[i].text, &ns));
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse_time(bad[i], &ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_with_units),
		cmocka_unit_test(bytes_that_are_none),
		cmocka_unit_test(times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
