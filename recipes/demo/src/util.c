// SPDX-License-Identifier: Apache-2.0
/* What both demo programs need: options, clock, target, statistics file. */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t stopping;

static void say(const char *fmt, va_list ap)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	exit(1);
}

void die_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s: --help lists the options\n", program_invocation_short_name);
	exit(2);
}

bool parse_bytes(const char *text, uint64_t *bytes)
{
	static const struct {
		const char *unit;
		uint64_t factor;
	} units[] = {
		{ "", 1 },
		{ "K", UINT64_C(1) << 10 },
		{ "M", UINT64_C(1) << 20 },
		{ "G", UINT64_C(1) << 30 },
		{ "kB", UINT64_C(1000) },
		{ "MB", UINT64_C(1000000) },
		{ "GB", UINT64_C(1000000000) },
	};
	unsigned long long n;
	char *end;

	/* strtoull() would take a sign and white space */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		/* offsets are signed in the kernel */
		if (n > INT64_MAX / units[i].factor)
			return false;
		*bytes = n * units[i].factor;
		return true;
	}
	return false;
}

bool parse_seconds(const char *text, uint64_t *ns)
{
	double s;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	s = strtod(text, &end);
	/* hexadecimal and exponents are no way to write a time */
	if (*end || strspn(text, "0123456789.") != strlen(text) || !(s <= 1e6))
		return false;
	*ns = (uint64_t)llround(s * 1e9);
	return true;
}

uint64_t opt_bytes(const char *option, const char *text)
{
	uint64_t bytes;

	if (!parse_bytes(text, &bytes))
		die_usage("%s: '%s' is not a number of bytes such as 4096, 100M or 32MB", option,
			  text);
	return bytes;
}

uint64_t opt_seconds(const char *option, const char *text)
{
	uint64_t ns;

	if (!parse_seconds(text, &ns))
		die_usage("%s: '%s' is not a number of seconds such as 10 or 0.5", option, text);
	return ns;
}

unsigned int opt_count(const char *option, const char *text, unsigned int max)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || !n || n > max)
		die_usage("%s: '%s' is not a whole number from 1 to %u", option, text, max);
	return (unsigned int)n;
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
		die("looking at %s: %s", path, strerror(errno));
	if (S_ISREG(st.st_mode))
		return (uint64_t)st.st_size;
	if (!S_ISBLK(st.st_mode))
		die("%s is neither a file nor a block device", path);
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		die("asking %s for its size: %s", path, strerror(errno));
	return bytes;
}

void *alloc_buffer(uint64_t bytes)
{
	void *mem = MAP_FAILED;

	if (bytes <= SIZE_MAX)
		mem = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (mem == MAP_FAILED)
		die("getting %llu bytes of memory: %s", (unsigned long long)bytes,
		    strerror(ENOMEM));
	return mem;
}

int write_stats(const char *path, const char *text)
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

static void on_signal(int sig)
{
	(void)sig;
	stopping = 1;
}

void catch_signals(sigset_t *wait)
{
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t held;

	sigemptyset(&held);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGINT);
	sigprocmask(SIG_BLOCK, &held, wait);
	sigdelset(wait, SIGTERM);
	sigdelset(wait, SIGINT);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
}
