// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "access.h"

#define NOBODY 65534u
#define READER 12345u

static void only_root_the_recorder_and_members_may_write(void **state)
{
	const struct channel_config arm = { .write_gid = 7 },
				    none = { .write_gid = CONFIG_NO_GROUP },
				    all = { .write_gid = CONFIG_NO_GROUP, .write_all = true };
	struct access a = { .uid = 1000, .groups = { 5, 7 }, .count = 2 };

	(void)state;
	assert_true(access_may_write(&a, &arm));
	assert_false(access_may_write(&a, &none));
	assert_true(access_may_write(&a, &all));
	a.count = 1;
	assert_false(access_may_write(&a, &arm));
	/* what could not be read gives no right, and is not taken for CONFIG_NO_GROUP */
	a.groups[0] = CONFIG_NO_GROUP;
	assert_false(access_may_write(&a, &none));
	a.uid = 0;
	assert_true(access_may_write(&a, &none));
	a.uid = geteuid();
	assert_true(access_may_write(&a, &none));
}

static bool as(unsigned int uid, unsigned int gid, bool (*what)(const char *), const char *path)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid) ?
			      2 :
		      what(path) ? 0 :
				   1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return !WEXITSTATUS(status);
}

static bool apply(const char *path)
{
	const struct channel_config c = { .read_gid = READER, .read_group = "readers" };
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	struct error e;

	return fd >= 0 && !access_apply(fd, &c, &e);
}

static bool apply_none(const char *path)
{
	const struct channel_config c = { .read_gid = CONFIG_NO_GROUP };
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	struct error e;

	return fd >= 0 && !access_apply(fd, &c, &e);
}

static bool list(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);

	return fd >= 0 && !access(path, R_OK | X_OK);
}

/* as on a board: the recorder owns the directory, has no privileges, and is no member of the group */
static void an_owner_that_is_no_member_uses_an_access_list(void **state)
{
	char path[] = "/tmp/access-XXXXXX";

	(void)state;
	if (geteuid())
		skip();
	assert_non_null(mkdtemp(path));
	assert_int_equal(chown(path, NOBODY, NOBODY), 0);
	assert_true(as(NOBODY, NOBODY, apply, path));
	assert_true(as(1000, READER, list, path));
	assert_false(as(1000, 1000, list, path));
	assert_false(as(1000, NOBODY, list, path));
	/* no right of an earlier configuration is left */
	assert_true(as(NOBODY, NOBODY, apply_none, path));
	assert_false(as(1000, READER, list, path));
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_root_the_recorder_and_members_may_write),
		cmocka_unit_test(an_owner_that_is_no_member_uses_an_access_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
