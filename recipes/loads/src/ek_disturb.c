// SPDX-License-Identifier: Apache-2.0
/*
 * ek-disturb: what a recording has to bear from others. Two of the three are
 * the background loads of Okabe and Toyama (2020), section 4.2; the third
 * stands for IOzone's sequential read there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hist.h"
#include "options.h"
#include "util.h"

enum what { TRUNCATE, ALLOCATE, READ };

struct options {
	const char *path;
	uint64_t every;	   /* ns from one call to the next, 0: without pause */
	uint64_t size;	   /* bytes that one call cuts off, allocates or reads */
	uint64_t total;	   /* bytes of the file that is cut */
	uint64_t duration; /* ns, 0: until stopped */
	unsigned int what; /* enum what */
	bool direct;
	bool replace;
	bool json;
};

struct disturber {
	const struct options *o;
	unsigned char *memory;
	uint64_t size;	   /* of the file now */
	uint64_t offset;   /* of the next read */
	uint64_t passes;   /* over the file: emptied, or read to its end */
	uint64_t bytes;	   /* cut, allocated or read */
	uint64_t skipped;  /* calls that had no time: the one before took too long */
	struct hist calls; /* ns */
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
		  .help = "from one call to the next (default 5ms; read: 0, no pause)" },
		{ "size", OPT_BYTES, &o->size, .min = 1, .arg = "BYTES",
		  .help = "cut, allocate or read at a time (default 256K, 100MB, 2M)" },
		{ "total", OPT_BYTES, &o->total, .min = 1, .arg = "BYTES",
		  .help = "truncate: the file to cut from (default 100MB)" },
		{ "direct", OPT_FLAG, &o->direct, .help = "read: past the page cache" },
		{ "replace", OPT_FLAG, &o->replace,
		  .help = "truncate, allocate: remove FILE if it exists" },
		{ "duration", OPT_TIME, &o->duration, .min = 1, .arg = "TIME",
		  .help = "end by itself (default: at SIGTERM)" },
		{ "json", OPT_FLAG, &o->json, .help = "print the summary as JSON" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] truncate|allocate|read FILE",
		.about =
			"truncate  cuts FILE, which it makes, bit by bit; makes it anew when nothing is left\n"
			"allocate  gives FILE, which it makes, its blocks and takes them back, in turn\n"
			"read      reads FILE from end to end, again and again, never from the page cache",
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
			die_usage("'%s' is none of truncate, allocate, read", argv[first]);
	o->path = argv[first + 1];
	if (o->every == unset)
		o->every = kinds[o->what].every;
	if (o->size == unset)
		o->size = kinds[o->what].size;
	if (o->what == READ && (o->size % DIRECT_ALIGN || o->size > UINT64_C(1) << 30))
		die_usage("--size: must be a multiple of 4096, at most 1G");
	if (o->direct && o->what != READ)
		die_usage("--direct goes with read only");
	if (o->replace && o->what == READ)
		die_usage("--replace goes with truncate and allocate only");
	if (!o->every && o->what != READ)
		die_usage("--every: must be longer than 0");
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
		die("opening %s: its file system has no direct I/O", o->path);
	if (d->fd < 0)
		die("opening %s: %s", o->path, strerror(errno));
	d->size = target_size(d->fd, o->path);
	if (!d->size)
		die("%s is empty", o->path);
	d->memory = alloc_buffer(o->size);
	clean_cache(d->fd, o->path);
}

static void resize(struct disturber *d, uint64_t size)
{
	if (ftruncate(d->fd, (off_t)size))
		die("cutting %s: %s", d->o->path, strerror(errno));
	d->size = size;
}

static void allocate(struct disturber *d, uint64_t size)
{
	if (fallocate(d->fd, 0, 0, (off_t)size))
		die("allocating %llu bytes for %s: %s", (unsigned long long)size, d->o->path,
		    strerror(errno));
	d->size = size;
}

/* the calls that are measured; what makes them possible goes before */
static uint64_t cut_once(struct disturber *d)
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
		die("reading %s: %s", d->o->path, strerror(errno));
	if (!n)
		die("reading %s: it ended early (has it been cut short?)", d->o->path);
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
		return cut_once(d);
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
		die("writing the summary: %s", strerror(errno));
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
		/* nothing is caught up with: a disturber that lags must not become a storm */
		for (due += o.every; due + o.every <= now_ns(); due += o.every)
			d.skipped++;
		sleep_until(due < stop ? due : stop);
	}
	summary(&d, now_ns() - start);
	if (o.what != READ && unlink(o.path))
		die("removing %s: %s", o.path, strerror(errno));
	return 0;
}
