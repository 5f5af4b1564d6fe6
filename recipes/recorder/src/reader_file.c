// SPDX-License-Identifier: Apache-2.0
/* A segment's file as bytes for the parser. */
#include "reader_state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

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
	const struct timespec pause = timespec_of(f->pace->again_ns);

	medium_forget(&f->bytes);
	return f->pace->again_ns && !nanosleep(&pause, NULL);
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
