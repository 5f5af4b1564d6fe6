// SPDX-License-Identifier: Apache-2.0
/* The public reading library, linked as a program of its users links it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ek_reader.h"
#include "recording.h"

#define SIZE   (16u * EKR_BLOCK)
#define RECORD 100u

static struct ek_event next(struct ek_reader *r)
{
	struct ek_event e;

	assert_int_equal(ek_reader_next(r, &e), 1);
	return e;
}

static void records_and_gaps_are_returned_in_order(void **state)
{
	unsigned char expected[RECORD];
	struct recording rec;
	struct ek_reader *r;
	struct ek_event e;

	(void)state;
	recording_begin(&rec, 3, SIZE, RECORD);
	recording_use(&rec);
	recording_add(&rec, RECORD);
	recording_gap(&rec, EKR_GAP_ABSENT, 4, 4);
	recording_add(&rec, 7);
	recording_flush(&rec);
	assert_int_equal(ek_reader_open(&r, rec.directory, NULL), 0);
	e = next(r);
	assert_int_equal(e.kind, EK_RECORD);
	assert_int_equal(e.length, RECORD);
	recording_payload(0, expected, RECORD);
	assert_memory_equal(e.payload, expected, RECORD);
	assert_int_equal(e.realtime_ns, RECORDING_START);
	assert_int_equal(e.acquired_ns, e.monotonic_ns - 1000);
	e = next(r);
	assert_int_equal(e.kind, EK_GAP);
	assert_int_equal(e.lost, 4);
	assert_int_equal(e.first, 1);
	assert_int_equal(e.sequence, 4);
	assert_string_equal(ek_reader_gap_name(e.gap_reason), "absent");
	assert_non_null(strstr(e.message, "4 records lost"));
	e = next(r);
	assert_int_equal(e.kind, EK_RECORD);
	assert_int_equal(e.sequence, 5);
	assert_int_equal(ek_reader_next(r, &e), 0);
	assert_int_equal(ek_reader_next(r, &e), 0);
	ek_reader_close(r);
	recording_end(&rec);
}

static void ranges_and_errors(void **state)
{
	struct ek_reader_options o = { .size = sizeof(o), .sequences = "1..1" };
	struct recording rec;
	struct ek_reader *r;
	struct ek_event e;

	(void)state;
	recording_begin(&rec, 3, SIZE, RECORD);
	recording_use(&rec);
	for (int i = 0; i < 3; i++)
		recording_add(&rec, RECORD);
	recording_flush(&rec);
	assert_int_equal(ek_reader_open(&r, rec.directory, &o), 0);
	assert_int_equal(next(r).sequence, 1);
	assert_int_equal(ek_reader_next(r, &e), 0);
	ek_reader_close(r);
	o.sequences = "x";
	assert_int_equal(ek_reader_open(&r, rec.directory, &o), -EINVAL);
	assert_string_equal(ek_reader_error(r),
			    "sequences = 'x': is not a range: use A..B, A.., ..B or A");
	assert_int_equal(ek_reader_next(r, &e), -EINVAL);
	ek_reader_close(r);
	o = (struct ek_reader_options){ 0 };
	assert_int_equal(ek_reader_open(&r, rec.directory, &o), -EINVAL);
	ek_reader_close(r);
	assert_int_equal(ek_reader_open(&r, "/nonexistent", NULL), -ENOENT);
	assert_non_null(strstr(ek_reader_error(r), "/nonexistent"));
	ek_reader_close(r);
	assert_int_equal(ek_reader_open(&r, "/tmp", NULL), -ENODATA);
	ek_reader_close(r);
	ek_reader_close(NULL);
	recording_end(&rec);
}

static void following_waits_until_something_is_written(void **state)
{
	const struct ek_reader_options o = { .size = sizeof(o), .follow = 1, .from_end = 1 };
	struct recording rec;
	struct ek_reader *r;
	struct ek_event e;

	(void)state;
	recording_begin(&rec, 3, SIZE, RECORD);
	recording_use(&rec);
	recording_add(&rec, RECORD);
	recording_flush(&rec);
	assert_int_equal(ek_reader_open(&r, rec.directory, &o), 0);
	assert_int_equal(ek_reader_next(r, &e), 0);
	assert_int_equal(ek_reader_wait(r, 20), 0);
	recording_add(&rec, RECORD);
	recording_flush(&rec);
	assert_int_equal(ek_reader_wait(r, 10000), 1);
	assert_int_equal(next(r).sequence, 1);
	assert_int_equal(ek_reader_next(r, &e), 0);
	ek_reader_close(r);
	recording_end(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_and_gaps_are_returned_in_order),
		cmocka_unit_test(ranges_and_errors),
		cmocka_unit_test(following_waits_until_something_is_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
