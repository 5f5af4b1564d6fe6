// SPDX-License-Identifier: Apache-2.0
/*
 * ek-player: reads a movie at the pace at which somebody watches it, as far
 * ahead as its buffer has room, and counts the stalls that the viewer sees.
 * This file is options, io_uring and reporting; what a stall is: playout.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "playout.h"
#include "util.h"

#define MAX_DEPTH	64

struct options {
	const char *path;
	const char *stats;	/* file for the counters, or NULL */
	uint64_t offset;	/* where the first movie begins */
	uint64_t movie;		/* bytes; 0: all that there is */
	uint64_t rate;		/* bytes per second */
	uint64_t chunk;
	uint64_t buffer;
	uint64_t preroll;	/* ns of play */
	uint64_t rebuffer;	/* ns of play */
	uint64_t duration;	/* ns, 0: until stopped */
	unsigned int titles;	/* movies that lie one after the other */
	unsigned int depth;
	bool buffered;		/* through the page cache */
	bool json;		/* summary as JSON */
};

struct player {
	const struct options *o;
	struct playout playout;
	struct io_uring ring;
	unsigned char *memory;
	uint64_t bytes;		/* read since the start */
	uint64_t start;
	uint64_t window;	/* when mbps was last taken */
	uint64_t window_bytes;
	double mbps;
	bool stats_failed;
	int fd;
};

static const char usage[] =
	"Usage: ek-player [OPTION...] FILE|DEVICE\n"
	"Plays FILE as a movie: reads ahead of a play-out clock and counts stalls.\n\n"
	"  --rate BYTES        play-out speed per second (default 32MB)\n"
	"  --offset BYTES      where the first movie begins (default 0)\n"
	"  --movie BYTES       length of a movie (default: up to the end)\n"
	"  --titles N          movies one after the other, played in turn (default 1)\n"
	"  --chunk BYTES       one read (default 1M)\n"
	"  --depth N           reads outstanding (default 2, at most 64)\n"
	"  --buffer BYTES      play-out buffer (default 128M)\n"
	"  --pre-roll SECONDS  buffered before a movie starts (default 1)\n"
	"  --rebuffer SECONDS  buffered before play resumes after a stall (default 0.5)\n"
	"  --buffered          read through the page cache, not direct\n"
	"  --stats FILE        write the counters there as JSON each second\n"
	"  --duration SECONDS  end by itself (default: at SIGTERM)\n"
	"  --json              print the summary as JSON\n"
	"BYTES: K M G are powers of 1024, kB MB GB powers of 1000.\n";

static void parse_options(int argc, char **argv, struct options *o)
{
	enum { RATE = 1, OFFSET, MOVIE, TITLES, CHUNK, DEPTH, BUFFER, PREROLL, REBUFFER,
	       BUFFERED, STATS, DURATION, JSON, HELP };
	static const struct option longs[] = {
		{ "rate", required_argument, NULL, RATE },
		{ "offset", required_argument, NULL, OFFSET },
		{ "movie", required_argument, NULL, MOVIE },
		{ "titles", required_argument, NULL, TITLES },
		{ "chunk", required_argument, NULL, CHUNK },
		{ "depth", required_argument, NULL, DEPTH },
		{ "buffer", required_argument, NULL, BUFFER },
		{ "pre-roll", required_argument, NULL, PREROLL },
		{ "rebuffer", required_argument, NULL, REBUFFER },
		{ "buffered", no_argument, NULL, BUFFERED },
		{ "stats", required_argument, NULL, STATS },
		{ "duration", required_argument, NULL, DURATION },
		{ "json", no_argument, NULL, JSON },
		{ "help", no_argument, NULL, HELP },
		{ 0 },
	};
	int c;

	*o = (struct options){
		.rate = 32000000,
		.chunk = UINT64_C(1) << 20,
		.buffer = UINT64_C(128) << 20,
		.preroll = NSEC_PER_SEC,
		.rebuffer = NSEC_PER_SEC / 2,
		.titles = 1,
		.depth = 2,
	};
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case RATE: o->rate = opt_bytes("--rate", optarg); break;
		case OFFSET: o->offset = opt_bytes("--offset", optarg); break;
		case MOVIE:
			o->movie = opt_bytes("--movie", optarg);
			if (!o->movie)
				die_usage("--movie: must be longer than 0");
			break;
		case TITLES: o->titles = opt_count("--titles", optarg, 1000000); break;
		case CHUNK: o->chunk = opt_bytes("--chunk", optarg); break;
		case DEPTH: o->depth = opt_count("--depth", optarg, MAX_DEPTH); break;
		case BUFFER: o->buffer = opt_bytes("--buffer", optarg); break;
		case PREROLL: o->preroll = opt_seconds("--pre-roll", optarg); break;
		case REBUFFER: o->rebuffer = opt_seconds("--rebuffer", optarg); break;
		case BUFFERED: o->buffered = true; break;
		case STATS: o->stats = optarg; break;
		case DURATION: o->duration = opt_seconds("--duration", optarg); break;
		case JSON: o->json = true; break;
		case HELP: fputs(usage, stdout); exit(0);
		default: die_usage("the command line could not be understood");
		}
	}
	if (optind + 1 != argc)
		die_usage("give one file or block device to play, not %d", argc - optind);
	o->path = argv[optind];
	if (o->chunk < DIRECT_ALIGN || o->chunk > (UINT64_C(1) << 30) || o->chunk % DIRECT_ALIGN)
		die_usage("--chunk: must be a multiple of 4096, from 4K to 1G");
	if (o->offset % DIRECT_ALIGN)
		die_usage("--offset: must be a multiple of 4096");
	if (!o->rate || o->rate > PLAYOUT_MAX_RATE)
		die_usage("--rate: must be between 1 byte/s and 10 GB/s");
	if (o->movie % o->chunk)
		die_usage("--movie: must be a multiple of the chunk, %llu bytes",
			  (unsigned long long)o->chunk);
}

/* opens what is to be played; sets o->movie if it was left open */
static int open_movie(struct options *o)
{
	uint64_t size, want;
	int fd = open(o->path, O_RDONLY | O_CLOEXEC | (o->buffered ? 0 : O_DIRECT));

	if (fd < 0 && errno == EINVAL && !o->buffered)
		die("opening %s: its file system has no direct I/O (try --buffered)", o->path);
	if (fd < 0)
		die("opening %s: %s", o->path, strerror(errno));
	size = target_size(fd, o->path);
	if (o->offset >= size)
		die("%s ends at byte %llu, before --offset %llu", o->path,
		    (unsigned long long)size, (unsigned long long)o->offset);
	if (!o->movie)
		o->movie = (size - o->offset) / o->titles / o->chunk * o->chunk;
	if (!o->movie)
		die("%s has less than one chunk of %llu bytes per title", o->path,
		    (unsigned long long)o->chunk);
	if (__builtin_mul_overflow(o->movie, o->titles, &want) || want > size - o->offset)
		die("%s is too short: %u × %llu bytes from %llu on, but it ends at %llu", o->path,
		    o->titles, (unsigned long long)o->movie, (unsigned long long)o->offset,
		    (unsigned long long)size);
	return fd;
}

static uint64_t play_bytes(const struct options *o, uint64_t ns)
{
	return ns / NSEC_PER_SEC * o->rate + ns % NSEC_PER_SEC * o->rate / NSEC_PER_SEC;
}

static void submit_reads(struct player *p, uint64_t now)
{
	const struct options *o = p->o;
	struct playout_read r;
	int ret;

	while (playout_next_read(&p->playout, now, &r)) {
		/* never NULL: the ring has an entry for each of depth reads */
		struct io_uring_sqe *sqe = io_uring_get_sqe(&p->ring);

		io_uring_prep_read(sqe, p->fd, p->memory + r.slot * o->chunk,
				   (unsigned int)o->chunk,
				   o->offset + r.movie % o->titles * o->movie +
					   r.chunk * o->chunk);
		/*
		 * Waiting for a tag, or for the page cache, happens in a kernel
		 * worker: the play-out clock must not wait with it.
		 */
		sqe->flags |= IOSQE_ASYNC;
		io_uring_sqe_set_data64(sqe, r.seq);
	}
	ret = io_uring_submit(&p->ring);
	if (ret < 0 && ret != -EINTR && ret != -EAGAIN)
		die("submitting a read of %s: %s", o->path, strerror(-ret));
}

static void reap_reads(struct player *p)
{
	struct io_uring_cqe *cqe;
	uint64_t now = now_ns();

	while (!io_uring_peek_cqe(&p->ring, &cqe)) {
		if (cqe->res < 0)
			die("reading %s: %s", p->o->path, strerror(-cqe->res));
		if ((uint64_t)cqe->res != p->o->chunk)
			die("reading %s: it ended early (has it been cut short?)", p->o->path);
		playout_done(&p->playout, cqe->user_data, now);
		p->bytes += (uint64_t)cqe->res;
		io_uring_cqe_seen(&p->ring, cqe);
	}
}

/* counters as a JSON object; state: as it is, or "stopped" at the end */
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
		 "{\"state\":\"%s\",\"stalls\":%llu,\"stall_ms\":%llu,\"worst_stall_ms\":%llu,"
		 "\"recent_stalls\":%llu,\"buffered_s\":%.1f,\"mbps\":%.1f,\"movies\":%llu}\n",
		 state ? state : playout_state_name(s.state), (unsigned long long)s.stalls,
		 (unsigned long long)(s.stall_ns / NSEC_PER_MSEC),
		 (unsigned long long)(s.worst_ns / NSEC_PER_MSEC), (unsigned long long)s.recent,
		 (double)s.buffered / (double)p->o->rate, p->mbps, (unsigned long long)s.movies);
}

static void report(struct player *p, uint64_t now, const char *state)
{
	char text[512];
	int err;

	if (!p->o->stats)
		return;
	format_stats(p, now, state, text, sizeof(text));
	err = write_stats(p->o->stats, text);
	if (err && now == p->start)
		die("writing %s: %s", p->o->stats, strerror(-err));
	/* later on, a full disk must not end the movie */
	if (err && !p->stats_failed)
		warn("writing %s: %s (playing on)", p->o->stats, strerror(-err));
	p->stats_failed = err != 0;
}

static void summary(struct player *p, uint64_t now)
{
	double s = (double)(now - p->start) / 1e9;
	struct playout_stats st;
	char text[512];

	if (p->o->json) {
		/* the mean over the whole run, not over the last second */
		p->window = p->start;
		p->window_bytes = 0;
		format_stats(p, now, "stopped", text, sizeof(text));
		fputs(text, stdout);
	} else {
		playout_get_stats(&p->playout, now, &st);
		printf("%.1f s: read %.1f MB at %.1f MB/s; %llu stalls, %.1f s together, worst %.0f ms; "
		       "%llu movies played to the end\n",
		       s, (double)p->bytes / 1e6, s > 0 ? (double)p->bytes / 1e6 / s : 0.0,
		       (unsigned long long)st.stalls, (double)st.stall_ns / 1e9,
		       (double)st.worst_ns / 1e6, (unsigned long long)st.movies);
	}
	fflush(stdout);
}

static void play(struct player *p, const sigset_t *wait)
{
	uint64_t end = p->o->duration ? p->start + p->o->duration : PLAYOUT_NEVER;
	uint64_t tick = p->start + NSEC_PER_SEC;

	while (!stopping) {
		struct __kernel_timespec ts;
		struct io_uring_cqe *cqe;
		uint64_t now, event;
		sigset_t mask = *wait;
		int ret;

		reap_reads(p);
		now = now_ns();
		if (now >= end)
			break;
		submit_reads(p, now);
		if (now >= tick) {
			report(p, now, NULL);
			while (tick <= now)
				tick += NSEC_PER_SEC;
		}
		event = playout_next_event(&p->playout, now);
		if (event > tick)
			event = tick;
		if (event > end)
			event = end;
		if (event <= now)
			continue;
		ts.tv_sec = (long long)((event - now) / NSEC_PER_SEC);
		ts.tv_nsec = (long long)((event - now) % NSEC_PER_SEC);
		ret = io_uring_wait_cqes(&p->ring, &cqe, 1, &ts, &mask);
		if (ret && ret != -ETIME && ret != -EINTR && ret != -EAGAIN)
			die("waiting for reads of %s: %s", p->o->path, strerror(-ret));
	}
}

int main(int argc, char **argv)
{
	struct playout_cfg cfg;
	struct options o;
	struct player p = { .o = &o };
	const char *wrong;
	sigset_t wait;
	uint64_t now;
	int ret;

	parse_options(argc, argv, &o);
	p.fd = open_movie(&o);
	cfg = (struct playout_cfg){
		.rate = o.rate,
		.chunk = o.chunk,
		.slots = o.buffer / o.chunk,
		.movie = o.movie / o.chunk,
		.preroll = play_bytes(&o, o.preroll),
		.rebuffer = play_bytes(&o, o.rebuffer),
		.depth = o.depth,
	};
	wrong = playout_init(&p.playout, &cfg, now_ns());
	if (wrong)
		die_usage("%s", wrong);
	p.memory = alloc_buffer(cfg.slots * cfg.chunk);
	ret = io_uring_queue_init(MAX_DEPTH, &p.ring, 0);
	if (ret)
		die("setting up io_uring: %s", strerror(-ret));
	catch_signals(&wait);

	p.start = p.window = now_ns();
	report(&p, p.start, NULL);
	play(&p, &wait);
	now = now_ns();
	playout_advance(&p.playout, now);
	report(&p, now, "stopped");
	summary(&p, now);
	io_uring_queue_exit(&p.ring);
	playout_free(&p.playout);
	return 0;
}
