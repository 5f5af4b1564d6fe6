// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "csv.h"

static void assert_line(enum csv_payload payload, const struct reader_event *e, const char *want)
{
	char *line = NULL;
	size_t length;
	FILE *to = open_memstream(&line, &length);

	assert_non_null(to);
	assert_int_equal(csv_event(to, payload, e), 0);
	fclose(to);
	assert_string_equal(line, want);
	free(line);
}

static void records(void **state)
{
	static const unsigned char payload[] = "a,\"b\"\\\n\t\xc3\xa9\xff\x01\x7f\xed\xa0\x80";
	const struct reader_event e = {
		.kind = READER_RECORD,
		.sequence = 7,
		.realtime_ns = INT64_C(1790000000000000005),
		.monotonic_ns = 42,
		.acquired_ns = 40,
		.payload = payload,
		.length = sizeof(payload) - 1,
	};

	(void)state;
	assert_line(CSV_NONE, &e, "record,7,2026-09-21T14:13:20.000000005Z,42,40,16,\n");
	assert_line(
		CSV_HEX, &e,
		"record,7,2026-09-21T14:13:20.000000005Z,42,40,16,612c2262225c0a09c3a9ff017feda080\n");
	assert_line(CSV_TEXT, &e,
		    "record,7,2026-09-21T14:13:20.000000005Z,42,40,16,"
		    "\"a,\"\"b\"\"\\\\\n\t\xc3\xa9\\xff\\x01\\x7f\\xed\\xa0\\x80\"\n");
}

static void gaps_missing_records_and_damage(void **state)
{
	struct reader_event e = {
		.kind = READER_GAP,
		.sequence = 9,
		.first = 5,
		.gap = { .reason = EKR_GAP_OVERRUN, .count_lost = 5 },
	};

	(void)state;
	assert_line(CSV_TEXT, &e, "gap,9,1970-01-01T00:00:00.000000000Z,0,,5,overrun\n");
	e.gap.count_lost = 0;
	assert_line(CSV_TEXT, &e, "gap,9,1970-01-01T00:00:00.000000000Z,0,,,overrun\n");
	e = (struct reader_event){ .kind = READER_MISSING, .first = 3, .sequence = 4 };
	assert_line(CSV_TEXT, &e, "missing,4,,,,2,\"\"\n");
	e = (struct reader_event){
		.kind = READER_DAMAGE, .file = "00000001.seg", .offset = 8192, .reason = "bad CRC"
	};
	assert_line(CSV_TEXT, &e, "damage,,,,,,\"00000001.seg at 8192: bad CRC\"\n");
}

static void a_full_output_is_an_error(void **state)
{
	const struct reader_event e = { .kind = READER_MISSING };
	FILE *full = fopen("/dev/full", "w");
	int err = 0;

	(void)state;
	assert_non_null(full);
	for (int i = 0; i < 10000 && !err; i++)
		err = csv_event(full, CSV_NONE, &e);
	assert_int_equal(err, -ENOSPC);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records),
		cmocka_unit_test(gaps_missing_records_and_damage),
		cmocka_unit_test(a_full_output_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
