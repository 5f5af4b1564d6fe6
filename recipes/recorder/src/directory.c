// SPDX-License-Identifier: Apache-2.0
/* Opening, locking and following a channel's directory. */
#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "scope.h"

#define LOCK "lock"

bool directory_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* the directory of all channels; without the mount, recordings would fill the disk below it */
static int open_base(const struct recorder_config *config, struct error *e)
{
	struct stat here, above;
	int fd = open(config->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return set_errno(e, errno, "opening %s", config->directory);
	if (!config->mountpoint)
		return fd;
	if (fstat(fd, &here) || fstatat(fd, "..", &above, 0)) {
		set_errno(e, errno, "examining %s", config->directory);
	} else if (here.st_dev == above.st_dev && here.st_ino != above.st_ino) {
		set_error(e, ENODEV, "%s: nothing is mounted there; mount the recorder's partition",
			  config->directory);
	} else {
		return fd;
	}
	close(fd);
	return -e->code;
}

/* Locks a file of mode 0600. Any reader of the directory could lock the directory itself. */
static int lock(struct channel *c, const char *where, bool create, struct error *e)
{
	c->lock = openat(c->directory, LOCK,
			 O_RDONLY | (create ? O_CREAT : 0) | O_NOFOLLOW | O_CLOEXEC, 0600);
	/* no recorder has begun here */
	if (c->lock < 0 && errno == ENOENT && !create)
		return 0;
	if (c->lock < 0 && errno == EROFS)
		return set_errno(e, errno, "opening it for recording");
	if (c->lock < 0)
		return set_errno(e, errno, "opening %s/%s/" LOCK " as the recorder's user", where,
				 c->config.name);
	if (!flock(c->lock, LOCK_EX | LOCK_NB))
		return 0;
	return errno == EWOULDBLOCK ? set_error(e, EBUSY, "%s/%s: another recorder is using it",
						where, c->config.name) :
				      set_errno(e, errno, "locking %s/%s", where, c->config.name);
}

int directory_open(const struct recorder_config *config, struct channel *c, bool create,
		   struct error *e)
{
	const char *name = c->config.name;
	CLOSED int base = open_base(config, e);
	int ret;

	if (base < 0)
		return base;
	if (create && !mkdirat(base, name, 0700))
		fsync(base);
	else if (create && errno != EEXIST)
		return set_errno(e, errno, "creating %s/%s", config->directory, name);
	c->directory = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->directory < 0)
		return set_errno(e, errno, "opening %s/%s", config->directory, name);
	ret = lock(c, config->directory, create, e);
	if (ret)
		directory_close(c);
	return ret;
}

void directory_close(struct channel *c)
{
	if (c->lock >= 0)
		close(c->lock);
	if (c->directory >= 0)
		close(c->directory);
	c->lock = c->directory = -1;
}

int directory_writable(const struct channel *c, struct error *e)
{
	struct statvfs fs;

	if (fstatvfs(c->directory, &fs))
		return set_errno(e, errno, "examining its file system");
	return fs.f_flag & ST_RDONLY ? set_errno(e, EROFS, "opening it for recording") : 0;
}

/* a directory that cannot be examined counts as unchanged */
bool directory_moved(const struct recorder_config *config, const struct channel *c)
{
	struct stat here, there;
	struct error e = { 0 };
	CLOSED int base = open_base(config, &e);

	if (fstat(c->directory, &here))
		return false;
	if (base >= 0 && fstatat(base, c->config.name, &there, AT_SYMLINK_NOFOLLOW))
		e.code = errno;
	/* ENODEV: nothing is mounted there any more */
	return e.code ? e.code == ENOENT || e.code == ENOTDIR || e.code == ENODEV :
			!directory_same(&here, &there);
}
