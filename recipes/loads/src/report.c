// SPDX-License-Identifier: Apache-2.0
/* Writes a program's counters to a file, once a second. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

int replace_file(const char *path, const char *text)
{
	char temp[PATH_MAX];
	size_t len = strlen(text);
	ssize_t n;
	int fd, err = 0;

	if ((size_t)snprintf(temp, sizeof(temp), "%s.tmp", path) >= sizeof(temp))
		return -ENAMETOOLONG;
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	if (n < 0)
		err = -errno;
	else if ((size_t)n < len)
		err = -ENOSPC;
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(temp, path))
		err = -errno;
	if (err)
		unlink(temp);
	return err;
}

void report_begin(struct report *r, const char *path, const char *text, uint64_t now)
{
	int err;

	*r = (struct report){ .path = path, .tick = now + NSEC_PER_SEC };
	if (!path)
		return;
	err = replace_file(path, text);
	if (err)
		die("cannot write %s: %s", path, strerror(-err));
}

bool report_due(struct report *r, uint64_t now)
{
	if (now < r->tick)
		return false;
	while (r->tick <= now)
		r->tick += NSEC_PER_SEC;
	return true;
}

void report_write(struct report *r, const char *text)
{
	int err;

	if (!r->path)
		return;
	err = replace_file(r->path, text);
	if (err && !r->failed)
		warn("cannot write %s: %s. Continuing without it", r->path, strerror(-err));
	r->failed = err != 0;
}
