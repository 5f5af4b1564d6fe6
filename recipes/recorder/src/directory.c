// SPDX-License-Identifier: Apache-2.0
/* A channel's directory: opening, locking and following it; and the segments in it. */
#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioprio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "scope.h"
#include "segment.h"

#define LOCK "lock"
/* from one look to the next whether a batch has been written to a segment that is to be dropped */
#define DROP_PAUSE (10 * NSEC_PER_MSEC)

static bool same_file(const struct stat *a, const struct stat *b)
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
			!same_file(&here, &there);
}

/* --- segments ------------------------------------------------------------------------------ */

bool segments_lack(const struct channel *c)
{
	return atomic_load(&c->made) + c->closed < c->config.segments;
}

static void io_priority(int class)
{
	/* of this thread; if it fails, this only disturbs others more */
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(class, 0));
}

int segments_make(struct channel *c, const unsigned char *zeros, size_t length,
		  const atomic_bool *stop, struct error *e)
{
	struct ekr_segment_head head = store_head(&c->store, c->next_index);
	struct segment segment = { .index = head.index };
	int ret;

	if (!segments_lack(c))
		return 1;
	io_priority(atomic_load(&c->made) < 2 ? IOPRIO_CLASS_NONE : IOPRIO_CLASS_IDLE);
	ret = segment_make(c->directory, &head, zeros, length, stop, e);
	if (!ret) {
		segment.fd = segment_open(c->directory, head.index, e);
		ret = segment.fd < 0 ? segment.fd : 0;
	}
	io_priority(IOPRIO_CLASS_NONE);
	if (!ret) {
		c->next_index++;
		store_add(&c->store, &segment);
		atomic_fetch_add(&c->made, 1);
		if (!segments_lack(c))
			store_fail(&c->store, &c->less);
	} else if (ret != -ECANCELED) {
		store_fail(&c->store, e);
	}
	return ret;
}

void segments_expire(struct channel *c)
{
	_Alignas(EKR_BLOCK) unsigned char block[EKR_BLOCK] = { 0 };
	struct segment gone;

	while (store_expire(&c->store, monotonic_ns(), realtime_ns(), &gone)) {
		struct ekr_segment_head head = store_head(&c->store, gone.index);

		log_info("channel %s: the records of segment %08u.seg, generation %" PRIu64
			 ", are older than retain_time and are deleted",
			 c->config.name, gone.index, gone.generation);
		memcpy(block, &head, sizeof(head));
		segment_seal_head(block);
		if (pwrite(gone.fd, block, EKR_BLOCK, 0) != EKR_BLOCK || fdatasync(gone.fd))
			log_warning("channel %s: deleting the records of segment %08u.seg: %s",
				    c->config.name, gone.index, strerror(errno));
		/* it is used next, also if the head could not be written */
		gone.generation = 0;
		store_add(&c->store, &gone);
	}
}

bool segments_whole(const struct channel *c, const struct segment *s)
{
	struct stat st, named;
	char name[SEGMENT_NAME];

	if (fstat(s->fd, &st))
		return true;
	if (!st.st_nlink || (uint64_t)st.st_size != c->config.segment)
		return false;
	segment_name(name, s->index);
	if (fstatat(c->directory, name, &named, AT_SYMLINK_NOFOLLOW))
		return errno != ENOENT;
	return same_file(&st, &named);
}

bool segments_drop(struct channel *c, const struct segment *s)
{
	const struct timespec pause = timespec_of(DROP_PAUSE);
	const uint64_t until = monotonic_ns() + STORE_HANGS;

	while (!store_drop(&c->store, s->index)) {
		if (monotonic_ns() >= until)
			return false;
		nanosleep(&pause, NULL);
	}
	close(s->fd);
	atomic_fetch_sub(&c->made, 1);
	return true;
}
