// SPDX-License-Identifier: Apache-2.0
/* A segment's file, read in aligned blocks past the page cache. */
#include "reader_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

/* after each read, so that the medium rests as long as the read was too fast */
static void pace(struct reader_pace *p, size_t bytes)
{
	struct timespec ts;
	uint64_t now;

	p->bytes += bytes;
	if (!p->rate)
		return;
	now = monotonic_ns();
	if (p->due_ns < now)
		p->due_ns = now;
	p->due_ns += (uint64_t)((unsigned __int128)bytes * NSEC_PER_SEC / p->rate);
	ts.tv_sec = (time_t)(p->due_ns / NSEC_PER_SEC);
	ts.tv_nsec = (long)(p->due_ns % NSEC_PER_SEC);
	/* a signal ends the pause early: the caller looks whether it is to stop */
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

int reader_file_init(struct reader_file *f, struct reader_pace *pace)
{
	*f = (struct reader_file){ .fd = -1, .ahead = READER_AHEAD, .pace = pace };
	f->buffer = aligned_alloc(EKR_BLOCK, READER_BUFFER);
	return f->buffer ? 0 : -ENOMEM;
}

void reader_file_free(struct reader_file *f)
{
	reader_file_close(f);
	free(f->buffer);
	f->buffer = NULL;
}

void reader_file_close(struct reader_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	f->held = 0;
}

bool reader_file_again(const struct reader_file *f)
{
	const struct timespec pause = {
		.tv_sec = (time_t)(f->pace->again_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(f->pace->again_ns % NSEC_PER_SEC),
	};

	return f->pace->again_ns && !nanosleep(&pause, NULL);
}

void reader_file_drop(struct reader_file *f)
{
	f->held = 0;
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
	f->size = (uint64_t)st.st_size;
	return 0;
}

/* up to @length bytes at @offset, both whole blocks; bytes read */
static ssize_t read_blocks(struct reader_file *f, unsigned char *to, size_t length, uint64_t offset)
{
	const int before = (int)syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	ssize_t n;
	int error;

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

int reader_file_bytes(struct reader_file *f, uint64_t offset, size_t length,
		      const unsigned char **bytes)
{
	uint64_t begin = offset / EKR_BLOCK * EKR_BLOCK;
	size_t skip = (size_t)(offset - begin), want;

	if (length > EKR_RECORD_MAX + EKR_BLOCK)
		return -EINVAL;
	if (offset > f->size || length > f->size - offset)
		return -ENODATA;
	if (!f->held || begin < f->begin || begin >= f->begin + f->held) {
		f->begin = begin;
		f->held = 0;
	} else if (begin - f->begin + skip + length > f->held) {
		/* keep the blocks from here on and read what comes after them */
		size_t gone = (size_t)(begin - f->begin);

		f->held -= gone;
		memmove(f->buffer, f->buffer + gone, f->held);
		f->begin = begin;
	}
	skip = (size_t)(offset - f->begin);
	while (f->held < skip + length) {
		ssize_t n;

		want = (skip + length - f->held + EKR_BLOCK - 1) / EKR_BLOCK * EKR_BLOCK;
		if (want < f->ahead)
			want = f->ahead;
		if (want > READER_BUFFER - f->held)
			want = READER_BUFFER - f->held;
		n = read_blocks(f, f->buffer + f->held, want, f->begin + f->held);
		if (n < 0)
			return (int)n;
		f->held += (size_t)n;
		/* the last block of a file that was cut: it ends in the middle of it */
		if ((size_t)n % EKR_BLOCK || !n) {
			if (f->held < skip + length) {
				f->held = 0;
				return -ENODATA;
			}
		}
	}
	*bytes = f->buffer + skip;
	return 0;
}
