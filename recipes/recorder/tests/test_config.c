// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"

static char dir[] = "/tmp/test-config-XXXXXX";

static const char *file(const char *name, const char *content)
{
	static char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(content, f);
	fclose(f);
	return path;
}

static int channel(const char *content, struct channel_config *c, struct error *e)
{
	return config_channel(file("arm.conf", content), c, e);
}

static void values_are_parsed(void **state)
{
	struct channel_config c;
	struct error e;

	(void)state;
	assert_int_equal(
		channel("# the arm\nrecord_size = 16KiB\nperiod = 5ms\nwindow = 200ms\nretain = 64MiB\n"
			"retain_time = 7d\nsegment = 1MiB\nwriteout = 256KiB\nbuffer = 2s\n"
			"ring = no\n",
			&c, &e),
		0);
	assert_string_equal(c.name, "arm");
	assert_int_equal(c.record_size, 16384);
	assert_int_equal(c.period_ns, 5000000);
	assert_int_equal(c.window_ns, 200000000);
	assert_int_equal(c.retain, 64 << 20);
	assert_int_equal(c.segment, 1 << 20);
	assert_int_equal(c.segments, 65);
	assert_int_equal(c.writeout, 256 << 10);
	/* 400 records with their headers */
	assert_int_equal(c.buffer, 400 * (16384 + 64));
	assert_false(c.ring);
}

static void defaults_are_consistent(void **state)
{
	static const char *const some[] = {
		"record_size = 1\nretain = 4096\n",
		"record_size = 1MiB\nretain = 1MiB\n",
		"record_size = 1MiB\nretain = 10GiB\nperiod = 5ms\n",
		"record_size = 100\nretain = 60GiB\nperiod = 1s\nwindow = 10ms\n",
		"record_size = 16KiB\nretain = 2GiB\nperiod = 5ms\nwindow = 1h\n",
		"record_size = 1\nretain = 1MiB\nperiod = 1us\nwindow = 1h\n",
	};
	struct channel_config c;
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		assert_int_equal(channel(some[i], &c, &e), 0);
		assert_true(c.segments >= 2 && c.segments <= SEGMENTS_MAX);
		assert_true(c.segment * (c.segments - 1) >= c.retain);
		assert_true(c.segment >= EKR_BLOCK + c.writeout);
		assert_true(c.writeout >= c.record_size + 64 && c.writeout <= EKR_BATCH_MAX);
		assert_true(c.buffer >= 3 * c.writeout);
		assert_int_equal(c.segment % EKR_BLOCK, 0);
		assert_int_equal(c.writeout % EKR_BLOCK, 0);
		assert_true(c.ring);
	}
}

static void errors_name_file_key_value_and_reason(void **state)
{
	static const struct {
		const char *content, *message;
	} some[] = {
		{ "retain = 1Q\n", "arm.conf: retain = 1Q: must be a size" },
		{ "period = 5\n", "arm.conf: period = 5: must be a time with a unit" },
		{ "window = 1ms\n", "arm.conf: window = 1ms: must be from 10ms to 1h" },
		{ "record_size = 2MiB\n", "arm.conf: record_size = 2MiB: must be from 1 to 1MiB" },
		{ "colour = red\n", "arm.conf: colour = red: unknown key" },
		{ "ring = maybe\n", "arm.conf: ring = maybe: must be yes or no" },
		{ "backend = direct\n", "arm.conf: backend = direct: unknown key" },
		{ "ring = no\nring = yes\n", "arm.conf: ring = yes: the key is given twice" },
		{ "[channel]\nring = no\n", "arm.conf: ring = no: sections are not supported" },
		{ "nonsense\n", "arm.conf: line 1 must be KEY = VALUE" },
		{ "ring = no\n\nnonsense\n", "arm.conf: line 3 must be" },
		{ "=\n", "arm.conf:  = : unknown key" },
		{ "retain = 1MiB\n", "arm.conf: record_size is missing" },
		{ "record_size = 1\n", "arm.conf: retain is missing" },
		{ "record_size = 1MiB\nretain = 1GiB\nsegment = 64KiB\n",
		  "arm.conf: segment: must be at least 1032KiB" },
		{ "period = 1ns\n", "arm.conf: period = 1ns: must be from 1us to 1d" },
		{ "retain = 1KB\n", "arm.conf: retain = 1KB: must be from 4KiB to 64TiB" },
		{ "retain_time = 1ms\n", "arm.conf: retain_time = 1ms: must be at least 1s" },
		{ "buffer = 0\n", "arm.conf: buffer = 0: must not be 0; remove the key" },
		{ "buffer = 0s\n", "arm.conf: buffer = 0s: must not be 0" },
		{ "buffer = much\n", "arm.conf: buffer = much: must be a size" },
		{ "ring = no\n  ring = yes\n", "arm.conf: ring = yes: the key is given twice" },
		{ "ring = no\n\n  nonsense\n", "arm.conf: line 3 must be KEY = VALUE" },
		{ "record_size = 1\nretain = 60GiB\nsegment = 1MiB\n",
		  "arm.conf: segment: too small, because retain would need" },
		{ "record_size = 1\nretain = 1MiB\nbuffer = 4s\n",
		  "arm.conf: buffer: a time needs a period" },
		{ "record_size = 1\nretain = 1MiB\nbuffer = 2GiB\n",
		  "arm.conf: buffer: must be at most 1 GiB" },
	};
	struct channel_config c;
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		assert_int_equal(channel(some[i].content, &c, &e), -EINVAL);
		if (!strstr(e.text, some[i].message))
			fail_msg("'%s' gives '%s' instead of '%s'", some[i].content, e.text,
				 some[i].message);
	}
	assert_int_equal(config_channel("/nonexistent/arm.conf", &c, &e), -ENOENT);
	assert_int_equal(config_channel(file("Arm.conf", "ring = no\n"), &c, &e), -EINVAL);
	assert_non_null(strstr(e.text, "must be named NAME.conf"));
}

static void whitespace_comments_and_line_ends(void **state)
{
	struct channel_config c;
	struct error e;
	char content[4096];

	(void)state;
	assert_int_equal(
		channel(" # whitespace before it\n\t\n  record_size = 1KB\n\tretain = 400KB\r\n"
			"   ; and no line end at the last\n \v\f segment=256KiB",
			&c, &e),
		0);
	assert_int_equal(c.record_size, 1000);
	assert_int_equal(c.retain, 400000);
	assert_int_equal(c.segment, 256 << 10);
	/* a comment longer than the line buffer; its remainder must not be parsed as a key */
	for (int length = 150; length < 3000; length++) {
		snprintf(content, sizeof(content),
			 "record_size = 1\n%s#%*s retain = 1GiB\nretain = 1MiB\n#%*s",
			 length % 2 ? "" : "  ", length, "nonsense", length, "x");
		assert_int_equal(channel(content, &c, &e), 0);
		assert_int_equal(c.retain, 1 << 20);
	}
	/* other lines that are too long are refused, not truncated */
	for (int length = 1; length < 1000; length++) {
		snprintf(content, sizeof(content), "record_size = 1\nretain =%*s\nring = no\n",
			 length, "8192");
		assert_int_equal(channel(content, &c, &e), length < 191 ? 0 : -EINVAL);
		if (e.code)
			assert_non_null(strstr(e.text, "arm.conf: line 2 is too long"));
		else
			assert_true(c.retain == 8192 && !c.ring);
	}
}

/* paths longer than a message: the message shows the end of the path, and the path itself is not truncated */
static void long_paths(void **state)
{
	char deep[PATH_MAX], path[PATH_MAX], too_long[PATH_MAX + 100];
	struct channel_config c;
	struct error e;
	FILE *f;

	(void)state;
	snprintf(deep, sizeof(deep), "%s/%0120d", dir, 0);
	assert_int_equal(mkdir(deep, 0700), 0);
	snprintf(deep + strlen(deep), sizeof(deep) - strlen(deep), "/%0120d", 0);
	assert_int_equal(mkdir(deep, 0700), 0);
	assert_int_equal(config_file(path, deep, "arm.conf", &e), 0);
	assert_int_equal(config_channel(path, &c, &e), -ENOENT);
	assert_non_null(strstr(e.text, "0/arm.conf: No such file or directory"));
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("retain = 1Q\n", f);
	fclose(f);
	assert_int_equal(config_channel(path, &c, &e), -EINVAL);
	assert_non_null(strstr(e.text, "0/arm.conf: retain = 1Q: must be a size"));
	assert_string_equal(c.name, "arm");
	unlink(path);
	rmdir(deep);
	*strrchr(deep, '/') = '\0';
	rmdir(deep);
	snprintf(too_long, sizeof(too_long), "/%0*d", PATH_MAX - 2, 0);
	assert_int_equal(config_file(path, too_long, "a", &e), -ENAMETOOLONG);
	assert_non_null(strstr(e.text, "File name too long"));
}

static void channel_names(void **state)
{
	(void)state;
	assert_true(about_name_ok("a"));
	assert_true(about_name_ok("0-arm"));
	assert_true(about_name_ok("abcdefghijklmnopqrstuvwxyz012345"));
	assert_false(about_name_ok("abcdefghijklmnopqrstuvwxyz0123456"));
	assert_false(about_name_ok(""));
	assert_false(about_name_ok("-a"));
	assert_false(about_name_ok("a/b"));
	assert_false(about_name_ok(".."));
	assert_false(about_name_ok("A"));
}

static void recorder_conf(void **state)
{
	struct recorder_config c;
	struct error e;

	(void)state;
	assert_int_equal(config_recorder("/nonexistent", &c, &e), -ENOENT);
	assert_string_equal(c.directory, "/recorder");
	assert_true(c.mountpoint);
	assert_int_equal(
		config_recorder(file("recorder.conf", "priority = 20\nmountpoint = no\ngroup =\n"),
				&c, &e),
		0);
	assert_int_equal(c.priority, 20);
	assert_false(c.mountpoint);
	assert_string_equal(c.group, "");
	assert_int_equal(config_recorder(file("recorder.conf", "priority = 99\n"), &c, &e),
			 -EINVAL);
	assert_int_equal(config_recorder(file("recorder.conf", "priority = -1\n"), &c, &e),
			 -EINVAL);
	assert_non_null(strstr(e.text, "priority = -1: must be a whole number"));
	assert_int_equal(config_recorder(file("recorder.conf", "priority = 99\n"), &c, &e),
			 -EINVAL);
	assert_non_null(strstr(e.text, "priority = 99: must be from 0 to 98"));
	assert_int_equal(config_recorder(dir, &c, &e), -EISDIR);
}

static void random_input_does_not_crash(void **state)
{
	static const char letters[] = "=\n[]#; abrecord_size=1MiB\nretain=9GiB\t\xff";
	struct channel_config c;
	struct error e;
	char noise[600];

	(void)state;
	srandom(1);
	for (int i = 0; i < 2000; i++) {
		size_t length = (size_t)random() % (sizeof(noise) - 1);

		for (size_t j = 0; j < length; j++)
			noise[j] = letters[(size_t)random() % (sizeof(letters) - 1)];
		noise[length] = '\0';
		if (channel(noise, &c, &e))
			assert_non_null(strstr(e.text, "arm.conf"));
	}
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const names_made[] = { "arm.conf", "Arm.conf", "recorder.conf" };
	char path[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names_made) / sizeof(*names_made); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names_made[i]);
		unlink(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_parsed),
		cmocka_unit_test(defaults_are_consistent),
		cmocka_unit_test(errors_name_file_key_value_and_reason),
		cmocka_unit_test(whitespace_comments_and_line_ends),
		cmocka_unit_test(long_paths),
		cmocka_unit_test(channel_names),
		cmocka_unit_test(recorder_conf),
		cmocka_unit_test(random_input_does_not_crash),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
