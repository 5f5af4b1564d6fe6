// SPDX-License-Identifier: Apache-2.0
/*
 * ek-pairs: measures how long single reads take, and pairs of reads that are issued
 * at once. ek-validate chooses the reads and evaluates the times.
 *
 * Standard input has one line per measurement: one offset or two, in bytes.
 * Standard output is one JSON object. Its "ns" is a list with the time of each
 * line, from before the submission until all reads of the line have completed.
 * The program measures the lines in order, one after the other. With --seconds, it
 * stops after that time; "ns" then has fewer entries than the plan has lines.
 *
 * The program never writes to the disk. One call of io_submit() submits both reads of
 * a line. The kernel passes them to the device without delay: it collects (plugs) only
 * batches of more than two. io_uring could do the same, but some kernels disable it.
 *
 * Exit status: 0, 1 (reading failed), 2 (wrong usage or bad input). On failure,
 * standard error has one line.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libaio.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC UINT64_C(1000000000)
#define MAX_BYTES    (1U << 20)
#define MAX_SECONDS  3600U
/* the longest plan, which needs 24 MB of memory; a plan of ek-validate has about 50,000 lines */
#define MAX_LINES 1000000U

struct line {
	uint64_t offset[2]; /* bytes */
	unsigned int reads; /* 1 or 2 */
};

struct plan {
	struct line *lines;
	size_t count;
};

static const char usage[] =
	"Usage: ek-pairs [--bytes N] [--seconds N] DEVICE < PLAN\n"
	"Measures how long direct reads take. A line of PLAN has one offset in bytes, or two: then\n"
	"both reads are issued at once.\n\n"
	"  --bytes N    size of each read (default 4096)\n"
	"  --seconds N  stop after this time (default: measure all lines)\n";

static _Noreturn void fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static _Noreturn void fail(int status, const char *fmt, ...)
{
	va_list ap;

	fputs("ek-pairs: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(status);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Parse the whole number at the start of *text, and move *text behind it. False without one. */
static bool number(const char **text, uint64_t *value)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	*text = end;
	return !errno;
}

static unsigned int option(const char *name, const char *text, unsigned int max)
{
	const char *at = text;
	uint64_t value;

	if (!number(&at, &value) || *at || !value || value > max)
		fail(2, "--%s: '%s' is not a whole number from 1 to %u", name, text, max);
	return (unsigned int)value;
}

static bool parse_line(const char *text, struct line *line)
{
	for (line->reads = 0; line->reads < 2; line->reads++) {
		if (line->reads && *text++ != ' ')
			return false;
		if (!number(&text, &line->offset[line->reads]))
			return false;
		if (*text == '\n' || !*text) {
			line->reads++;
			return true;
		}
	}
	return false;
}

/*
 * Read the plan from standard input. Ends the program if a line is bad, or if a read of `bytes`
 * bytes would extend beyond `size`, the size of the device in bytes.
 */
static struct plan read_plan(unsigned int bytes, uint64_t size)
{
	struct plan plan = { 0 };
	size_t capacity = 0, length = 0;
	char *text = NULL;

	while (getline(&text, &length, stdin) > 0) {
		struct line *line;

		if (plan.count == MAX_LINES)
			fail(2, "the plan has more than %u lines", MAX_LINES);
		if (plan.count == capacity) {
			capacity = capacity ? 2 * capacity : 1024;
			plan.lines = reallocarray(plan.lines, capacity, sizeof(*plan.lines));
			if (!plan.lines)
				fail(1, "allocating memory for the plan failed: %s",
				     strerror(ENOMEM));
		}
		line = &plan.lines[plan.count++];
		if (!parse_line(text, line))
			fail(2, "line %zu of the plan is not one or two offsets", plan.count);
		for (unsigned int i = 0; i < line->reads; i++) {
			if (line->offset[i] % bytes)
				fail(2, "line %zu of the plan: %llu is not a multiple of %u",
				     plan.count, (unsigned long long)line->offset[i], bytes);
			if (size < bytes || line->offset[i] > size - bytes)
				fail(2,
				     "line %zu of the plan: %llu is beyond the end of the device",
				     plan.count, (unsigned long long)line->offset[i]);
		}
	}
	if (ferror(stdin))
		fail(1, "reading the plan failed: %s", strerror(errno));
	free(text);
	return plan;
}

static uint64_t size_of(int fd, const char *path)
{
	struct stat st;
	uint64_t bytes;

	if (fstat(fd, &st))
		fail(1, "examining %s failed: %s", path, strerror(errno));
	if (S_ISREG(st.st_mode))
		return (uint64_t)st.st_size;
	if (!S_ISBLK(st.st_mode))
		fail(2, "%s is neither a block device nor a file", path);
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		fail(1, "getting the size of %s failed: %s", path, strerror(errno));
	return bytes;
}

/* Returns the time from before the submission until all reads of the line have completed (ns). */
static uint64_t measure(io_context_t context, int fd, const char *path, const struct line *line,
			unsigned char *memory, unsigned int bytes)
{
	struct iocb reads[2], *each[2] = { &reads[0], &reads[1] };
	struct io_event events[2];
	unsigned int completed = 0;
	uint64_t begin, end;
	int ret;

	for (unsigned int i = 0; i < line->reads; i++)
		io_prep_pread(&reads[i], fd, memory + (size_t)i * bytes, bytes,
			      (long long)line->offset[i]);
	begin = now_ns();
	ret = io_submit(context, (long)line->reads, each);
	if (ret < 0)
		fail(1, "submitting reads of %s failed: %s", path, strerror(-ret));
	/* if the kernel accepted only one of two reads, the time would be that of a single read */
	if ((unsigned int)ret < line->reads)
		fail(1, "submitting reads of %s failed: the kernel accepted only %d of %u", path,
		     ret, line->reads);
	while (completed < line->reads) {
		ret = io_getevents(context, (long)(line->reads - completed), 2, events + completed,
				   NULL);
		if (ret == -EINTR)
			continue;
		if (ret < 0)
			fail(1, "waiting for reads of %s failed: %s", path, strerror(-ret));
		completed += (unsigned int)ret;
	}
	end = now_ns();
	for (unsigned int i = 0; i < completed; i++) {
		long long at = events[i].obj->u.c.offset;
		long res = (long)events[i].res;

		if (res < 0)
			fail(1, "reading %s at %lld failed: %s", path, at, strerror((int)-res));
		if (res != (long)bytes)
			fail(1, "reading %s at %lld returned only %ld of %u bytes", path, at, res,
			     bytes);
	}
	return end - begin;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "bytes", required_argument, NULL, 'b' },
		{ "seconds", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	unsigned int bytes = 4096, seconds = 0;
	io_context_t context = NULL;
	unsigned char *memory;
	const char *path;
	struct plan plan;
	uint64_t stop;
	int fd, c, ret;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (c) {
		case 'b':
			bytes = option("bytes", optarg, MAX_BYTES);
			break;
		case 's':
			seconds = option("seconds", optarg, MAX_SECONDS);
			break;
		case 'h':
			fputs(usage, stdout);
			return fflush(stdout) ? 1 : 0;
		default:
			fail(2, "%s is not an option, or its value is missing; see --help",
			     argv[optind - 1]);
		}
	}
	/* direct I/O needs aligned sizes and buffers; the second buffer begins after the first */
	if (bytes % 512)
		fail(2, "--bytes: %u is not a multiple of 512", bytes);
	if (argc - optind != 1)
		fail(2, "expected one device, not %d; see --help", argc - optind);
	path = argv[optind];
	fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0 && errno == EINVAL)
		fail(2, "%s does not support direct I/O", path);
	if (fd < 0)
		fail(1, "opening %s failed: %s", path, strerror(errno));
	plan = read_plan(bytes, size_of(fd, path));
	memory = mmap(NULL, 2 * (size_t)bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		fail(1, "allocating memory for two reads failed: %s", strerror(errno));
	ret = io_setup(2, &context);
	if (ret < 0)
		fail(1, "setting up asynchronous I/O failed: %s", strerror(-ret));

	stop = seconds ? now_ns() + seconds * NSEC_PER_SEC : UINT64_MAX;
	printf("{\"bytes\":%u,\"ns\":[", bytes);
	for (size_t i = 0; i < plan.count && now_ns() < stop; i++)
		printf("%s%llu", i ? "," : "",
		       (unsigned long long)measure(context, fd, path, &plan.lines[i], memory,
						   bytes));
	puts("]}");
	io_destroy(context);
	close(fd);
	free(plan.lines);
	if (fflush(stdout))
		fail(1, "writing the times failed: %s", strerror(errno));
	return 0;
}
