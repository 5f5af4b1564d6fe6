// SPDX-License-Identifier: Apache-2.0
/* Code that all loads share: messages, clock, files and memory, signals. */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t stopping;

static void print_message(const char *fmt, va_list ap)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message(fmt, ap);
	va_end(ap);
}

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message(fmt, ap);
	va_end(ap);
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t target_size(int fd, const char *path)
{
	struct stat st;
	uint64_t bytes;

	if (fstat(fd, &st))
		die("cannot get the type of %s: %s", path, strerror(errno));
	if (S_ISREG(st.st_mode))
		return (uint64_t)st.st_size;
	if (!S_ISBLK(st.st_mode))
		die("%s is neither a file nor a block device", path);
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		die("cannot get the size of %s: %s", path, strerror(errno));
	return bytes;
}

void *alloc_buffer(uint64_t bytes)
{
	void *mem = MAP_FAILED;

	if (bytes <= SIZE_MAX)
		mem = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (mem == MAP_FAILED)
		die("cannot get %llu bytes of memory: %s", (unsigned long long)bytes,
		    strerror(ENOMEM));
	return mem;
}

uint64_t noise_seed(uint64_t seed)
{
	/* the finaliser of splitmix64, so that neighbouring seeds give very different states */
	seed += UINT64_C(0x9e3779b97f4a7c15);
	seed = (seed ^ seed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	seed = (seed ^ seed >> 27) * UINT64_C(0x94d049bb133111eb);
	seed ^= seed >> 31;
	return seed ? seed : 1;
}

uint64_t noise_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

void fill_noise(void *memory, uint64_t bytes, uint64_t seed)
{
	unsigned char *to = memory;
	uint64_t state = noise_seed(seed);

	while (bytes) {
		uint64_t word = noise_next(&state);
		size_t n = bytes < sizeof(word) ? (size_t)bytes : sizeof(word);

		memcpy(to, &word, n);
		to += n;
		bytes -= n;
	}
}

void drop_cache(int fd, const char *path)
{
	int err = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);

	if (err)
		die("cannot drop the page cache of %s: %s", path, strerror(err));
}

void clean_cache(int fd, const char *path)
{
	if (fdatasync(fd))
		die("cannot sync %s: %s", path, strerror(errno));
	drop_cache(fd, path);
}

int create_file(const char *path, bool replace)
{
	struct stat st;
	int fd;

	if (replace && !lstat(path, &st)) {
		if (!S_ISREG(st.st_mode))
			die("%s is not a regular file, so it is not replaced", path);
		if (unlink(path))
			die("cannot remove %s: %s", path, strerror(errno));
	}
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 && errno == EEXIST)
		die("%s exists already. --replace removes it first", path);
	if (fd < 0)
		die("cannot create %s: %s", path, strerror(errno));
	return fd;
}

void write_all(int fd, const void *from, uint64_t bytes, const char *path)
{
	while (bytes) {
		ssize_t n = write(fd, from, (size_t)bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die("cannot write %s: %s", path, strerror(errno));
		from = (const char *)from + n;
		bytes -= (uint64_t)n;
	}
}

void sleep_until(uint64_t ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ns / NSEC_PER_SEC),
		.tv_nsec = (long)(ns % NSEC_PER_SEC),
	};

	while (!stopping && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static void on_signal(int sig)
{
	(void)sig;
	stopping = 1;
}

void catch_signals(sigset_t *wait)
{
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t held;

	if (wait) {
		sigemptyset(&held);
		sigaddset(&held, SIGTERM);
		sigaddset(&held, SIGINT);
		sigprocmask(SIG_BLOCK, &held, wait);
		sigdelset(wait, SIGTERM);
		sigdelset(wait, SIGINT);
	}
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
}
