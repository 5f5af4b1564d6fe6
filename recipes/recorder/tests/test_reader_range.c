// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reader.h"

#define NOW INT64_C(1790000000000000000)

static void times(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {
		{ "now", NOW },
		{ "-5min", NOW - 300 * INT64_C(1000000000) },
		{ "-0.5s", NOW - 500000000 },
		{ "1970-01-01T00:00:00Z", 0 },
		{ "1969-12-31T23:59:59.5Z", -500000000 },
		{ "2026-09-21T14:13:20Z", NOW },
		{ "2026-09-21 14:13:20.000000001z", NOW + 1 },
		{ "2026-09-21T16:13:20+02:00", NOW },
		{ "2026-09-21T08:43:20-05:30", NOW },
		{ "2024-02-29T00:00:00Z", INT64_C(1709164800000000000) },
		{ "2016-12-31T23:59:60Z", INT64_C(1483228800000000000) },
	};
	static const char *const bad[] = {
		"",
		"5min",
		"-",
		"-5",
		"-5parsecs",
		"yesterday",
		"2026-09-21",
		"2026-09-21T14:13:20",
		"2026-02-29T00:00:00Z",
		"2026-13-01T00:00:00Z",
		"2026-01-01T24:00:00Z",
		"2026-01-01T00:00:00Zx",
		"2026-01-01T00:00:00.Z",
		"9999-01-01T00:00:00Z",
		"2026-01-01T00:00:00+24:00",
		"boot",
		"boot+",
		"boot+5",
		"boot-5s",
	};
	struct reader_time t;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_null(reader_parse_time(good[i].text, NOW, &t));
		assert_true(t.set && !t.monotonic);
		assert_int_equal(t.ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_non_null(reader_parse_time(bad[i], NOW, &t));
	assert_null(reader_parse_time("boot+90s", NOW, &t));
	assert_true(t.set && t.monotonic);
	assert_int_equal(t.ns, 90 * INT64_C(1000000000));
}

static void formatted_times_are_parsed_back(void **state)
{
	static const int64_t all[] = {
		0, -1, 1, NOW, NOW + 123456789, INT64_MIN, INT64_MAX, -INT64_C(1000000000)
	};
	char text[READER_RFC3339];
	struct reader_time t;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		reader_format_time(all[i], text);
		assert_null(reader_parse_time(text, NOW, &t));
		assert_int_equal(t.ns, all[i]);
	}
	reader_format_time(NOW + 5, text);
	assert_string_equal(text, "2026-09-21T14:13:20.000000005Z");
}

static void sequences(void **state)
{
	static const struct {
		const char *text;
		uint64_t first, last;
	} good[] = {
		{ "3..9", 3, 9 },
		{ "3..", 3, UINT64_MAX },
		{ "..9", 0, 9 },
		{ "7", 7, 7 },
		{ "0..18446744073709551615", 0, UINT64_MAX },
	};
	static const char *const bad[] = { "",	    "..",    "9..3",
					   "a..b",  "1...2", "1..2x",
					   "-1..2", "1-2",   "18446744073709551616" };
	struct reader_range r;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_null(reader_parse_sequences(good[i].text, &r));
		assert_int_equal(r.first, good[i].first);
		assert_int_equal(r.last, good[i].last);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_non_null(reader_parse_sequences(bad[i], &r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times),
		cmocka_unit_test(formatted_times_are_parsed_back),
		cmocka_unit_test(sequences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
