// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../src/units.h"

struct good {
	const char *text;
	uint64_t value;
};

static void sizes(void **state)
{
	static const struct good good[] = {
		{ "0", 0 },
		{ "16384", 16384 },
		{ "16KiB", 16384 },
		{ "16 KiB", 16384 },
		{ "2MiB", 2097152 },
		{ "1.5M", 1572864 },
		{ "100MB", 100000000 },
		{ "1kB", 1000 },
		{ "400KB", 400000 },
		{ "7B", 7 },
		{ "1T", UINT64_C(1) << 40 },
		{ "0.1K", 102 }, /* rounded down */
		{ "16k", 16384 },
		{ "4G", UINT64_C(4294967296) },
		{ "41.9MB", 41900000 },
		{ "0.698MB", 698000 },
		{ "9223372036854775807", INT64_MAX },
	};
	static const char *const bad[] = {
		"",
		"-1",
		"+1",
		"x",
		"1.",
		".5M",
		"1m",
		"1Mi",
		"1 M B",
		"M",
		"0x10",
		"1e3",
		"1KiB ",
		" 1",
		"9223372036854775808",
		"99999999T",
		"1.5.5M",
		"5ms",
		"1000000000000000000.1",
		"1 ",
		"1.5",
		"1.M",
		"1Kb",
		"1kb",
		"1MBs",
		"9007199254740992K",
		"99999999999999999999",
		"9999999999999999999G",
		"0.00000000000000000001M",
	};
	uint64_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(parse_bytes(good[i].text, &n));
		assert_int_equal(n, good[i].value);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(parse_bytes(bad[i], &n));
}

static void times(void **state)
{
	static const struct good good[] = {
		{ "0", 0 },
		{ "5ms", 5000000 },
		{ "0.5 ms", 500000 },
		{ "200us", 200000 },
		{ "10ns", 10 },
		{ "2s", 2000000000 },
		{ "3min", UINT64_C(180000000000) },
		{ "1h", UINT64_C(3600000000000) },
		{ "7d", UINT64_C(604800000000000) },
	};
	static const char *const bad[] = { "",	      "5",   "5 m",  "-5ms",  "5MS", "5msec",
					   "200000d", "nan", "1.ms", "0.5ns", "0.5" };
	uint64_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(parse_duration(good[i].text, &n));
		assert_int_equal(n, good[i].value);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(parse_duration(bad[i], &n));
}

static void seconds_without_a_unit(void **state)
{
	static const char *const bad[] = { "",	  "-1",	   "1m", "inf", "0x1",
					   "1e3", "1.2.3", ".",	 "1 ",	"9999999999999999999" };
	static const struct good good[] = {
		{ "0", 0 },
		{ "1", UINT64_C(1000000000) },
		{ "0.25", 250000000 },
		{ "2s", UINT64_C(2000000000) },
		{ "300us", 300000 },
	};
	uint64_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(parse_seconds(good[i].text, &n));
		assert_int_equal(n, good[i].value);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(parse_seconds(bad[i], &n));
}

static void numbers(void **state)
{
	static const char *const bad[] = {
		"", "-1", "1K", "1.0", " 1", "1 ", "9223372036854775808"
	};
	uint64_t n;

	(void)state;
	assert_true(parse_number("100000000", &n));
	assert_int_equal(n, 100000000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(parse_number(bad[i], &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(times),
		cmocka_unit_test(seconds_without_a_unit),
		cmocka_unit_test(numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
