// SPDX-License-Identifier: Apache-2.0
/* The clean-shutdown marker. */
#include "marker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format.h"
#include "scope.h"

#define NAME "stopped"
#define ROOM "started"
#define FORM "generation %" PRIu64 " end %" PRIu64 " batches %" PRIu64 " next %" PRIu64 "\n"
#define SCAN "generation %" SCNu64 " end %" SCNu64 " batches %" SCNu64 " next %" SCNu64 "%n"

/* overwrites the file, which is created if it is missing */
static int write_block(int directory, const char block[EKR_BLOCK], struct error *e)
{
	CLOSED int fd = openat(directory, ROOM, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return set_errno(e, errno, "creating the clean-shutdown marker");
	/* of a short write */
	errno = ENOSPC;
	if (pwrite(fd, block, EKR_BLOCK, 0) != EKR_BLOCK || fsync(fd))
		return set_errno(e, errno, "writing the clean-shutdown marker");
	return 0;
}

int marker_make(int directory, struct error *e)
{
	static const char zeros[EKR_BLOCK];
	struct stat st;
	int ret;

	if (!fstatat(directory, ROOM, &st, AT_SYMLINK_NOFOLLOW) && st.st_size >= EKR_BLOCK)
		return 0;
	ret = write_block(directory, zeros, e);
	if (!ret && fsync(directory))
		ret = set_errno(e, errno, "flushing the clean-shutdown marker");
	return ret;
}

bool marker_started(int directory)
{
	struct stat st;

	return !fstatat(directory, ROOM, &st, AT_SYMLINK_NOFOLLOW);
}

int marker_print(char *to, size_t room, const struct marker *m)
{
	return snprintf(to, room, FORM, m->generation, m->end, m->batches, m->next_sequence);
}

int marker_write(int directory, const struct marker *m, struct error *e)
{
	char block[EKR_BLOCK] = "";
	int ret;

	marker_print(block, sizeof(block), m);
	ret = write_block(directory, block, e);
	if (ret)
		return ret;
	if (renameat(directory, ROOM, directory, NAME) || fsync(directory))
		return set_errno(e, errno, "renaming the clean-shutdown marker");
	return 0;
}

bool marker_parse(const char *text, struct marker *m)
{
	int used = 0;

	return sscanf(text, SCAN, &m->generation, &m->end, &m->batches, &m->next_sequence, &used) ==
		       4 &&
	       !strcmp(text + used, "\n");
}

int marker_take(int directory, struct marker *m, struct error *e)
{
	char line[160] = "";
	CLOSED int fd = openat(directory, NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0 && errno == ENOENT)
		return set_error(e, ENOENT, "there is no clean-shutdown marker");
	if (fd < 0)
		return set_errno(e, errno, "reading the clean-shutdown marker");
	n = read(fd, line, sizeof(line) - 1);
	/* durably, before anything is recorded: otherwise it could be taken for the marker of later records */
	if (renameat(directory, NAME, directory, ROOM) || fsync(directory))
		return set_errno(e, errno, "invalidating the clean-shutdown marker");
	if (n < 0 || !marker_parse(line, m))
		return set_error(e, ENOENT, "the clean-shutdown marker is invalid");
	return 0;
}
