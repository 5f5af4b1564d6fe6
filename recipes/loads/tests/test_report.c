// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "report.h"

static void readers_never_see_half_a_file(void **state)
{
	char dir[] = "/tmp/ek-util-XXXXXX", path[64], temp[80], text[16] = "";
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s.json", dir);
	snprintf(temp, sizeof(temp), "%s.tmp", path);
	assert_int_equal(replace_file(path, "{\"a\":100}\n"), 0);
	assert_int_equal(replace_file(path, "{}\n"), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "{}\n");
	assert_int_equal(access(temp, F_OK), -1);

	assert_true(replace_file("/nonexistent/s.json", "{}") < 0);
	unlink(path);
	/* a folder cannot be replaced by a file; the temporary file must then be removed */
	assert_true(replace_file(dir, "{}") < 0);
	snprintf(temp, sizeof(temp), "%s.tmp", dir);
	assert_int_equal(access(temp, F_OK), -1);
	rmdir(dir);
}

static void one_report_a_second(void **state)
{
	struct report r;

	(void)state;
	report_begin(&r, NULL, "", 500);
	assert_false(report_due(&r, UINT64_C(1000000499)));
	assert_true(report_due(&r, UINT64_C(1000000500)));
	assert_false(report_due(&r, UINT64_C(1000000500)));
	/* after a pause of 8 s one report is due, not eight */
	assert_true(report_due(&r, UINT64_C(9000000000)));
	assert_false(report_due(&r, UINT64_C(9000000001)));
	assert_true(report_due(&r, UINT64_C(9000000500)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_never_see_half_a_file),
		cmocka_unit_test(one_report_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
