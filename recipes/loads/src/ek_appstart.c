// SPDX-License-Identifier: Apache-2.0
/*
 * ek-appstart: does the many small reads with which an application starts. `run` has
 * three stages, one after the other. It maps the libraries. It reads the configuration
 * file by file. It reads pictures and fonts (the assets) with several threads.
 * `prepare` creates the files that `run` reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/src/hist.h"
#include "options.h"
#include "tree.h"
#include "util.h"

#define MANIFEST "manifest"
/* bytes of the largest read(), and bytes of a mapping that one latency sample covers */
#define PIECE (UINT64_C(64) << 10)
/* bytes that glibc's dynamic linker reads first: the ELF header and the program headers */
#define ELF_HEAD    832
#define MAX_THREADS 64

struct options {
	const char *dir;
	uint64_t total; /* size of all files together, bytes; 0: the sum of their random sizes */
	unsigned int files;
	unsigned int seed;
	unsigned int threads;
	bool prepare;
	bool cold;
	bool json;
	bool buckets;
};

struct app {
	const struct options *o;
	struct tree tree;
	int dir;
	uint64_t warm;			/* bytes that --cold could not drop from the page cache */
	uint64_t begin[TREE_KINDS + 1]; /* when each stage began, ns; last: when all ended */
	atomic_uint next;		/* index of the next asset to read */
	struct hist reads;		/* latencies, ns; open() counts to a file's first read */
};

struct reader {
	pthread_t thread;
	struct app *app;
	unsigned char *memory;
	struct hist reads;
};

static void parse_options(int argc, char **argv, struct options *o)
{
	const struct opt opts[] = {
		{ "files", OPT_COUNT, &o->files, .min = 1, .max = TREE_MAX_FILES, .arg = "N",
		  .help = "prepare: number of files (default 400)" },
		{ "total", OPT_BYTES, &o->total, .min = 1, .arg = "BYTES",
		  .help = "prepare: size of all files (default: random)" },
		{ "seed", OPT_COUNT, &o->seed, .max = UINT32_MAX, .arg = "N",
		  .help = "prepare: decides sizes, content and order (default 1)" },
		{ "threads", OPT_COUNT, &o->threads, .min = 1, .max = MAX_THREADS, .arg = "N",
		  .help = "run: threads that read the assets (default 4)" },
		{ "cold", OPT_FLAG, &o->cold,
		  .help = "run: first drop the files from the page cache (not inodes)" },
		{ "json", OPT_FLAG, &o->json, .help = "run: print the summary as JSON" },
		{ "buckets", OPT_FLAG, &o->buckets, .help = "run: add the latency histogram" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] prepare|run DIR",
		.about = "prepare  creates DIR with the files of an application\n"
			 "run      reads them like the application when it starts",
		.positional = "prepare or run, and one folder",
		.positionals = 2,
		.opts = opts,
	};
	int first;

	*o = (struct options){ .seed = UINT32_MAX };
	first = opt_parse(argc, argv, &program);
	o->prepare = !strcmp(argv[first], "prepare");
	if (!o->prepare && strcmp(argv[first], "run") != 0)
		die_usage("'%s' is not one of: prepare, run", argv[first]);
	if (o->prepare && (o->threads || o->cold || o->json || o->buckets))
		die_usage("--threads, --cold, --json and --buckets are for run only");
	if (!o->prepare && (o->files || o->total || o->seed != UINT32_MAX))
		die_usage("--files, --total and --seed are for prepare only");
	o->dir = argv[first + 1];
	if (!o->files)
		o->files = 400;
	if (o->seed == UINT32_MAX)
		o->seed = 1;
	if (!o->threads)
		o->threads = 4;
}

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		die("cannot open %s: %s", path, strerror(errno));
	return fd;
}

static void write_file(const struct app *a, const char *path, const void *from, uint64_t bytes)
{
	int fd = openat(a->dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		die("cannot create %s/%s: %s", a->o->dir, path, strerror(errno));
	write_all(fd, from, bytes, path);
	if (close(fd))
		die("cannot write %s/%s: %s", a->o->dir, path, strerror(errno));
}

static void prepare(struct app *a)
{
	const struct options *o = a->o;
	const char *wrong = tree_plan(&a->tree, o->files, o->seed, o->total);
	unsigned char *memory = alloc_buffer(TREE_MAX_FILE);
	char text[128], path[32];

	if (wrong)
		die_usage("%s", wrong);
	if (mkdir(o->dir, 0755))
		die("cannot create %s: %s", o->dir, strerror(errno));
	a->dir = open_dir(o->dir);
	for (unsigned int kind = 0; kind < TREE_KINDS; kind++)
		if (mkdirat(a->dir, tree_folders[kind], 0755))
			die("cannot create %s/%s: %s", o->dir, tree_folders[kind], strerror(errno));
	for (unsigned int i = 0; i < a->tree.files; i++) {
		const struct tree_file *f = &a->tree.file[i];

		fill_noise(memory, f->size, ((uint64_t)o->seed << 32) + f->number);
		write_file(a, tree_path(f, path), memory, f->size);
	}
	/*
	 * Write the pages back, so that `run` can drop them from the page cache. Then write the
	 * manifest, as the last file: `run` refuses a tree without a manifest as incomplete.
	 */
	if (syncfs(a->dir))
		die("cannot sync %s: %s", o->dir, strerror(errno));
	tree_print(&a->tree, text, sizeof(text));
	write_file(a, MANIFEST, text, strlen(text));
	if (syncfs(a->dir))
		die("cannot sync %s: %s", o->dir, strerror(errno));
	printf("%s: %u files, %.1f MB\n", o->dir, a->tree.files, (double)a->tree.total / 1e6);
}

static void read_manifest(struct app *a)
{
	int fd = openat(a->dir, MANIFEST, O_RDONLY | O_CLOEXEC);
	const char *wrong;
	char text[128];
	ssize_t n;

	if (fd < 0)
		die("cannot open %s/" MANIFEST ": %s. 'ek-appstart prepare' writes it", a->o->dir,
		    strerror(errno));
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		die("cannot read %s/" MANIFEST ": %s", a->o->dir, strerror(errno));
	text[n] = 0;
	close(fd);
	wrong = tree_parse(&a->tree, text);
	if (wrong)
		die("cannot read %s/" MANIFEST ": %s", a->o->dir, wrong);
}

/* opens a file of the tree; ends the program if the file's size differs from the plan */
static int open_file(const struct app *a, const struct tree_file *f, char path[32])
{
	int fd = openat(a->dir, tree_path(f, path), O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		die("cannot open %s/%s: %s", a->o->dir, path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != f->size)
		die("%s/%s has changed since it was prepared: it has %lld bytes, not %llu",
		    a->o->dir, path, (long long)st.st_size, (unsigned long long)f->size);
	return fd;
}

static void *map_file(const struct app *a, const struct tree_file *f, int fd, const char *path)
{
	void *map = mmap(NULL, (size_t)f->size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (map == MAP_FAILED)
		die("cannot map %s/%s: %s", a->o->dir, path, strerror(errno));
	return map;
}

/* drops all files from the page cache, and counts in a->warm the bytes that remain cached */
static void make_cold(struct app *a)
{
	unsigned char resident[TREE_MAX_FILE / 4096];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char path[32];

	for (unsigned int i = 0; i < a->tree.files; i++) {
		const struct tree_file *f = &a->tree.file[i];
		int fd = open_file(a, f, path);
		void *map;

		drop_cache(fd, path);
		map = map_file(a, f, fd, path);
		if (mincore(map, (size_t)f->size, resident))
			die("cannot tell whether %s/%s is in the page cache: %s", a->o->dir, path,
			    strerror(errno));
		for (uint64_t n = 0; n < (f->size + page - 1) / page; n++)
			a->warm += resident[n] & 1 ? page : 0;
		munmap(map, (size_t)f->size);
		close(fd);
	}
	if (a->warm)
		warn("%llu bytes are still in the page cache: they are in use, or not on a disk",
		     (unsigned long long)a->warm);
}

/* adds the time from *begin to now as a sample, and sets *begin to now for the next sample */
static void sample(struct hist *h, uint64_t *begin)
{
	uint64_t now = now_ns();

	hist_add(h, now - *begin);
	*begin = now;
}

static void read_file(const struct app *a, const struct tree_file *f, unsigned char *memory,
		      struct hist *reads)
{
	uint64_t begin = now_ns(), done = 0;
	char path[32];
	int fd = open_file(a, f, path);

	while (done < f->size) {
		ssize_t n = read(fd, memory, PIECE);

		if (n <= 0)
			die("cannot read %s/%s: %s", a->o->dir, path,
			    n ? strerror(errno) : "unexpected end of file");
		done += (uint64_t)n;
		sample(reads, &begin);
	}
	close(fd);
}

/* reads a library like the dynamic linker: read() for the head, page faults for the rest */
static void map_library(const struct app *a, const struct tree_file *f, struct hist *reads)
{
	uint64_t begin = now_ns();
	unsigned char head[ELF_HEAD];
	volatile unsigned char *map;
	char path[32];
	int fd = open_file(a, f, path);

	if (read(fd, head, sizeof(head)) != (ssize_t)sizeof(head))
		die("cannot read %s/%s: %s", a->o->dir, path, strerror(errno));
	sample(reads, &begin);
	map = map_file(a, f, fd, path);
	close(fd);
	for (uint64_t at = 0; at < f->size; at += 4096) {
		(void)map[at];
		if ((at + 4096) % PIECE == 0 || at + 4096 >= f->size)
			sample(reads, &begin);
	}
	munmap((void *)(uintptr_t)map, (size_t)f->size);
}

static void *read_assets(void *arg)
{
	struct reader *r = arg;
	struct app *a = r->app;
	unsigned int i;

	while ((i = atomic_fetch_add(&a->next, 1)) < a->tree.first[TREE_ASSET + 1])
		read_file(a, &a->tree.file[i], r->memory, &r->reads);
	return NULL;
}

static void read_in_threads(struct app *a)
{
	struct reader *readers = calloc(a->o->threads, sizeof(*readers));
	int err;

	if (!readers)
		die("no memory for %u threads: %s", a->o->threads, strerror(ENOMEM));
	a->next = a->tree.first[TREE_ASSET];
	for (unsigned int i = 0; i < a->o->threads; i++) {
		readers[i].app = a;
		readers[i].memory = alloc_buffer(PIECE);
		err = pthread_create(&readers[i].thread, NULL, read_assets, &readers[i]);
		if (err)
			die("cannot start a thread: %s", strerror(err));
	}
	for (unsigned int i = 0; i < a->o->threads; i++) {
		pthread_join(readers[i].thread, NULL);
		hist_merge(&a->reads, &readers[i].reads);
	}
	free(readers);
}

static void run_stages(struct app *a)
{
	unsigned char *memory = alloc_buffer(PIECE);

	for (unsigned int kind = 0; kind < TREE_KINDS; kind++) {
		a->begin[kind] = now_ns();
		if (kind == TREE_ASSET) {
			read_in_threads(a);
			continue;
		}
		for (unsigned int i = a->tree.first[kind]; i < a->tree.first[kind + 1]; i++) {
			if (kind == TREE_LIBRARY)
				map_library(a, &a->tree.file[i], &a->reads);
			else
				read_file(a, &a->tree.file[i], memory, &a->reads);
		}
	}
	a->begin[TREE_KINDS] = now_ns();
}

static double stage_ms(const struct app *a, unsigned int from, unsigned int to)
{
	return (double)(a->begin[to] - a->begin[from]) / 1e6;
}

static void summary(const struct app *a)
{
	double total = stage_ms(a, 0, TREE_KINDS);

	if (a->o->json) {
		printf("{\"total_ms\":%.3f,\"libraries_ms\":%.3f,\"configuration_ms\":%.3f,"
		       "\"assets_ms\":%.3f,\"files\":%u,\"bytes\":%llu,\"warm_bytes\":%llu,\"reads\":%llu,",
		       total, stage_ms(a, TREE_LIBRARY, TREE_CONFIG),
		       stage_ms(a, TREE_CONFIG, TREE_ASSET), stage_ms(a, TREE_ASSET, TREE_KINDS),
		       a->tree.files, (unsigned long long)a->tree.total,
		       (unsigned long long)a->warm, (unsigned long long)a->reads.count);
		hist_json(stdout, "read", &a->reads);
		if (a->o->buckets)
			hist_json_buckets(stdout, "read", &a->reads);
		puts("}");
	} else {
		printf("started in %.1f ms: %u files, %.1f MB, %.1f MB/s; reads took %.0f us (median), "
		       "%.0f (p99), %.0f (max)\n",
		       total, a->tree.files, (double)a->tree.total / 1e6,
		       total > 0 ? (double)a->tree.total / 1e3 / total : 0.0,
		       (double)hist_percentile(&a->reads, 5000) / 1e3,
		       (double)hist_percentile(&a->reads, 9900) / 1e3, (double)a->reads.max / 1e3);
	}
}

/* The kernel sends SIGBUS if it cannot read a page of a mapping from the device. */
static void on_bus_error(int sig)
{
	static const char text[] = "ek-appstart: cannot read a library: I/O error\n";

	(void)sig;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(1);
	_exit(1);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_bus_error };
	static struct app a;
	struct options o;

	parse_options(argc, argv, &o);
	a.o = &o;
	if (o.prepare) {
		prepare(&a);
	} else {
		sigaction(SIGBUS, &sa, NULL);
		a.dir = open_dir(o.dir);
		read_manifest(&a);
		if (o.cold)
			make_cold(&a);
		run_stages(&a);
		summary(&a);
	}
	tree_free(&a.tree);
	if (fflush(stdout))
		die("cannot write the summary: %s", strerror(errno));
	return 0;
}
