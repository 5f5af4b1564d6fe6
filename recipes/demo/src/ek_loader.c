// SPDX-License-Identifier: Apache-2.0
/*
 * ek-loader: the load that schedulers stumble over. Each I/O is one direct,
 * asynchronous read or write of 100 MB, given to the kernel whole, so that it
 * becomes some 200 requests at once: more than a scheduler has tags.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

#define MAX_DEPTH	64
/* the kernel cuts a longer read or write here (MAX_RW_COUNT) */
#define MAX_SIZE	(UINT64_C(0x7ffff000))
/* partition tables and every common file system show up in the first 128 KiB */
#define BLANK_BYTES	(UINT64_C(128) << 10)

struct options {
	const char *path;
	const char *stats;	/* file for the counters, or NULL */
	uint64_t size;		/* of one I/O */
	uint64_t offset;	/* region that is looped over */
	uint64_t length;	/* 0: up to the end */
	uint64_t duration;	/* ns, 0: until stopped */
	unsigned int depth;
	bool write;
	bool force;
	bool json;
};

struct loader {
	const struct options *o;
	struct io_uring ring;
	unsigned char *memory;	/* depth buffers of size bytes */
	uint64_t begun[MAX_DEPTH];	/* per buffer: when its I/O was submitted */
	uint64_t next;		/* offset of the next I/O */
	uint64_t end;		/* end of the region */
	uint64_t start;
	uint64_t last;		/* when the last I/O completed */
	uint64_t completions;
	uint64_t worst_ns;
	double mbps;		/* of the last completed I/O */
	bool stats_failed;
	int fd;
};

static const char usage[] =
	"Usage: ek-loader [OPTION...] FILE|DEVICE\n"
	"Loads FILE with huge direct I/O, each submitted whole.\n\n"
	"  --size BYTES        one I/O (default 100M)\n"
	"  --depth N           I/Os outstanding (default 1, at most 64)\n"
	"  --offset BYTES      where the region begins (default 0)\n"
	"  --length BYTES      its length (default: up to the end)\n"
	"  --write             write instead of read: DESTROYS what is in the region\n"
	"  --force             write even to a device that is in use or not blank\n"
	"  --stats FILE        write the counters there as JSON each second\n"
	"  --duration SECONDS  end by itself (default: at SIGTERM)\n"
	"  --json              print the summary as JSON\n"
	"BYTES: K M G are powers of 1024, kB MB GB powers of 1000.\n";

static void parse_options(int argc, char **argv, struct options *o)
{
	enum { SIZE = 1, DEPTH, OFFSET, LENGTH, WRITE, FORCE, STATS, DURATION, JSON, HELP };
	static const struct option longs[] = {
		{ "size", required_argument, NULL, SIZE },
		{ "depth", required_argument, NULL, DEPTH },
		{ "offset", required_argument, NULL, OFFSET },
		{ "length", required_argument, NULL, LENGTH },
		{ "write", no_argument, NULL, WRITE },
		{ "force", no_argument, NULL, FORCE },
		{ "stats", required_argument, NULL, STATS },
		{ "duration", required_argument, NULL, DURATION },
		{ "json", no_argument, NULL, JSON },
		{ "help", no_argument, NULL, HELP },
		{ 0 },
	};
	int c;

	*o = (struct options){ .size = UINT64_C(100) << 20, .depth = 1 };
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case SIZE: o->size = opt_bytes("--size", optarg); break;
		case DEPTH: o->depth = opt_count("--depth", optarg, MAX_DEPTH); break;
		case OFFSET: o->offset = opt_bytes("--offset", optarg); break;
		case LENGTH:
			o->length = opt_bytes("--length", optarg);
			if (!o->length)
				die_usage("--length: must be longer than 0");
			break;
		case WRITE: o->write = true; break;
		case FORCE: o->force = true; break;
		case STATS: o->stats = optarg; break;
		case DURATION: o->duration = opt_seconds("--duration", optarg); break;
		case JSON: o->json = true; break;
		case HELP: fputs(usage, stdout); exit(0);
		default: die_usage("the command line could not be understood");
		}
	}
	if (optind + 1 != argc)
		die_usage("give one file or block device to load, not %d", argc - optind);
	o->path = argv[optind];
	if (!o->size || o->size % DIRECT_ALIGN || o->size > MAX_SIZE)
		die_usage("--size: must be a multiple of 4096, from 4K to just below 2G");
	if (o->offset % DIRECT_ALIGN)
		die_usage("--offset: must be a multiple of 4096");
	if (o->force && !o->write)
		die_usage("--force goes with --write only");
}

/* ends the program if the device carries anything that somebody may want */
static void check_blank(int fd, const char *path, uint64_t size)
{
	unsigned char *head = alloc_buffer(BLANK_BYTES);
	size_t want = size < BLANK_BYTES ? (size_t)size : (size_t)BLANK_BYTES;
	ssize_t n = pread(fd, head, want, 0);

	if (n < 0 || (size_t)n < want)
		die("reading the beginning of %s: %s", path, n < 0 ? strerror(errno) : "short read");
	if (want > 520 && ((head[510] == 0x55 && head[511] == 0xaa) ||
			   !memcmp(head + 512, "EFI PART", 8)))
		die("%s has a partition table: not written to without --force", path);
	for (size_t i = 1; i < want; i++)
		if (head[i] != head[0] || (head[0] != 0 && head[0] != 0xff))
			die("%s is not blank (a file system?): not written to without --force",
			    path);
}

static int open_target(const struct options *o)
{
	int flags = O_CLOEXEC | O_DIRECT | (o->write ? O_RDWR : O_RDONLY);
	struct stat st;
	int fd;

	if (stat(o->path, &st))
		die("opening %s: %s", o->path, strerror(errno));
	/*
	 * The kernel itself refuses an exclusive open of a device that is
	 * mounted, or a part of which is, or that another driver holds. Without
	 * O_CREAT, O_EXCL means this on block devices only.
	 */
	if (o->write && !o->force && S_ISBLK(st.st_mode))
		flags |= O_EXCL;
	fd = open(o->path, flags);
	if (fd < 0 && errno == EBUSY)
		die("%s is in use (mounted, or held by another driver): not written to without --force",
		    o->path);
	if (fd < 0 && errno == EINVAL)
		die("opening %s: its file system has no direct I/O", o->path);
	if (fd < 0)
		die("opening %s: %s", o->path, strerror(errno));
	return fd;
}

static void set_region(struct loader *l)
{
	const struct options *o = l->o;
	uint64_t size = target_size(l->fd, o->path);
	struct stat st;

	if (o->offset >= size || (o->length && o->length > size - o->offset))
		die("%s ends at byte %llu, before the end of the region", o->path,
		    (unsigned long long)size);
	l->next = o->offset;
	l->end = o->length ? o->offset + o->length : size;
	if (l->end - l->next < o->size)
		die("the region of %s has %llu bytes, less than one I/O of %llu", o->path,
		    (unsigned long long)(l->end - l->next), (unsigned long long)o->size);
	if (o->write && !o->force && !fstat(l->fd, &st) && S_ISBLK(st.st_mode))
		check_blank(l->fd, o->path, size);
}

static void submit(struct loader *l, unsigned int buffer)
{
	const struct options *o = l->o;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&l->ring);
	void *memory = l->memory + buffer * o->size;
	int ret;

	if (l->end - l->next < o->size)
		l->next = o->offset;
	if (o->write)
		io_uring_prep_write(sqe, l->fd, memory, (unsigned int)o->size, l->next);
	else
		io_uring_prep_read(sqe, l->fd, memory, (unsigned int)o->size, l->next);
	/*
	 * An I/O of many requests cannot be issued without waiting for tags; a
	 * kernel worker waits, in our cgroup, so that SIGTERM is heard.
	 */
	sqe->flags |= IOSQE_ASYNC;
	io_uring_sqe_set_data64(sqe, buffer);
	l->next += o->size;
	l->begun[buffer] = now_ns();
	/* a signal must not leave the I/O unsubmitted */
	while ((ret = io_uring_submit(&l->ring)) == -EINTR)
		;
	if (ret < 0)
		die("submitting to %s: %s", o->path, strerror(-ret));
}

static void reap(struct loader *l)
{
	const char *doing = l->o->write ? "writing" : "reading";
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&l->ring, &cqe)) {
		unsigned int buffer = (unsigned int)cqe->user_data;
		uint64_t now = now_ns();

		if (cqe->res < 0)
			die("%s %s: %s", doing, l->o->path, strerror(-cqe->res));
		if ((uint64_t)cqe->res != l->o->size)
			die("%s %s: it ended early (has it been cut short?)", doing, l->o->path);
		if (now - l->begun[buffer] > l->worst_ns)
			l->worst_ns = now - l->begun[buffer];
		if (now > l->last)
			l->mbps = (double)l->o->size * 1e3 / (double)(now - l->last);
		l->last = now;
		l->completions++;
		io_uring_cqe_seen(&l->ring, cqe);
		submit(l, buffer);
	}
}

static void format_stats(const struct loader *l, const char *state, double mbps, char *text,
			 size_t size)
{
	snprintf(text, size,
		 "{\"state\":\"%s\",\"mbps\":%.1f,\"completions\":%llu,\"worst_ms\":%llu}\n", state,
		 mbps, (unsigned long long)l->completions,
		 (unsigned long long)(l->worst_ns / NSEC_PER_MSEC));
}

static void report(struct loader *l, const char *state, bool first)
{
	char text[256];
	int err;

	if (!l->o->stats)
		return;
	format_stats(l, state, l->mbps, text, sizeof(text));
	err = write_stats(l->o->stats, text);
	if (err && first)
		die("writing %s: %s", l->o->stats, strerror(-err));
	if (err && !l->stats_failed)
		warn("writing %s: %s (going on)", l->o->stats, strerror(-err));
	l->stats_failed = err != 0;
}

static void load(struct loader *l, const sigset_t *wait)
{
	uint64_t end = l->o->duration ? l->start + l->o->duration : UINT64_MAX;
	uint64_t tick = l->start + NSEC_PER_SEC;

	for (unsigned int i = 0; i < l->o->depth; i++)
		submit(l, i);
	while (!stopping) {
		struct __kernel_timespec ts;
		struct io_uring_cqe *cqe;
		sigset_t mask = *wait;
		uint64_t now, event;
		int ret;

		reap(l);
		now = now_ns();
		if (now >= end)
			break;
		if (now >= tick) {
			report(l, "running", false);
			while (tick <= now)
				tick += NSEC_PER_SEC;
		}
		event = tick < end ? tick : end;
		ts.tv_sec = (long long)((event - now) / NSEC_PER_SEC);
		ts.tv_nsec = (long long)((event - now) % NSEC_PER_SEC);
		ret = io_uring_wait_cqes(&l->ring, &cqe, 1, &ts, &mask);
		if (ret && ret != -ETIME && ret != -EINTR && ret != -EAGAIN)
			die("waiting for %s: %s", l->o->path, strerror(-ret));
	}
}

int main(int argc, char **argv)
{
	struct options o;
	struct loader l = { .o = &o };
	char text[256];
	sigset_t wait;
	double s, mean;
	int ret;

	parse_options(argc, argv, &o);
	l.fd = open_target(&o);
	set_region(&l);
	l.memory = alloc_buffer(o.size * o.depth);
	ret = io_uring_queue_init(MAX_DEPTH, &l.ring, 0);
	if (ret)
		die("setting up io_uring: %s", strerror(-ret));
	catch_signals(&wait);

	l.start = l.last = now_ns();
	report(&l, "running", true);
	load(&l, &wait);
	s = (double)(now_ns() - l.start) / 1e9;
	/* up to the last completion: how far the next I/O has come is not known */
	mean = l.completions ?
		(double)(l.completions * o.size) * 1e3 / (double)(l.last - l.start) : 0.0;
	report(&l, "stopped", false);
	format_stats(&l, "stopped", mean, text, sizeof(text));
	if (o.json)
		fputs(text, stdout);
	else
		printf("%.1f s: %llu %s of %.1f MB, %.1f MB/s, worst %.0f ms\n", s,
		       (unsigned long long)l.completions, o.write ? "writes" : "reads",
		       (double)o.size / 1e6, mean, (double)l.worst_ns / 1e6);
	fflush(stdout);
	/* the kernel finishes what is outstanding before the process is gone */
	io_uring_queue_exit(&l.ring);
	return 0;
}
