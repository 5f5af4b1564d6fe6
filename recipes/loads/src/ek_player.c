// SPDX-License-Identifier: Apache-2.0
/*
 * ek-player: reads a movie at the speed at which a viewer watches it, and counts the
 * viewer's stalls. It reads ahead as long as its buffer has room. This file has
 * options, I/O and reports; playout.c defines what a stall is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/src/hist.h"
#include "options.h"
#include "playout.h"
#include "report.h"
#include "ring.h"
#include "util.h"

/* value of an option that was not given, and whose default depends on other options */
#define UNSET UINT64_MAX

enum advice { ADVICE_NONE, ADVICE_PLAYER, ADVICE_SEQUENTIAL };

struct options {
	const char *path;
	const char *stats;	/* file for the counters; NULL: none */
	uint64_t offset;	/* where the first movie begins */
	uint64_t movie;		/* bytes of a movie; 0: the rest of the file by `titles` */
	uint64_t stride;	/* distance between the beginnings of two movies, bytes */
	uint64_t rate;		/* bytes per second */
	uint64_t movie_ns;	/* play-out time of a movie, instead of the rate; 0: not given */
	uint64_t chunk;		/* bytes of one read */
	uint64_t buffer;	/* bytes of the play-out buffer; 0: not given */
	uint64_t preroll;	/* play-out time buffered before a movie starts, ns */
	uint64_t rebuffer;	/* play-out time buffered before a stall ends, ns */
	uint64_t index;		/* bytes of one index read; 0: no index reads */
	uint64_t index_every;	/* play-out time from one index read to the next, ns */
	uint64_t duration;	/* ns; 0: until stopped */
	unsigned int buffer_ms; /* buffer size as play-out time, ms; 0: not given */
	unsigned int movies;	/* movies to play; 0: until stopped */
	unsigned int titles;	/* movies in the file, one after the other */
	unsigned int depth;
	unsigned int advice; /* enum advice */
	bool buffered;	     /* through the page cache */
	bool cold;	     /* drop cached pages before each movie */
	bool json;	     /* print the summary as JSON */
	bool buckets;	     /* with the latency histogram */
};

struct player {
	const struct options *o;
	struct playout playout;
	struct io_uring ring;
	struct report report;
	struct hist reads;     /* latency of the movie's reads, ns */
	struct hist indexes;   /* latency of the index reads, ns */
	unsigned char *memory; /* one chunk per slot, then room for an index read */
	uint64_t *begun;       /* per slot: when its read was submitted, ns; last: index read */
	uint64_t *want;	       /* per slot: bytes that its read must return at least */
	uint64_t slots;	       /* chunks that the buffer holds */
	uint64_t bytes;	       /* bytes read since the start */
	uint64_t start;	       /* when play started, ns */
	uint64_t window;       /* when mbps was last computed, ns */
	uint64_t window_bytes; /* value of `bytes` at that time */
	uint64_t dropped;      /* last movie before which cached pages were dropped */
	double mbps;	       /* mean over the time between the last two computations */
	int fd;
};

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN;
}

static uint64_t play_bytes(const struct options *o, uint64_t ns)
{
	return ns / NSEC_PER_SEC * o->rate + ns % NSEC_PER_SEC * o->rate / NSEC_PER_SEC;
}

static void check_options(struct options *o)
{
	if (o->chunk % DIRECT_ALIGN)
		die_usage("--chunk: must be a multiple of 4096");
	if (o->offset % DIRECT_ALIGN)
		die_usage("--offset: must be a multiple of 4096");
	if (o->index % DIRECT_ALIGN)
		die_usage("--index: must be a multiple of 4096");
	if (o->rate && o->movie_ns)
		die_usage("--rate and --movie-seconds exclude each other: both set the rate");
	if (o->movie_ns && !o->movie)
		die_usage("--movie-seconds needs --movie, the length in bytes");
	if (o->buffer && o->buffer_ms)
		die_usage("--buffer and --buffer-ms exclude each other: both set the buffer");
	if ((o->advice || o->cold) && !o->buffered)
		die_usage("--advise and --cold are for --buffered only");
	if (!o->rate)
		o->rate = 32000000;
	if (o->movie_ns)
		o->rate = (uint64_t)((unsigned __int128)o->movie * NSEC_PER_SEC / o->movie_ns);
	if (!o->rate || o->rate > PLAYOUT_MAX_RATE)
		die_usage("--rate: must be between 1 byte/s and 10 GB/s");
	if (!o->buffer && !o->buffer_ms)
		o->buffer = UINT64_C(128) << 20;
	if (o->buffer_ms) {
		uint64_t ns = o->buffer_ms * NSEC_PER_MSEC;

		/* two chunks more: one is being played, one for the rest of the division */
		o->buffer = (play_bytes(o, ns) / o->chunk + 2) * o->chunk;
		if (o->preroll == UNSET)
			o->preroll = ns;
		if (o->rebuffer == UNSET)
			o->rebuffer = ns;
	}
	if (o->preroll == UNSET)
		o->preroll = NSEC_PER_SEC;
	if (o->rebuffer == UNSET)
		o->rebuffer = NSEC_PER_SEC / 2;
	if (!o->depth)
		o->depth = o->buffered ? 1 : 2;
}

static void parse_options(int argc, char **argv, struct options *o)
{
	static const char *const hows[] = { "none", "player", "sequential", NULL };
	const struct opt opts[] = {
		{ "rate", OPT_BYTES, &o->rate, .min = 1, .max = PLAYOUT_MAX_RATE, .arg = "BYTES",
		  .help = "play-out speed per second (default 32MB)" },
		{ "movie-seconds", OPT_TIME, &o->movie_ns, .min = 1, .arg = "TIME",
		  .help = "play-out speed, as the duration of a movie of --movie bytes" },
		{ "offset", OPT_BYTES, &o->offset, .arg = "BYTES",
		  .help = "start of the first movie in FILE (default 0)" },
		{ "movie", OPT_BYTES, &o->movie, .min = 1, .arg = "BYTES",
		  .help = "size of a movie (default: the rest of FILE, divided by --titles)" },
		{ "titles", OPT_COUNT, &o->titles, .min = 1, .max = 1000000, .arg = "N",
		  .help = "number of movies in FILE, played in turn (default 1)" },
		{ "movies", OPT_COUNT, &o->movies, .min = 1, .max = 1000000, .arg = "N",
		  .help = "end after this many movies (default: play on)" },
		{ "chunk", OPT_BYTES, &o->chunk, .min = DIRECT_ALIGN, .max = UINT64_C(1) << 30,
		  .arg = "BYTES", .help = "size of one read (default 1M)" },
		{ "depth", OPT_COUNT, &o->depth, .min = 1, .max = RING_ENTRIES, .arg = "N",
		  .help = "reads in flight (default 2, with --buffered 1)" },
		{ "buffer", OPT_BYTES, &o->buffer, .min = 1, .arg = "BYTES",
		  .help = "size of the play-out buffer (default 128M)" },
		{ "buffer-ms", OPT_COUNT, &o->buffer_ms, .min = 1, .max = 1000000, .arg = "MS",
		  .help = "buffer size as play-out time; also sets --pre-roll and --rebuffer" },
		{ "pre-roll", OPT_TIME, &o->preroll, .arg = "TIME",
		  .help = "play-out time buffered before a movie starts (default 1)" },
		{ "rebuffer", OPT_TIME, &o->rebuffer, .arg = "TIME",
		  .help = "play-out time buffered before a stall ends (default 0.5)" },
		{ "index", OPT_BYTES, &o->index, .max = UINT64_C(1) << 30, .arg = "BYTES",
		  .help = "also read a container index in parts of this size, backwards from the movie's end" },
		{ "index-every", OPT_TIME, &o->index_every, .min = 1, .arg = "TIME",
		  .help = "play-out time between index reads (default 5); movie reads wait for each" },
		{ "buffered", OPT_FLAG, &o->buffered,
		  .help = "read through the page cache instead of direct I/O" },
		{ "advise", OPT_CHOICE, &o->advice, .choices = hows, .arg = "HOW",
		  .help = "with --buffered: posix_fadvise() as none, player (like vlc) or sequential" },
		{ "cold", OPT_FLAG, &o->cold,
		  .help = "with --buffered: drop cached pages before each movie" },
		{ "stats", OPT_TEXT, &o->stats, .arg = "FILE",
		  .help = "write the counters to FILE once a second, as JSON" },
		{ "duration", OPT_TIME, &o->duration, .arg = "TIME",
		  .help = "end after this time (default: at SIGTERM)" },
		{ "json", OPT_FLAG, &o->json, .help = "print the summary as JSON" },
		{ "buckets", OPT_FLAG, &o->buckets, .help = "add the latency histogram" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] FILE|DEVICE",
		.about =
			"Plays FILE as a movie: reads ahead of a play-out clock and counts stalls.",
		.positional = "one file or block device to play",
		.positionals = 1,
		.opts = opts,
	};

	*o = (struct options){
		.chunk = UINT64_C(1) << 20,
		.preroll = UNSET,
		.rebuffer = UNSET,
		.index_every = 5 * NSEC_PER_SEC,
		.titles = 1,
	};
	o->path = argv[opt_parse(argc, argv, &program)];
	check_options(o);
}

/* opens the file to play; sets o->stride, and o->movie if it was not given */
static int open_movie(struct options *o)
{
	uint64_t size, want;
	int fd = open(o->path, O_RDONLY | O_CLOEXEC | (o->buffered ? 0 : O_DIRECT));

	if (fd < 0 && errno == EINVAL && !o->buffered)
		die("cannot open %s: its file system does not support direct I/O. Try --buffered",
		    o->path);
	if (fd < 0)
		die("cannot open %s: %s", o->path, strerror(errno));
	size = target_size(fd, o->path);
	if (o->offset >= size)
		die("%s ends at byte %llu, before --offset %llu", o->path, (unsigned long long)size,
		    (unsigned long long)o->offset);
	if (!o->movie)
		o->movie = (size - o->offset) / o->titles / o->chunk * o->chunk;
	if (!o->movie)
		die("%s is too short: less than one chunk of %llu bytes per title", o->path,
		    (unsigned long long)o->chunk);
	o->stride = round_up(o->movie);
	if (__builtin_mul_overflow(o->stride, o->titles - 1, &want) ||
	    __builtin_add_overflow(o->movie, want, &want) || want > size - o->offset)
		die("%s is too short for %u × %llu bytes from byte %llu on: it ends at byte %llu",
		    o->path, o->titles, (unsigned long long)o->movie, (unsigned long long)o->offset,
		    (unsigned long long)size);
	if (o->index > o->movie / 2)
		die_usage("--index: must not be larger than half the movie, %llu bytes",
			  (unsigned long long)(o->movie / 2));
	return fd;
}

static void advise(const struct player *p)
{
	int err = 0;

	if (p->o->cold)
		clean_cache(p->fd, p->o->path);
	switch ((enum advice)p->o->advice) {
	case ADVICE_NONE:
		break;
	case ADVICE_PLAYER:
		/*
		 * These are the calls of vlc (modules/access/file.c). It probes the beginning of
		 * the file, and reads each byte once.
		 */
		err = posix_fadvise(p->fd, (off_t)p->o->offset, 4096, POSIX_FADV_WILLNEED);
		if (!err)
			err = posix_fadvise(p->fd, 0, 0, POSIX_FADV_NOREUSE);
		break;
	case ADVICE_SEQUENTIAL:
		err = posix_fadvise(p->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		break;
	}
	if (err)
		die("posix_fadvise() for %s failed: %s", p->o->path, strerror(err));
}

static void submit_read(struct player *p, const struct playout_read *r)
{
	const struct options *o = p->o;
	uint64_t title = o->offset + r->movie % o->titles * o->stride;
	uint64_t slot = r->slot, offset = title + r->chunk * o->chunk, bytes = r->bytes;

	if (r->seq == PLAYOUT_INDEX) {
		/* read a different place each time, so that the page cache cannot serve the read */
		uint64_t places = o->movie / 2 / o->index;

		slot = p->slots;
		bytes = o->index;
		offset = title + o->movie / DIRECT_ALIGN * DIRECT_ALIGN -
			 (r->chunk % places + 1) * bytes;
	}
	p->want[slot] = bytes;
	p->begun[slot] = now_ns();
	ring_read(&p->ring, p->fd, p->memory + slot * o->chunk,
		  o->buffered ? bytes : round_up(bytes), offset, r->seq);
}

static void submit_reads(struct player *p, uint64_t now)
{
	struct playout_read r;
	bool any = false;

	while (playout_next_read(&p->playout, now, &r)) {
		if (p->o->cold && r.movie > p->dropped) {
			drop_cache(p->fd, p->o->path);
			p->dropped = r.movie;
		}
		submit_read(p, &r);
		any = true;
	}
	if (any)
		ring_submit(&p->ring, p->o->path);
}

static void reap_reads(struct player *p)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&p->ring, &cqe)) {
		uint64_t seq = cqe->user_data, now = now_ns();
		uint64_t slot = seq == PLAYOUT_INDEX ? p->slots : seq % p->slots;
		uint64_t bytes = ring_result(cqe, "read", p->o->path);

		if (bytes < p->want[slot])
			die("cannot read %s: unexpected end of file. Was it truncated?",
			    p->o->path);
		hist_add(seq == PLAYOUT_INDEX ? &p->indexes : &p->reads, now - p->begun[slot]);
		p->bytes += bytes;
		playout_done(&p->playout, seq, now);
		io_uring_cqe_seen(&p->ring, cqe);
	}
}

/* writes the members of the JSON object to text; state: "stopped", or NULL for the current state */
static void format_stats(struct player *p, uint64_t now, const char *state, char *text, size_t size)
{
	struct playout_stats s;

	playout_get_stats(&p->playout, now, &s);
	if (now > p->window) {
		p->mbps = (double)(p->bytes - p->window_bytes) * 1e3 / (double)(now - p->window);
		p->window = now;
		p->window_bytes = p->bytes;
	}
	snprintf(text, size,
		 "\"state\":\"%s\",\"stalls\":%llu,\"stall_ms\":%llu,\"worst_stall_ms\":%llu,"
		 "\"recent_stalls\":%llu,\"buffered_s\":%.1f,\"mbps\":%.1f,\"movies\":%llu",
		 state ? state : playout_state_name(s.state), (unsigned long long)s.stalls,
		 (unsigned long long)(s.stall_ns / NSEC_PER_MSEC),
		 (unsigned long long)(s.worst_ns / NSEC_PER_MSEC), (unsigned long long)s.recent,
		 (double)s.buffered / (double)p->o->rate, p->mbps, (unsigned long long)s.movies);
}

static const char *stats_object(struct player *p, uint64_t now, const char *state)
{
	static char text[600];
	char members[512];

	format_stats(p, now, state, members, sizeof(members));
	snprintf(text, sizeof(text), "{%s}\n", members);
	return text;
}

static void print_json(struct player *p, uint64_t now, const struct playout_stats *st)
{
	char members[512];

	/* compute mbps over the whole run, not over the last second */
	p->window = p->start;
	p->window_bytes = 0;
	format_stats(p, now, "stopped", members, sizeof(members));
	printf("{%s,\"start_ms\":%.1f,\"bytes\":%llu,\"reads\":%llu,", members,
	       (double)st->start_ns / 1e6, (unsigned long long)p->bytes,
	       (unsigned long long)p->reads.count);
	hist_json(stdout, "read", &p->reads);
	printf(",\"indexes\":%llu,", (unsigned long long)p->indexes.count);
	hist_json(stdout, "index", &p->indexes);
	if (p->o->buckets)
		hist_json_buckets(stdout, "read", &p->reads);
	puts("}");
}

static void summary(struct player *p, uint64_t now)
{
	double s = (double)(now - p->start) / 1e9;
	struct playout_stats st;

	playout_get_stats(&p->playout, now, &st);
	if (p->o->json)
		print_json(p, now, &st);
	else
		printf("%.1f s: read %.1f MB at %.1f MB/s; %llu stalls, %.1f s together, worst %.0f ms; "
		       "%llu movies played to the end\n",
		       s, (double)p->bytes / 1e6, s > 0 ? (double)p->bytes / 1e6 / s : 0.0,
		       (unsigned long long)st.stalls, (double)st.stall_ns / 1e9,
		       (double)st.worst_ns / 1e6, (unsigned long long)st.movies);
	if (fflush(stdout))
		die("cannot write the summary: %s", strerror(errno));
}

static void play(struct player *p, const sigset_t *wait)
{
	uint64_t end = p->o->duration ? p->start + p->o->duration : PLAYOUT_NEVER;

	while (!stopping) {
		uint64_t now, event;

		reap_reads(p);
		now = now_ns();
		playout_advance(&p->playout, now);
		if (now >= end || (p->o->movies && p->playout.movies >= p->o->movies))
			break;
		submit_reads(p, now);
		if (report_due(&p->report, now))
			report_write(&p->report, stats_object(p, now, NULL));
		event = playout_next_event(&p->playout, now);
		if (event > p->report.tick)
			event = p->report.tick;
		if (event > end)
			event = end;
		ring_wait(&p->ring, now, event, wait, p->o->path);
	}
}

static void prepare(struct player *p)
{
	const struct options *o = p->o;
	uint64_t every = (play_bytes(o, o->index_every) + o->chunk - 1) / o->chunk;
	const struct playout_cfg cfg = {
		.rate = o->rate,
		.chunk = o->chunk,
		.slots = o->buffer / o->chunk,
		.movie = o->movie,
		.movies = o->movies,
		.preroll = play_bytes(o, o->preroll),
		.rebuffer = play_bytes(o, o->rebuffer),
		.index_every = o->index ? every : 0,
		.depth = o->depth,
	};
	const char *wrong = playout_init(&p->playout, &cfg, now_ns());

	if (wrong)
		die_usage("%s", wrong);
	p->slots = cfg.slots;
	p->memory = alloc_buffer(cfg.slots * cfg.chunk + o->index);
	p->begun = calloc(cfg.slots + 1, sizeof(*p->begun));
	p->want = calloc(cfg.slots + 1, sizeof(*p->want));
	if (!p->begun || !p->want)
		die("no memory for %llu reads: %s", (unsigned long long)cfg.slots,
		    strerror(ENOMEM));
}

int main(int argc, char **argv)
{
	static struct player p;
	struct options o;
	sigset_t wait;
	uint64_t now;

	parse_options(argc, argv, &o);
	p.o = &o;
	p.fd = open_movie(&o);
	prepare(&p);
	ring_open(&p.ring);
	catch_signals(&wait);
	advise(&p);

	p.start = p.window = now_ns();
	/* The pre-roll begins now: the time for allocating memory must not count. */
	playout_restart(&p.playout, p.start);
	report_begin(&p.report, o.stats, stats_object(&p, p.start, NULL), p.start);
	play(&p, &wait);
	now = now_ns();
	playout_advance(&p.playout, now);
	report_write(&p.report, stats_object(&p, now, "stopped"));
	summary(&p, now);
	io_uring_queue_exit(&p.ring);
	playout_free(&p.playout);
	free(p.begun);
	free(p.want);
	return 0;
}
