// SPDX-License-Identifier: Apache-2.0
/* The mark of an orderly stop. */
#include "marker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "stopped"
#define NEW  "stopped.new"
#define FORM "generation %" PRIu64 " end %" PRIu64 " batches %" PRIu64 " next %" PRIu64 "\n"
#define SCAN "generation %" SCNu64 " end %" SCNu64 " batches %" SCNu64 " next %" SCNu64 "%n"

int marker_write(int directory, const struct marker *m, struct error *e)
{
	char line[160];
	int length = snprintf(line, sizeof(line), FORM, m->generation, m->end, m->batches,
			      m->next_sequence);
	int fd =
		openat(directory, NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	ssize_t n;

	if (fd < 0)
		return set_errno(e, errno, "creating the mark of an orderly stop");
	n = write(fd, line, (size_t)length);
	if (n != length || fsync(fd)) {
		int code = n >= 0 && n != length ? ENOSPC : errno;

		close(fd);
		unlinkat(directory, NEW, 0);
		return set_errno(e, code, "writing the mark of an orderly stop");
	}
	close(fd);
	if (renameat(directory, NEW, directory, NAME) || fsync(directory))
		return set_errno(e, errno, "naming the mark of an orderly stop");
	return 0;
}

int marker_take(int directory, struct marker *m, struct error *e)
{
	char line[160] = "";
	int fd = openat(directory, NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), used = 0;
	ssize_t n;

	if (fd < 0 && errno == ENOENT)
		return set_error(e, ENOENT, "there is no mark of an orderly stop");
	if (fd < 0)
		return set_errno(e, errno, "reading the mark of an orderly stop");
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	/* gone for good before anything is recorded: else it could vouch for what it has not seen */
	if (unlinkat(directory, NAME, 0) || fsync(directory))
		return set_errno(e, errno, "removing the mark of an orderly stop");
	if (n < 0 ||
	    sscanf(line, SCAN, &m->generation, &m->end, &m->batches, &m->next_sequence, &used) !=
		    4 ||
	    strcmp(line + used, "\n") != 0)
		return set_error(e, ENOENT, "the mark of an orderly stop is none");
	return 0;
}
