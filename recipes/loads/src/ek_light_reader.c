// SPDX-License-Identifier: Apache-2.0
/*
 * ek-light-reader: a light reader. It plans reads at fixed intervals. The time of a read that had to
 * wait for an earlier one counts from its planned moment. (A reader that plans its next read
 * when the previous one completes takes few samples while a device is slow.) A read that
 * begins late because the processor was busy counts from its begin: it waited for no device.
 *
 * Several threads share the reads, so one slow read does not hold up all others. Their
 * intervals have no common divisor, so the threads never read in step.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../common/src/hist.h"
#include "options.h"
#include "util.h"

#define MAX_READERS 1024
/* the longest time until a thread notices that the program stops, ns */
#define STEP (100 * NSEC_PER_MSEC)

struct options {
	char **paths;
	unsigned int files;
	unsigned int rate;    /* reads per second of all threads together */
	unsigned int readers; /* number of threads */
	unsigned int seed;
	uint64_t size;	   /* bytes of one read */
	uint64_t offset;   /* where the area begins, bytes */
	uint64_t length;   /* size of the area, bytes; 0: to the end */
	uint64_t settle;   /* reads planned earlier than this after the start do not count, ns */
	uint64_t duration; /* ns; 0: until SIGTERM */
	const char *log;
	bool buffered;
	bool json;
};

/* One read, ns: its planned moment on CLOCK_MONOTONIC, and its time. */
struct sample {
	uint64_t planned;
	uint64_t took;
};

/* A file and the blocks of `size` bytes in its area. */
struct file {
	const char *path;
	int fd;
	uint64_t blocks;
};

/* All fields but `thread` belong to the thread until it has ended. */
struct reader {
	const struct options *o;
	const struct file *files;
	pthread_t thread;
	uint64_t interval; /* ns from one planned moment to the next */
	uint64_t first;	   /* the first planned moment, ns */
	uint64_t end;	   /* no read is planned for this time or later, ns */
	uint64_t random;   /* state of the sequence of blocks */
	struct sample *samples;
	size_t count, room;
};

/* The thread that fails first keeps it until the program has ended. */
static pthread_mutex_t failing = PTHREAD_MUTEX_INITIALIZER;

static void parse_options(int argc, char **argv, struct options *o)
{
	const struct opt opts[] = {
		{ "rate", OPT_COUNT, &o->rate, .min = 1, .max = 100000, .arg = "N",
		  .help = "reads per second (default 100)" },
		{ "readers", OPT_COUNT, &o->readers, .min = 1, .max = MAX_READERS, .arg = "N",
		  .help = "number of threads that share the reads (default 8)" },
		{ "size", OPT_BYTES, &o->size, .min = 1, .max = UINT64_C(1) << 30, .arg = "BYTES",
		  .help = "size of one read (default 4K)" },
		{ "offset", OPT_BYTES, &o->offset, .arg = "BYTES",
		  .help = "where the area begins (default 0)" },
		{ "length", OPT_BYTES, &o->length, .min = 1, .arg = "BYTES",
		  .help = "size of the area (default: to the end)" },
		{ "buffered", OPT_FLAG, &o->buffered, .help = "read through the page cache" },
		{ "seed", OPT_COUNT, &o->seed, .max = UINT32_MAX, .arg = "N",
		  .help = "seed of the random places (default 1)" },
		{ "settle", OPT_TIME, &o->settle, .arg = "TIME",
		  .help = "reads planned for this time after the start do not count (default 0)" },
		{ "duration", OPT_TIME, &o->duration, .min = 1, .arg = "TIME",
		  .help = "end after this time (default: at SIGTERM)" },
		{ "log", OPT_TEXT, &o->log, .arg = "FILE",
		  .help = "write the planned moment (CLOCK_MONOTONIC) and the time of each read, ns" },
		{ "json", OPT_FLAG, &o->json, .help = "print the summary as JSON" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] FILE...",
		.about =
			"Reads random places of FILE at planned moments, and measures how long each read takes.",
		.positional = "one file to read, or more",
		.positionals = 1,
		.more = true,
		.opts = opts,
	};
	int first;

	*o = (struct options){ .rate = 100, .readers = 8, .size = 4096, .seed = 1 };
	first = opt_parse(argc, argv, &program);
	o->paths = argv + first;
	o->files = (unsigned int)(argc - first);
	if (!o->buffered && (o->size % DIRECT_ALIGN || o->offset % DIRECT_ALIGN))
		die_usage("--size and --offset must be multiples of %llu bytes without --buffered",
			  (unsigned long long)DIRECT_ALIGN);
	if (o->duration && o->settle >= o->duration)
		die_usage("--settle must be shorter than --duration");
}

static void open_file(const struct options *o, struct file *f, const char *path)
{
	uint64_t size;

	f->path = path;
	f->fd = open(path, O_RDONLY | O_CLOEXEC | (o->buffered ? 0 : O_DIRECT));
	if (f->fd < 0)
		die("cannot open %s: %s", path, strerror(errno));
	size = target_size(f->fd, path);
	if (o->offset > size || o->length > size - o->offset)
		die("%s has only %llu bytes, less than --offset and --length together", path,
		    (unsigned long long)size);
	f->blocks = (o->length ? o->length : size - o->offset) / o->size;
	if (!f->blocks)
		die("the area of %s is smaller than one read of %llu bytes", path,
		    (unsigned long long)o->size);
	/* Read-ahead would read what nobody asked for. */
	if (o->buffered)
		posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
}

static void add(struct reader *r, uint64_t planned, uint64_t took)
{
	if (r->count == r->room) {
		r->room = r->room ? 2 * r->room : 1024;
		r->samples = realloc(r->samples, r->room * sizeof(*r->samples));
		if (!r->samples)
			die("out of memory");
	}
	r->samples[r->count++] = (struct sample){ planned, took };
}

static void read_one(struct reader *r, void *buffer)
{
	const struct file *f = &r->files[noise_next(&r->random) % r->o->files];
	uint64_t at = r->o->offset + noise_next(&r->random) % f->blocks * r->o->size;
	ssize_t got = pread(f->fd, buffer, r->o->size, (off_t)at);

	if (got != (ssize_t)r->o->size) {
		/* exit() is for one thread only */
		pthread_mutex_lock(&failing);
		die("cannot read %s: %s", f->path,
		    got < 0 ? strerror(errno) : "it has become shorter");
	}
}

/* Sleeps until @planned, or until the program stops. A signal wakes only one of the threads. */
static void sleep_in_steps(uint64_t planned)
{
	uint64_t now;

	while (!stopping && (now = now_ns()) < planned)
		sleep_until(planned - now < STEP ? planned : now + STEP);
}

/*
 * A thread that wakes takes the processor from another one only if its slice ends earlier. So
 * without this, a read would begin when the slice of some busy program ends. Kernels before
 * 6.12 ignore the length of the slice.
 */
static void shorten_slice(void)
{
	struct {
		uint32_t size;
		uint32_t policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime; /* length of the slice, ns */
		uint64_t deadline;
		uint64_t period;
	} attr = {
		.size = sizeof(attr),
		.policy = SCHED_OTHER,
		.nice = getpriority(PRIO_PROCESS, 0),
		.runtime = 100000,
	};

	if (sched_getscheduler(0) != SCHED_OTHER)
		return;
	/* A sandbox may refuse it. Then some reads begin late, and count as late. */
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *read_all(void *arg)
{
	struct reader *r = arg;
	void *buffer = alloc_buffer(r->o->size);
	uint64_t planned, took = 0;

	/* By default, a timer may be late by 50 us. */
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	shorten_slice();
	for (planned = r->first; planned < r->end; planned += r->interval) {
		uint64_t begin;

		sleep_in_steps(planned);
		begin = now_ns();
		if (stopping || begin >= r->end)
			break;
		read_one(r, buffer);
		/* what is left of the wait for the previous read */
		took = took > r->interval ? took - r->interval : 0;
		took += now_ns() - begin;
		add(r, planned, took);
	}
	/* What had to wait for the last read, and has not begun, has waited until its end. */
	for (; planned < r->end && took > r->interval; planned += r->interval) {
		took -= r->interval;
		add(r, planned, took);
	}
	munmap(buffer, r->o->size);
	return NULL;
}

/*
 * Plans the reads of all threads. Before they are scaled to --rate, the rate of thread i is 3/4
 * plus half of the fraction of the square root of the i-th prime. Such square roots have no
 * common divisor.
 */
static void plan(struct reader *readers, const struct options *o, uint64_t now)
{
	double parts[MAX_READERS], sum = 0;
	unsigned int i = 0;

	for (unsigned int n = 2; i < o->readers; n++) {
		unsigned int d = 2;

		while (d * d <= n && n % d)
			d++;
		if (d * d <= n)
			continue;
		parts[i] = 0.75 + 0.5 * (sqrt(n) - floor(sqrt(n)));
		sum += parts[i++];
	}
	for (i = 0; i < o->readers; i++) {
		struct reader *r = &readers[i];

		r->interval = (uint64_t)(1e9 * sum / (o->rate * parts[i]));
		r->random = noise_seed(((uint64_t)o->seed << 32) + i);
		/* A random first moment: the threads do not all begin at once. */
		r->first = now + noise_next(&r->random) % r->interval;
		r->end = o->duration ? now + o->duration : UINT64_MAX;
	}
}

static void summary(const struct options *o, const struct reader *readers, uint64_t begin)
{
	FILE *log = NULL;
	struct hist h = { 0 };

	if (o->log) {
		log = fopen(o->log, "we");
		if (!log)
			die("cannot create %s: %s", o->log, strerror(errno));
	}
	for (unsigned int i = 0; i < o->readers; i++) {
		for (size_t k = 0; k < readers[i].count; k++) {
			const struct sample *s = &readers[i].samples[k];

			if (s->planned < begin)
				continue;
			hist_add(&h, s->took);
			if (log)
				fprintf(log, "%llu %llu\n", (unsigned long long)s->planned,
					(unsigned long long)s->took);
		}
	}
	if (log && (ferror(log) | fclose(log)))
		die("cannot write %s: %s", o->log, strerror(errno));
	if (o->json) {
		printf("{\"reads\":%llu,", (unsigned long long)h.count);
		hist_json(stdout, "read", &h);
		puts("}");
	} else {
		printf("%llu reads of %llu bytes: min %.0f, mean %.0f, p99 %.0f, p99.9 %.0f, max %.0f us\n",
		       (unsigned long long)h.count, (unsigned long long)o->size,
		       (double)h.min / 1e3, (double)hist_mean(&h) / 1e3,
		       (double)hist_percentile(&h, 9900) / 1e3,
		       (double)hist_percentile(&h, 9990) / 1e3, (double)h.max / 1e3);
	}
	if (fflush(stdout))
		die("cannot write the summary: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	static struct reader readers[MAX_READERS];
	struct options o;
	struct file *files;
	uint64_t begin;

	parse_options(argc, argv, &o);
	files = calloc(o.files, sizeof(*files));
	if (!files)
		die("out of memory");
	for (unsigned int i = 0; i < o.files; i++)
		open_file(&o, &files[i], o.paths[i]);
	catch_signals(NULL);

	begin = now_ns();
	plan(readers, &o, begin);
	for (unsigned int i = 0; i < o.readers; i++) {
		int err;

		readers[i].o = &o;
		readers[i].files = files;
		err = pthread_create(&readers[i].thread, NULL, read_all, &readers[i]);
		if (err)
			die("cannot start a thread: %s", strerror(err));
	}
	for (unsigned int i = 0; i < o.readers; i++)
		pthread_join(readers[i].thread, NULL);
	summary(&o, readers, begin + o.settle);
	return 0;
}
