// SPDX-License-Identifier: Apache-2.0
/*
 * ek-pairs: how long reads take that are issued at once. `ekctl probe` plans
 * the reads and draws the conclusions; nothing is decided here.
 *
 * Standard input has one line a measurement: one offset, or two, in bytes.
 * Standard output is one JSON object: "ns" has the time of each line, from
 * before it is submitted until all its reads are back. Lines are measured in
 * order, the next when the one before is over; with --seconds, those that
 * there is time for.
 *
 * It only reads. Both reads go down in one system call: io_submit() hands on
 * each at once as long as there are at most two, where io_uring would need a
 * kernel that allows it.
 *
 * Exit status: 0, 1 (reading failed), 2 (wrong usage or bad input), with one line
 * on standard error.
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
#define MOST_BYTES   (1U << 20)
#define MOST_SECONDS 3600U
/* 24 MB of memory; a probe has some ten thousand */
#define MOST_LINES 1000000U

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
	"Times direct reads that are issued at once; a line of PLAN is one offset or two.\n\n"
	"  --bytes N    of each read (default 4096)\n"
	"  --seconds N  measure no more lines after that time (default: all)\n";

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

/* a whole number at the beginning of text, which ends up behind it */
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

static unsigned int option(const char *name, const char *text, unsigned int most)
{
	const char *at = text;
	uint64_t value;

	if (!number(&at, &value) || *at || !value || value > most)
		fail(2, "--%s: '%s' is not a whole number from 1 to %u", name, text, most);
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

/* the lines of standard input, whose reads of `bytes` lie within `size` */
static struct plan read_plan(unsigned int bytes, uint64_t size)
{
	struct plan plan = { 0 };
	size_t room = 0, length = 0;
	char *text = NULL;

	while (getline(&text, &length, stdin) > 0) {
		struct line *line;

		if (plan.count == MOST_LINES)
			fail(2, "the plan has more than %u lines", MOST_LINES);
		if (plan.count == room) {
			room = room ? 2 * room : 1024;
			plan.lines = reallocarray(plan.lines, room, sizeof(*plan.lines));
			if (!plan.lines)
				fail(1, "getting memory for the plan: %s", strerror(ENOMEM));
		}
		line = &plan.lines[plan.count++];
		if (!parse_line(text, line))
			fail(2, "line %zu of the plan is not one or two offsets", plan.count);
		for (unsigned int i = 0; i < line->reads; i++) {
			if (line->offset[i] % bytes)
				fail(2, "line %zu of the plan: %llu is no multiple of %u",
				     plan.count, (unsigned long long)line->offset[i], bytes);
			if (size < bytes || line->offset[i] > size - bytes)
				fail(2, "line %zu of the plan: %llu is beyond the end", plan.count,
				     (unsigned long long)line->offset[i]);
		}
	}
	if (ferror(stdin))
		fail(1, "reading the plan: %s", strerror(errno));
	free(text);
	return plan;
}

static uint64_t size_of(int fd, const char *path)
{
	struct stat st;
	uint64_t bytes;

	if (fstat(fd, &st))
		fail(1, "looking at %s: %s", path, strerror(errno));
	if (S_ISREG(st.st_mode))
		return (uint64_t)st.st_size;
	if (!S_ISBLK(st.st_mode))
		fail(2, "%s is neither a block device nor a file", path);
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		fail(1, "asking %s for its size: %s", path, strerror(errno));
	return bytes;
}

/* ns from before the submission until all reads of the line are back */
static uint64_t measure(io_context_t context, int fd, const char *path, const struct line *line,
			unsigned char *memory, unsigned int bytes)
{
	struct iocb reads[2], *each[2] = { &reads[0], &reads[1] };
	struct io_event events[2];
	unsigned int back = 0;
	uint64_t begin, end;
	int ret;

	for (unsigned int i = 0; i < line->reads; i++)
		io_prep_pread(&reads[i], fd, memory + (size_t)i * bytes, bytes,
			      (long long)line->offset[i]);
	begin = now_ns();
	ret = io_submit(context, (long)line->reads, each);
	if (ret < 0)
		fail(1, "submitting reads of %s: %s", path, strerror(-ret));
	/* fewer than asked for: the time would not be that of a pair */
	if ((unsigned int)ret < line->reads)
		fail(1, "submitting reads of %s: only %d of %u were taken", path, ret, line->reads);
	while (back < line->reads) {
		ret = io_getevents(context, (long)(line->reads - back), 2, events + back, NULL);
		if (ret == -EINTR)
			continue;
		if (ret < 0)
			fail(1, "waiting for %s: %s", path, strerror(-ret));
		back += (unsigned int)ret;
	}
	end = now_ns();
	for (unsigned int i = 0; i < back; i++) {
		long long at = events[i].obj->u.c.offset;
		long res = (long)events[i].res;

		if (res < 0)
			fail(1, "reading %s at %lld: %s", path, at, strerror((int)-res));
		if (res != (long)bytes)
			fail(1, "reading %s at %lld: only %ld bytes came back", path, at, res);
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
			bytes = option("bytes", optarg, MOST_BYTES);
			break;
		case 's':
			seconds = option("seconds", optarg, MOST_SECONDS);
			break;
		case 'h':
			fputs(usage, stdout);
			return fflush(stdout) ? 1 : 0;
		default:
			fail(2, "%s: no such option, or its value is missing (see --help)",
			     argv[optind - 1]);
		}
	}
	/* direct I/O wants sectors, and the buffers lie side by side */
	if (bytes % 512)
		fail(2, "--bytes: %u is no multiple of 512", bytes);
	if (argc - optind != 1)
		fail(2, "give one device, not %d (see --help)", argc - optind);
	path = argv[optind];
	fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0 && errno == EINVAL)
		fail(2, "%s has no direct I/O", path);
	if (fd < 0)
		fail(1, "opening %s: %s", path, strerror(errno));
	plan = read_plan(bytes, size_of(fd, path));
	memory = mmap(NULL, 2 * (size_t)bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		fail(1, "getting memory for two reads: %s", strerror(errno));
	ret = io_setup(2, &context);
	if (ret < 0)
		fail(1, "setting up asynchronous reads: %s", strerror(-ret));

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
		fail(1, "writing the times: %s", strerror(errno));
	return 0;
}
