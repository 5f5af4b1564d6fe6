// SPDX-License-Identifier: Apache-2.0
/*
 * ek-disturb: loads that disturb a recorder. `truncate` and `allocate` are the
 * background loads of Okabe and Toyama, "Reducing File Write Latency for Real-Time
 * Data Recording" (2020), section 4.2. `read` stands for the sequential read of IOzone
 * that the paper uses in this section.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../common/src/hist.h"
#include "options.h"
#include "util.h"

enum what { TRUNCATE, ALLOCATE, READ };

struct options {
	const char *path;
	uint64_t every;	   /* ns from one call to the next, 0: no pause */
	uint64_t size;	   /* bytes that one call removes, allocates or reads */
	uint64_t total;	   /* bytes of the file that is truncated */
	uint64_t duration; /* ns, 0: until stopped */
	unsigned int what; /* enum what */
	bool direct;
	bool replace;
	bool json;
};

struct disturber {
	const struct options *o;
	unsigned char *memory;
	uint64_t size;	   /* current size of the file */
	uint64_t offset;   /* offset of the next read */
	uint64_t passes;   /* times that the file was emptied, or read to its end */
	uint64_t bytes;	   /* bytes that all calls removed, allocated or read */
	uint64_t skipped;  /* calls left out because the previous call took too long */
	struct hist calls; /* durations, ns */
	int fd;
};

static void parse_options(int argc, char **argv, struct options *o)
{
	static const struct {
		const char *name;
		uint64_t size;
		uint64_t every;
	} kinds[] = {
		[TRUNCATE] = { "truncate", 256 << 10, 5 * NSEC_PER_MSEC },
		[ALLOCATE] = { "allocate", 100000000, 5 * NSEC_PER_MSEC },
		[READ] = { "read", 2 << 20, 0 },
	};
	const struct opt opts[] = {
		{ "every", OPT_TIME, &o->every, .max = 3600 * NSEC_PER_SEC, .arg = "TIME",
		  .help = "time from one call to the next (default 5ms; read: 0, no pause)" },
		{ "size", OPT_BYTES, &o->size, .min = 1, .arg = "BYTES",
		  .help = "bytes of one call (default: truncate 256K, allocate 100MB, read 2M)" },
		{ "total", OPT_BYTES, &o->total, .min = 1, .arg = "BYTES",
		  .help = "truncate: size of the file at first (default 100MB)" },
		{ "direct", OPT_FLAG, &o->direct, .help = "read: with direct I/O" },
		{ "replace", OPT_FLAG, &o->replace,
		  .help = "truncate, allocate: remove FILE if it exists" },
		{ "duration", OPT_TIME, &o->duration, .min = 1, .arg = "TIME",
		  .help = "end after this time (default: at SIGTERM)" },
		{ "json", OPT_FLAG, &o->json, .help = "print the summary as JSON" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] truncate|allocate|read FILE",
		.about =
			"truncate  creates FILE and truncates it step by step; when it is empty, allocates it again\n"
			"allocate  creates FILE, and allocates and frees its blocks in turn\n"
			"read      reads FILE again and again, past the page cache",
		.positional = "truncate, allocate or read, and one file",
		.positionals = 2,
		.opts = opts,
	};
	uint64_t unset = UINT64_MAX;
	int first;

	*o = (struct options){ .every = unset, .size = unset, .total = 100000000 };
	first = opt_parse(argc, argv, &program);
	while (strcmp(argv[first], kinds[o->what].name) != 0)
		if (++o->what == sizeof(kinds) / sizeof(kinds[0]))
			die_usage("'%s' is not one of: truncate, allocate, read", argv[first]);
	o->path = argv[first + 1];
	if (o->every == unset)
		o->every = kinds[o->what].every;
	if (o->size == unset)
		o->size = kinds[o->what].size;
	if (o->what == READ && (o->size % DIRECT_ALIGN || o->size > UINT64_C(1) << 30))
		die_usage("--size: must be a multiple of 4096, at most 1G");
	if (o->direct && o->what != READ)
		die_usage("--direct is for read only");
	if (o->replace && o->what == READ)
		die_usage("--replace is for truncate and allocate only");
	if (!o->every && o->what != READ)
		die_usage("--every: must be greater than 0");
}

static void open_target(struct disturber *d)
{
	const struct options *o = d->o;

	if (o->what != READ) {
		d->fd = create_file(o->path, o->replace);
		return;
	}
	d->fd = open(o->path, O_RDONLY | O_CLOEXEC | (o->direct ? O_DIRECT : 0));
	if (d->fd < 0 && errno == EINVAL && o->direct)
		die("cannot open %s: its file system does not support direct I/O", o->path);
	if (d->fd < 0)
		die("cannot open %s: %s", o->path, strerror(errno));
	d->size = target_size(d->fd, o->path);
	if (!d->size)
		die("%s is empty", o->path);
	d->memory = alloc_buffer(o->size);
	clean_cache(d->fd, o->path);
}

static void resize(struct disturber *d, uint64_t size)
{
	if (ftruncate(d->fd, (off_t)size))
		die("cannot truncate %s: %s", d->o->path, strerror(errno));
	d->size = size;
}

static void allocate(struct disturber *d, uint64_t size)
{
	if (fallocate(d->fd, 0, 0, (off_t)size))
		die("cannot allocate %llu bytes for %s: %s", (unsigned long long)size, d->o->path,
		    strerror(errno));
	d->size = size;
}

/* Each of these functions makes one call, and returns its duration in ns, without preparations. */
static uint64_t truncate_once(struct disturber *d)
{
	uint64_t begin;

	if (!d->size) {
		allocate(d, d->o->total);
		d->passes++;
	}
	begin = now_ns();
	d->bytes += d->size < d->o->size ? d->size : d->o->size;
	resize(d, d->size < d->o->size ? 0 : d->size - d->o->size);
	return now_ns() - begin;
}

static uint64_t allocate_once(struct disturber *d)
{
	uint64_t begin;

	resize(d, 0);
	begin = now_ns();
	allocate(d, d->o->size);
	d->bytes += d->o->size;
	d->passes++;
	return now_ns() - begin;
}

static uint64_t read_once(struct disturber *d)
{
	uint64_t begin;
	ssize_t n;

	if (!d->offset && d->passes && !d->o->direct)
		drop_cache(d->fd, d->o->path);
	begin = now_ns();
	n = pread(d->fd, d->memory, (size_t)d->o->size, (off_t)d->offset);
	if (n < 0)
		die("cannot read %s: %s", d->o->path, strerror(errno));
	if (!n)
		die("cannot read %s: unexpected end of file. Was it truncated?", d->o->path);
	d->bytes += (uint64_t)n;
	d->offset += (uint64_t)n;
	if (d->offset >= d->size) {
		d->offset = 0;
		d->passes++;
	}
	return now_ns() - begin;
}

static uint64_t call(struct disturber *d)
{
	switch ((enum what)d->o->what) {
	case TRUNCATE:
		return truncate_once(d);
	case ALLOCATE:
		return allocate_once(d);
	case READ:
		break;
	}
	return read_once(d);
}

static void summary(const struct disturber *d, uint64_t ns)
{
	double s = (double)ns / 1e9, mbps = ns ? (double)d->bytes * 1e3 / (double)ns : 0;

	if (d->o->json) {
		printf("{\"calls\":%llu,\"skipped\":%llu,\"passes\":%llu,\"bytes\":%llu,\"seconds\":%.3f,"
		       "\"mbps\":%.3f,",
		       (unsigned long long)d->calls.count, (unsigned long long)d->skipped,
		       (unsigned long long)d->passes, (unsigned long long)d->bytes, s, mbps);
		hist_json(stdout, "call", &d->calls);
		puts("}");
	} else {
		printf("%.1f s: %llu calls, %.1f MB, %.1f MB/s; mean %.0f, max %.0f us; %llu skipped\n",
		       s, (unsigned long long)d->calls.count, (double)d->bytes / 1e6, mbps,
		       (double)hist_mean(&d->calls) / 1e3, (double)d->calls.max / 1e3,
		       (unsigned long long)d->skipped);
	}
	if (fflush(stdout))
		die("cannot write the summary: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	static struct disturber d;
	struct options o;
	uint64_t start, stop, due;

	parse_options(argc, argv, &o);
	d.o = &o;
	open_target(&d);
	catch_signals(NULL);

	start = due = now_ns();
	stop = o.duration ? start + o.duration : UINT64_MAX;
	while (!stopping && now_ns() < stop) {
		hist_add(&d.calls, call(&d));
		if (!o.every)
			continue;
		/* Leave out calls whose time has passed: catching up would cause a burst. */
		for (due += o.every; due + o.every <= now_ns(); due += o.every)
			d.skipped++;
		sleep_until(due < stop ? due : stop);
	}
	summary(&d, now_ns() - start);
	if (o.what != READ && unlink(o.path))
		die("cannot remove %s: %s", o.path, strerror(errno));
	return 0;
}
