// SPDX-License-Identifier: Apache-2.0
/*
 * ek-writer: records periodic data with write(), like a control unit, and
 * measures how long each write() takes. Options choose how blocks are allocated
 * and how data get to the flash. They cover the cases of Okabe and Toyama,
 * "Reducing File Write Latency for Real-Time Data Recording" (2020), section 4.1.
 *
 * If the writes of a set do not fit into one file, several recordings follow one
 * another, each into a new file. The work between two recordings does not count as a
 * late write, as in the paper's figure 3. It consists of truncation and the last sync of
 * the old file, and creation and allocation of the new file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/src/hist.h"
#include "options.h"
#include "util.h"

enum allocate { ALLOCATE_APPEND, ALLOCATE_PREALLOCATE };
enum sync { SYNC_NONE, SYNC_FDATASYNC, SYNC_RANGE };

struct options {
	const char *path;
	uint64_t record;       /* bytes of one write() */
	uint64_t every;	       /* ns from one write() to the next */
	uint64_t total;	       /* maximum size of a recording, bytes */
	uint64_t sync_every;   /* bytes from one sync to the next */
	uint64_t duration;     /* ns; 0: until everything is written */
	unsigned int writes;   /* write() calls of all recordings; 0: one recording */
	unsigned int allocate; /* enum allocate */
	unsigned int sync;     /* enum sync */
	bool sync_thread;
	bool replace;
	bool json;
	bool buckets;
};

/*
 * The syncs of one recording. `lock` protects `written` and `end`. `synced` and
 * `syncs` belong to the thread that syncs. With --sync-thread this is the sync thread,
 * and the writer uses both fields only while no sync thread runs. Without it, this is
 * the writer.
 */
struct flush {
	const struct options *o;
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	uint64_t written;  /* bytes written so far */
	uint64_t synced;   /* bytes synced so far */
	struct hist syncs; /* durations, ns; of all recordings */
	int fd;
	bool end; /* the writer will write nothing more to this recording */
};

struct writer {
	const struct options *o;
	struct flush flush;
	unsigned char *memory;
	struct hist latency;  /* time of each write(), ns */
	struct hist setup;    /* time to create and allocate, ns; one sample per recording */
	struct hist finish;   /* time to truncate and sync, ns; one sample per recording */
	uint64_t start;	      /* when the program started to record, ns */
	uint64_t stop;	      /* when --duration ends, ns */
	uint64_t late;	      /* writes that began after the end of their period */
	uint64_t worst_delay; /* longest time from a period's begin to its write, ns */
};

static void parse_options(int argc, char **argv, struct options *o)
{
	static const char *const allocates[] = { "append", "preallocate", NULL };
	static const char *const syncs[] = { "none", "fdatasync", "range", NULL };
	const struct opt opts[] = {
		{ "record", OPT_BYTES, &o->record, .min = 1, .max = UINT64_C(1) << 30,
		  .arg = "BYTES", .help = "size of one write() (default 16K)" },
		{ "every", OPT_TIME, &o->every, .min = 1000, .max = 3600 * NSEC_PER_SEC,
		  .arg = "TIME", .help = "time from one write() to the next (default 5ms)" },
		{ "total", OPT_BYTES, &o->total, .min = 1, .arg = "BYTES",
		  .help = "maximum size of a recording (default 100MB)" },
		{ "writes", OPT_COUNT, &o->writes, .min = 1, .max = 1000000000, .arg = "N",
		  .help = "number of write() calls, in one recording or more (default: one recording)" },
		{ "allocate", OPT_CHOICE, &o->allocate, .choices = allocates, .arg = "HOW",
		  .help = "append (default) or preallocate (allocate --total, truncate at the end)" },
		{ "sync", OPT_CHOICE, &o->sync, .choices = syncs, .arg = "HOW",
		  .help = "none, fdatasync (default) or range (sync_file_range())" },
		{ "sync-every", OPT_BYTES, &o->sync_every, .min = 1, .arg = "BYTES",
		  .help = "sync each time that many bytes were written (default 2MB)" },
		{ "sync-thread", OPT_FLAG, &o->sync_thread,
		  .help = "sync in a second thread instead of between two writes" },
		{ "replace", OPT_FLAG, &o->replace, .help = "remove FILE if it exists" },
		{ "duration", OPT_TIME, &o->duration, .min = 1, .arg = "TIME",
		  .help = "end after this time, even if writes remain" },
		{ "json", OPT_FLAG, &o->json, .help = "print the summary as JSON" },
		{ "buckets", OPT_FLAG, &o->buckets, .help = "add the latency histogram" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] FILE",
		.about = "Records to FILE at a constant rate and measures each write().",
		.positional = "one file to write",
		.positionals = 1,
		.opts = opts,
	};

	*o = (struct options){
		.record = 16384,
		.every = 5 * NSEC_PER_MSEC,
		.total = 100000000,
		.sync_every = 2000000,
		.sync = SYNC_FDATASYNC,
	};
	o->path = argv[opt_parse(argc, argv, &program)];
	if (o->total < o->record)
		die_usage("--total: must hold at least one record of %llu bytes",
			  (unsigned long long)o->record);
	if (o->sync_thread && o->sync == SYNC_NONE)
		die_usage("--sync-thread is for --sync fdatasync or range");
}

/* syncs the bytes from f->synced to `to` */
static void sync_up_to(struct flush *f, uint64_t to)
{
	uint64_t begin = now_ns();
	int ret;

	if (f->o->sync == SYNC_FDATASYNC)
		ret = fdatasync(f->fd);
	else
		/* writes all dirty pages and waits for them; no metadata, no flush of the device */
		ret = sync_file_range(f->fd, (off_t)f->synced, (off_t)(to - f->synced),
				      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
					      SYNC_FILE_RANGE_WAIT_AFTER);
	if (ret)
		die("cannot sync %s: %s", f->o->path, strerror(errno));
	hist_add(&f->syncs, now_ns() - begin);
	f->synced = to;
}

static void *sync_thread(void *arg)
{
	struct flush *f = arg;

	pthread_mutex_lock(&f->lock);
	for (;;) {
		uint64_t to = f->written;

		if (to - f->synced >= f->o->sync_every) {
			pthread_mutex_unlock(&f->lock);
			sync_up_to(f, to);
			pthread_mutex_lock(&f->lock);
		} else if (f->end) {
			break;
		} else {
			pthread_cond_wait(&f->more, &f->lock);
		}
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static void flush_begin(struct flush *f, int fd)
{
	int err;

	f->fd = fd;
	f->written = f->synced = 0;
	f->end = false;
	if (!f->o->sync_thread)
		return;
	err = pthread_create(&f->thread, NULL, sync_thread, f);
	if (err)
		die("cannot start a thread: %s", strerror(err));
}

static void flush_written(struct flush *f, uint64_t written)
{
	if (f->o->sync == SYNC_NONE)
		return;
	if (!f->o->sync_thread) {
		if (written - f->synced >= f->o->sync_every)
			sync_up_to(f, written);
		return;
	}
	pthread_mutex_lock(&f->lock);
	f->written = written;
	pthread_cond_signal(&f->more);
	pthread_mutex_unlock(&f->lock);
}

static void flush_end(struct flush *f)
{
	if (!f->o->sync_thread)
		return;
	pthread_mutex_lock(&f->lock);
	f->end = true;
	pthread_cond_signal(&f->more);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
}

static int open_recording(struct writer *w, bool replace)
{
	uint64_t begin = now_ns();
	int fd = create_file(w->o->path, replace);
	int err;

	if (w->o->allocate == ALLOCATE_PREALLOCATE) {
		/* also sets the size of the file */
		err = fallocate(fd, 0, 0, (off_t)w->o->total) ? errno : 0;
		if (err)
			die("cannot allocate %llu bytes for %s: %s",
			    (unsigned long long)w->o->total, w->o->path, strerror(err));
	}
	hist_add(&w->setup, now_ns() - begin);
	return fd;
}

static void close_recording(struct writer *w, int fd, uint64_t written)
{
	uint64_t begin = now_ns();

	if (w->o->allocate == ALLOCATE_PREALLOCATE && ftruncate(fd, (off_t)written))
		die("cannot truncate %s: %s", w->o->path, strerror(errno));
	if (fsync(fd) || close(fd))
		die("cannot sync %s: %s", w->o->path, strerror(errno));
	hist_add(&w->finish, now_ns() - begin);
}

static void write_record(struct writer *w, int fd, uint64_t due)
{
	uint64_t begin = now_ns(), end;

	write_all(fd, w->memory, w->o->record, w->o->path);
	end = now_ns();
	hist_add(&w->latency, end - begin);
	if (begin - due > w->worst_delay)
		w->worst_delay = begin - due;
	if (begin - due >= w->o->every)
		w->late++;
}

static bool done(const struct writer *w)
{
	return stopping || now_ns() >= w->stop ||
	       (w->o->writes && w->latency.count >= w->o->writes);
}

/* makes one recording, from the empty file to the last sync */
static void record(struct writer *w, bool replace)
{
	int fd = open_recording(w, replace);
	uint64_t written = 0, due;

	flush_begin(&w->flush, fd);
	/*
	 * The data of a period exist at its beginning. So after a late write, the next writes
	 * follow without a pause.
	 */
	for (due = now_ns(); written + w->o->record <= w->o->total && !done(w);
	     due += w->o->every) {
		sleep_until(due);
		if (done(w))
			break;
		write_record(w, fd, due);
		written += w->o->record;
		flush_written(&w->flush, written);
	}
	flush_end(&w->flush);
	close_recording(w, fd, written);
}

static void summary(const struct writer *w)
{
	const struct hist *l = &w->latency;
	double s = (double)(now_ns() - w->start) / 1e9;

	if (w->o->json) {
		printf("{\"writes\":%llu,\"recordings\":%llu,\"bytes\":%llu,\"seconds\":%.3f,",
		       (unsigned long long)l->count, (unsigned long long)w->setup.count,
		       (unsigned long long)(l->count * w->o->record), s);
		hist_json(stdout, "write", l);
		printf(",\"late\":%llu,\"worst_delay_us\":%.1f,\"syncs\":%llu,",
		       (unsigned long long)w->late, (double)w->worst_delay / 1e3,
		       (unsigned long long)w->flush.syncs.count);
		hist_json(stdout, "sync", &w->flush.syncs);
		printf(",\"setup_max_us\":%.1f,\"finish_max_us\":%.1f", (double)w->setup.max / 1e3,
		       (double)w->finish.max / 1e3);
		if (w->o->buckets)
			hist_json_buckets(stdout, "write", l);
		puts("}");
	} else {
		printf("%.1f s: %llu writes of %llu bytes in %llu recordings: min %.0f, mean %.0f, p99 %.0f, "
		       "p99.9 %.0f, max %.0f us; %llu late\n",
		       s, (unsigned long long)l->count, (unsigned long long)w->o->record,
		       (unsigned long long)w->setup.count, (double)l->min / 1e3,
		       (double)hist_mean(l) / 1e3, (double)hist_percentile(l, 9900) / 1e3,
		       (double)hist_percentile(l, 9990) / 1e3, (double)l->max / 1e3,
		       (unsigned long long)w->late);
	}
	if (fflush(stdout))
		die("cannot write the summary: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	static struct writer w = {
		.flush = {
			.lock = PTHREAD_MUTEX_INITIALIZER,
			.more = PTHREAD_COND_INITIALIZER,
		},
	};
	struct options o;

	parse_options(argc, argv, &o);
	w.o = w.flush.o = &o;
	w.memory = alloc_buffer(o.record);
	/* Do not write zeros: some flash compresses, and models of flash store zeros as holes. */
	fill_noise(w.memory, o.record, 1);
	catch_signals(NULL);

	w.start = now_ns();
	w.stop = o.duration ? w.start + o.duration : UINT64_MAX;
	record(&w, o.replace);
	while (o.writes && !done(&w))
		record(&w, true);
	summary(&w);
	return 0;
}
