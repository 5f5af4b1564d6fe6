// SPDX-License-Identifier: Apache-2.0
/* Segments: their files as bytes for the parser, and all heads in a directory. */
#include "reader_state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "about.h"
#include "clock.h"
#include "scope.h"
#include "segment.h"

#define HEAD_TRIES 3

/* after each read, so that the medium rests as long as the read was too fast */
static void pace(struct reader_pace *p, size_t bytes)
{
	struct timespec ts;
	uint64_t now;

	if (!p->rate)
		return;
	now = monotonic_ns();
	if (p->due_ns < now)
		p->due_ns = now;
	p->due_ns += (uint64_t)((unsigned __int128)bytes * NSEC_PER_SEC / p->rate);
	ts = timespec_of(p->due_ns);
	/* a signal ends the pause early: the caller looks whether it is to stop */
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static ssize_t read_blocks(void *ctx, uint32_t place, void *to, size_t length, uint64_t offset)
{
	const int before = (int)syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	struct reader_file *f = ctx;
	int error;
	ssize_t n;

	(void)place;
	/* of this thread, for this read: the recorder's writes go first. A kernel without it reads as before */
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
	do {
		n = pread(f->fd, to, length, (off_t)offset);
		/* some file systems take the flag and refuse the read */
		if (n < 0 && errno == EINVAL && f->direct) {
			if (fcntl(f->fd, F_SETFL, O_NONBLOCK))
				break;
			f->direct = false;
			errno = EINTR;
		}
	} while (n < 0 && errno == EINTR);
	error = errno;
	if (before >= 0)
		syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, before);
	if (n < 0)
		return -error;
	if (!f->direct)
		posix_fadvise(f->fd, (off_t)offset, n, POSIX_FADV_DONTNEED);
	pace(f->pace, (size_t)n);
	return n;
}

int reader_file_init(struct reader_file *f, struct reader_pace *pace,
		     const volatile sig_atomic_t *stop)
{
	*f = (struct reader_file){ .fd = -1, .pace = pace };
	f->bytes = (struct medium_bytes){
		.read = read_blocks,
		.ctx = f,
		.room = MEDIUM_ROOM(READER_AHEAD),
		.ahead = READER_AHEAD,
		.stop = stop,
		.buffer = aligned_alloc(EKR_BLOCK, MEDIUM_ROOM(READER_AHEAD)),
	};
	return f->bytes.buffer ? 0 : -ENOMEM;
}

void reader_file_free(struct reader_file *f)
{
	reader_file_close(f);
	free(f->bytes.buffer);
	f->bytes.buffer = NULL;
}

void reader_file_close(struct reader_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	medium_forget(&f->bytes);
}

bool reader_file_again(struct reader_file *f)
{
	const volatile sig_atomic_t *stop = f->bytes.stop;
	struct timespec left = timespec_of(f->pace->again_ns);

	medium_forget(&f->bytes);
	if (!f->pace->again_ns)
		return false;
	while (nanosleep(&left, &left))
		if (stop && *stop)
			return false;
	return true;
}

int reader_file_open(struct reader_file *f, int dir, const char *name)
{
	/* O_NONBLOCK: a FIFO of that name must not hold us up */
	const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	struct stat st;
	int err = 0;

	reader_file_close(f);
	f->direct = true;
	f->fd = openat(dir, name, flags | O_DIRECT);
	if (f->fd < 0 && errno == EINVAL) {
		f->direct = false;
		f->fd = openat(dir, name, flags);
	}
	if (f->fd < 0)
		return -errno;
	if (fstat(f->fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	if (err) {
		reader_file_close(f);
		return err;
	}
	f->bytes.size = (uint64_t)st.st_size;
	return 0;
}

/* --- the heads of all segments ------------------------------------------------------------ */

int reader_head_read(struct reader_file *f, int dir, const char *name, struct medium_use *use)
{
	const char *slash = strrchr(name, '/');
	int err = reader_file_open(f, dir, name);

	memset(use, 0, sizeof(*use));
	snprintf(use->file, sizeof(use->file), "%s", name);
	segment_index(slash ? slash + 1 : name, &use->index);
	for (int try = 0; try < HEAD_TRIES && !err; try++) {
		/* one that is being written may be seen half */
		if (try && !reader_file_again(f))
			break;
		medium_forget(&f->bytes);
		err = medium_head(&f->bytes, use);
		if (use->head.magic == EKR_SEGMENT_MAGIC || use->size < EKR_BLOCK)
			break;
	}
	return err;
}

static int add(struct reader_uses *uses, size_t *room, const struct medium_use *use)
{
	if (uses->count == *room) {
		size_t more = *room ? 2 * *room : 64;
		struct medium_use *p = reallocarray(uses->use, more, sizeof(*p));

		if (!p)
			return -ENOMEM;
		uses->use = p;
		*room = more;
	}
	uses->use[uses->count++] = *use;
	return 0;
}

static int read_head(struct reader_file *f, int dir, const char *name, struct medium_use *use)
{
	int err = reader_head_read(f, dir, name, use);

	/* removed since it was listed */
	if (!err || err == -ENOENT)
		return err;
	memset(use, 0, sizeof(*use));
	snprintf(use->file, sizeof(use->file), "%s", name);
	use->damage = err == -EINVAL || err == -ELOOP ? "not a regular file" :
		      err == -EACCES		      ? "no permission to read it" :
							"cannot be read";
	return 0;
}

/* the heads of the segments in @path below @dir; "" is @dir itself */
static int list_heads(struct reader_uses *uses, size_t *room, int dir, const char *path,
		      struct reader_file *f)
{
	CLOSED_LIST DIR *list = segment_list(dir, *path ? path : ".");
	struct dirent *entry;
	int err = 0;

	if (!list)
		return -errno;
	while (!err && (errno = 0, entry = readdir(list)) != NULL) {
		char name[MEDIUM_NAME];
		struct medium_use use;
		uint32_t index;

		if (!segment_index(entry->d_name, &index) ||
		    snprintf(name, sizeof(name), "%s%s%s", path, *path ? "/" : "", entry->d_name) >=
			    (int)sizeof(name))
			continue;
		err = read_head(f, dir, name, &use);
		if (!err)
			err = add(uses, room, &use);
		else if (err == -ENOENT)
			err = 0;
	}
	return err ? err : -errno;
}

/* segments that are protected from being overwritten are part of the recording */
static int list_kept(struct reader_uses *uses, size_t *room, int dir, struct reader_file *f)
{
	CLOSED_LIST DIR *list = segment_list(dir, MEDIUM_KEPT);
	struct dirent *entry;
	int err = 0;

	while (list && !err && (entry = readdir(list))) {
		char path[sizeof(MEDIUM_KEPT) + EKR_NAME_MAX + 1];

		if (*entry->d_name == '.' || snprintf(path, sizeof(path), MEDIUM_KEPT "/%s",
						      entry->d_name) >= (int)sizeof(path))
			continue;
		err = list_heads(uses, room, dir, path, f);
		/* removed since it was listed, or something else of that name */
		if (err == -ENOENT || err == -ENOTDIR || err == -ELOOP)
			err = 0;
	}
	return err;
}

struct opener {
	struct reader_file *file;
	int dir;
};

static struct medium_bytes *open_use(void *ctx, const struct medium_use *use)
{
	struct opener *o = ctx;

	return reader_file_open(o->file, o->dir, use->file) ? NULL : &o->file->bytes;
}

static int read_heads(struct reader_uses *uses, int dir, struct reader_file *f)
{
	struct opener opener = { f, dir };
	size_t room = 0, ahead = f->bytes.ahead;
	struct about about;
	int err;

	*uses = (struct reader_uses){ 0 };
	f->bytes.ahead = EKR_BLOCK;
	err = list_heads(uses, &room, dir, "", f);
	if (!err)
		err = list_kept(uses, &room, dir, f);
	f->bytes.ahead = READER_AHEAD;
	about_read(dir, &about);
	medium_judge(uses->use, uses->count, about.id, UINT64_MAX, open_use, &opener);
	f->bytes.ahead = ahead;
	reader_file_close(f);
	return err;
}

/*
 * Of the uses after @seen, the first before which one is not there that began after
 * @known: its segment's head was perhaps read just before it began. count: none.
 */
static size_t behind_hole(const struct reader_uses *uses, uint64_t seen, uint64_t known)
{
	uint64_t before = seen;
	bool full = !seen;

	for (size_t i = 0; i < uses->count; i++) {
		const uint64_t generation = uses->use[i].head.generation;

		/* nothing was overwritten yet: the oldest is the first */
		full = full && (uses->use[i].used || uses->use[i].damage);
		if (!uses->use[i].used || generation <= seen)
			continue;
		if ((before || !full) && generation - 1 > (before > known ? before : known))
			return i;
		before = generation;
	}
	return uses->count;
}

int reader_uses_read(struct reader_uses *uses, int dir, struct reader_file *f, uint64_t seen)
{
	uint64_t known = 0;
	int err = read_heads(uses, dir, f);

	if (err || behind_hole(uses, seen, seen) == uses->count)
		return err;
	/* what is not there now, and began before this, is not there at all */
	for (size_t i = 0; i < uses->count; i++)
		if (uses->use[i].used)
			known = uses->use[i].head.generation;
	reader_uses_free(uses);
	err = read_heads(uses, dir, f);
	if (err)
		return err;
	for (size_t i = behind_hole(uses, seen, known); i < uses->count; i++) {
		if (!uses->use[i].used)
			continue;
		uses->use[i].used = false;
		uses->use[i].head.generation = 0;
	}
	medium_sort(uses->use, uses->count);
	return 0;
}

void reader_uses_free(struct reader_uses *uses)
{
	free(uses->use);
	*uses = (struct reader_uses){ 0 };
}
