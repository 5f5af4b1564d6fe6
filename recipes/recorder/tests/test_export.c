// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "recording.h"

/* fails as on FAT for a user who did not mount it */
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode)
{
	(void)fd;
	(void)mode;
	errno = EPERM;
	return -1;
}

static void export_to_a_file_system_without_file_modes(void **state)
{
	struct recording rec;
	struct stat st;
	char channel[64], output[64];
	char *argv[] = { "export", "--output", output, channel, NULL };

	(void)state;
	recording_begin(&rec, 3, 64 << 10, 1000);
	recording_use(&rec);
	recording_add(&rec, 100);
	recording_flush(&rec);
	snprintf(channel, sizeof(channel), "./%s", rec.directory);
	snprintf(output, sizeof(output), "%s.csv", rec.directory);
	assert_int_equal(cmd_export(4, argv), 0);
	assert_int_equal(stat(output, &st), 0);
	assert_true(st.st_size > 100);
	assert_int_equal(unlink(output), 0);
	recording_end(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(export_to_a_file_system_without_file_modes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
