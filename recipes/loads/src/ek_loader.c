// SPDX-License-Identifier: Apache-2.0
/*
 * ek-loader: a load that is difficult for schedulers. Each I/O is one direct,
 * asynchronous read or write, of 100 MiB by default. The kernel gets it as a whole and
 * splits it, for example into 200 requests of 512 KiB. With 128 scheduler tags, such an
 * I/O needs more tags than there are.
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

/* largest I/O, in bytes: the kernel truncates longer reads and writes (MAX_RW_COUNT) */
#define MAX_SIZE (UINT64_C(0x7ffff000))
/*
 * Bytes that are checked before the first write to a device. Partition tables and all common
 * file systems leave traces in the first 128 KiB.
 */
#define BLANK_BYTES (UINT64_C(128) << 10)

struct options {
	const char *path;
	const char *stats; /* file for the counters; NULL: none */
	uint64_t size;	   /* bytes of one I/O */
	uint64_t offset;   /* offset of the region that is used, bytes */
	uint64_t length;   /* length of the region, bytes; 0: up to the end of the file */
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
	uint64_t begun[RING_ENTRIES]; /* per buffer: when its I/O was submitted, ns */
	uint64_t next;		      /* offset of the next I/O, bytes */
	uint64_t end;		      /* end of the region, bytes */
	uint64_t start;		      /* when the program started to load, ns */
	uint64_t last;		      /* when the last I/O completed, ns */
	uint64_t completions;	      /* number of completed I/Os */
	uint64_t worst_ns;	      /* longest time from submission to completion */
	double mbps;		      /* rate of the last I/O since the completion before it */
	int fd;
};

static void parse_options(int argc, char **argv, struct options *o)
{
	const struct opt opts[] = {
		{ "size", OPT_BYTES, &o->size, .arg = "BYTES",
		  .help = "size of one I/O (default 100M)" },
		{ "depth", OPT_COUNT, &o->depth, .min = 1, .max = RING_ENTRIES, .arg = "N",
		  .help = "I/Os in flight (default 1)" },
		{ "offset", OPT_BYTES, &o->offset, .arg = "BYTES",
		  .help = "start of the region that is used (default 0)" },
		{ "length", OPT_BYTES, &o->length, .min = 1, .arg = "BYTES",
		  .help = "length of the region (default: up to the end of FILE)" },
		{ "write", OPT_FLAG, &o->write,
		  .help = "write instead of read: DESTROYS the data in the region" },
		{ "force", OPT_FLAG, &o->force,
		  .help = "with --write: also write to a device that is in use or not blank" },
		{ "stats", OPT_TEXT, &o->stats, .arg = "FILE",
		  .help = "write the counters to FILE once a second, as JSON" },
		{ "duration", OPT_TIME, &o->duration, .arg = "TIME",
		  .help = "end after this time (default: at SIGTERM)" },
		{ "json", OPT_FLAG, &o->json, .help = "print the summary as JSON" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] FILE|DEVICE",
		.about = "Loads FILE with very large direct I/Os, each submitted as a whole.",
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
		die_usage("--force is for --write only");
}

/* ends the program unless the device's beginning is blank: all bytes 0x00, or all 0xff */
static void check_blank(int fd, const char *path, uint64_t size)
{
	unsigned char *head = alloc_buffer(BLANK_BYTES);
	size_t want = size < BLANK_BYTES ? (size_t)size : (size_t)BLANK_BYTES;
	ssize_t n = pread(fd, head, want, 0);

	if (n < 0 || (size_t)n < want)
		die("cannot read the beginning of %s: %s", path,
		    n < 0 ? strerror(errno) : "short read");
	if (want > 520 &&
	    ((head[510] == 0x55 && head[511] == 0xaa) || !memcmp(head + 512, "EFI PART", 8)))
		die("%s has a partition table. To write to it all the same, use --force", path);
	for (size_t i = 1; i < want; i++)
		if (head[i] != head[0] || (head[0] != 0 && head[0] != 0xff))
			die("%s is not blank. To write to it all the same, use --force", path);
}

static int open_target(const struct options *o)
{
	int flags = O_CLOEXEC | O_DIRECT | (o->write ? O_RDWR : O_RDONLY);
	struct stat st;
	int fd;

	if (stat(o->path, &st))
		die("cannot open %s: %s", o->path, strerror(errno));
	/*
	 * For a block device, O_EXCL without O_CREAT means: fail if the device or a
	 * partition of it is mounted, or if another driver uses it.
	 */
	if (o->write && !o->force && S_ISBLK(st.st_mode))
		flags |= O_EXCL;
	fd = open(o->path, flags);
	if (fd < 0 && errno == EBUSY)
		die("%s is in use: mounted, or used by another driver. To write to it all the same, use --force",
		    o->path);
	if (fd < 0 && errno == EINVAL)
		die("cannot open %s: its file system does not support direct I/O", o->path);
	if (fd < 0)
		die("cannot open %s: %s", o->path, strerror(errno));
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
	const char *action = l->o->write ? "write" : "read";
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&l->ring, &cqe)) {
		unsigned int buffer = (unsigned int)cqe->user_data;
		uint64_t now = now_ns();

		if (ring_result(cqe, action, l->o->path) != l->o->size)
			die("cannot %s %s: unexpected end of file. Was it truncated?", action,
			    l->o->path);
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
	/* The mean is up to the last completion: the progress of I/Os in flight is not known. */
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
		die("cannot write the summary: %s", strerror(errno));
	/* The kernel completes the I/Os in flight before the process ends. */
	io_uring_queue_exit(&l.ring);
	return 0;
}
