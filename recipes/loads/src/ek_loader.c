// SPDX-License-Identifier: Apache-2.0
/*
 * ek-loader: the load that schedulers stumble over. Each I/O is one direct,
 * asynchronous read or write of 100 MB, given to the kernel whole, so that it
 * becomes some 200 requests at once: more than a scheduler has tags.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "options.h"
#include "report.h"
#include "ring.h"
#include "util.h"

/* the kernel cuts a longer read or write here (MAX_RW_COUNT) */
#define MAX_SIZE (UINT64_C(0x7ffff000))
/* partition tables and every common file system show up in the first 128 KiB */
#define BLANK_BYTES (UINT64_C(128) << 10)

struct options {
	const char *path;
	const char *stats; /* file for the counters, or NULL */
	uint64_t size;	   /* of one I/O */
	uint64_t offset;   /* region that is looped over */
	uint64_t length;   /* 0: up to the end */
	uint64_t duration; /* ns, 0: until stopped */
	unsigned int depth;
	bool write;
	bool force;
	bool json;
};

struct loader {
	const struct options *o;
	struct io_uring ring;
	unsigned char *memory; /* depth buffers of size bytes */
	struct report report;
	uint64_t begun[RING_ENTRIES]; /* per buffer: when its I/O was submitted */
	uint64_t next;		      /* offset of the next I/O */
	uint64_t end;		      /* end of the region */
	uint64_t start;
	uint64_t last; /* when the last I/O completed */
	uint64_t completions;
	uint64_t worst_ns;
	double mbps; /* of the last completed I/O */
	int fd;
};

static void parse_options(int argc, char **argv, struct options *o)
{
	const struct opt opts[] = {
		{ "size", OPT_BYTES, &o->size, .arg = "BYTES", .help = "one I/O (default 100M)" },
		{ "depth", OPT_COUNT, &o->depth, .min = 1, .max = RING_ENTRIES, .arg = "N",
		  .help = "I/Os outstanding (default 1)" },
		{ "offset", OPT_BYTES, &o->offset, .arg = "BYTES",
		  .help = "where the region begins (default 0)" },
		{ "length", OPT_BYTES, &o->length, .min = 1, .arg = "BYTES",
		  .help = "its length (default: up to the end)" },
		{ "write", OPT_FLAG, &o->write,
		  .help = "write instead of read: DESTROYS what is in the region" },
		{ "force", OPT_FLAG, &o->force,
		  .help = "write even to a device that is in use or not blank" },
		{ "stats", OPT_TEXT, &o->stats, .arg = "FILE",
		  .help = "write the counters there as JSON each second" },
		{ "duration", OPT_TIME, &o->duration, .arg = "TIME",
		  .help = "end by itself (default: at SIGTERM)" },
		{ "json", OPT_FLAG, &o->json, .help = "print the summary as JSON" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] FILE|DEVICE",
		.about = "Loads FILE with huge direct I/O, each submitted whole.",
		.positional = "one file or block device to load",
		.positionals = 1,
		.opts = opts,
	};

	*o = (struct options){ .size = UINT64_C(100) << 20, .depth = 1 };
	o->path = argv[opt_parse(argc, argv, &program)];
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
		die("reading the beginning of %s: %s", path,
		    n < 0 ? strerror(errno) : "short read");
	if (want > 520 &&
	    ((head[510] == 0x55 && head[511] == 0xaa) || !memcmp(head + 512, "EFI PART", 8)))
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
	void *memory = l->memory + buffer * o->size;

	if (l->end - l->next < o->size)
		l->next = o->offset;
	if (o->write)
		ring_write(&l->ring, l->fd, memory, o->size, l->next, buffer);
	else
		ring_read(&l->ring, l->fd, memory, o->size, l->next, buffer);
	l->next += o->size;
	l->begun[buffer] = now_ns();
	ring_submit(&l->ring, o->path);
}

static void reap(struct loader *l)
{
	const char *doing = l->o->write ? "writing" : "reading";
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&l->ring, &cqe)) {
		unsigned int buffer = (unsigned int)cqe->user_data;
		uint64_t now = now_ns();

		if (ring_result(cqe, doing, l->o->path) != l->o->size)
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

static const char *stats_object(const struct loader *l, const char *state, double mbps)
{
	static char text[256];

	snprintf(text, sizeof(text),
		 "{\"state\":\"%s\",\"mbps\":%.1f,\"completions\":%llu,\"worst_ms\":%llu}\n", state,
		 mbps, (unsigned long long)l->completions,
		 (unsigned long long)(l->worst_ns / NSEC_PER_MSEC));
	return text;
}

static void load(struct loader *l, const sigset_t *wait)
{
	uint64_t end = l->o->duration ? l->start + l->o->duration : UINT64_MAX;

	for (unsigned int i = 0; i < l->o->depth; i++)
		submit(l, i);
	while (!stopping) {
		uint64_t now, event;

		reap(l);
		now = now_ns();
		if (now >= end)
			break;
		if (report_due(&l->report, now))
			report_write(&l->report, stats_object(l, "running", l->mbps));
		event = l->report.tick < end ? l->report.tick : end;
		ring_wait(&l->ring, now, event, wait, l->o->path);
	}
}

int main(int argc, char **argv)
{
	struct options o;
	struct loader l = { .o = &o };
	sigset_t wait;
	double s, mean;

	parse_options(argc, argv, &o);
	l.fd = open_target(&o);
	set_region(&l);
	l.memory = alloc_buffer(o.size * o.depth);
	ring_open(&l.ring);
	catch_signals(&wait);

	l.start = l.last = now_ns();
	report_begin(&l.report, o.stats, stats_object(&l, "running", 0), l.start);
	load(&l, &wait);
	s = (double)(now_ns() - l.start) / 1e9;
	/* up to the last completion: how far the next I/O has come is not known */
	mean = l.completions ? (double)(l.completions * o.size) * 1e3 / (double)(l.last - l.start) :
			       0.0;
	report_write(&l.report, stats_object(&l, "stopped", l.mbps));
	if (o.json)
		fputs(stats_object(&l, "stopped", mean), stdout);
	else
		printf("%.1f s: %llu %s of %.1f MB, %.1f MB/s, worst %.0f ms\n", s,
		       (unsigned long long)l.completions, o.write ? "writes" : "reads",
		       (double)o.size / 1e6, mean, (double)l.worst_ns / 1e6);
	if (fflush(stdout))
		die("writing the summary: %s", strerror(errno));
	/* the kernel finishes what is outstanding before the process is gone */
	io_uring_queue_exit(&l.ring);
	return 0;
}
