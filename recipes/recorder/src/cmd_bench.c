// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder bench: a writer that submits a record every few milliseconds, as a control loop does. It
 * measures how long each submission takes, and how long until the record is on the medium. Okabe and
 * Toyama 2020 measure write() in this way: 10,000 calls with 16 KB, one every 5 ms, in five sets, of which the
 * worst counts.
 *
 * The starts of the sets are shifted: by a part of the period, and by more than a second. So each set
 * meets periodic events, such as the commits of a file system, at another phase.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef EKR_HAS_JSON
#include "stats_json.h"
#endif

#include "bench.h"
#include "cli.h"
#include "clock.h"
#include "ek_recorder.h"
#include "scope.h"

#define SETS_MAX	100u
#define WRITES_MAX	100000000u
#define CONNECT_TIMEOUT 10000 /* ms */
#define SYNC_TIMEOUT	60000 /* ms */
/* time for new statistics, which the recorder writes every second */
#define STATS_PATIENCE (5 * NSEC_PER_SEC)

struct options {
	const char *channel;
	const char *config;
	struct recorder_config recorder;
	uint64_t record;   /* bytes, 0: the channel's record_size */
	uint64_t every_ns; /* 0: the channel's period, or 5 ms */
	uint64_t writes, sets;
	uint64_t priority; /* SCHED_FIFO, 0: none */
	enum ek_way way;
	bool check, json;
};

/* the longest submissions of a set, to look up in a trace (with clock `mono`) what happened meanwhile */
#define WORST 10u

struct worst {
	uint64_t took_ns, at_ns; /* at_ns: monotonic, when it began */
};

/* the results of one set */
struct set {
	uint64_t min_ns, max_ns, sum_ns;
	uint64_t p25_ns, p50_ns, p75_ns, p99_ns, p9999_ns;
	uint64_t late; /* submissions that began when the next was due */
	uint64_t lost;
	struct worst worst[WORST]; /* longest first */
};

/* what the recorder counted for the channel */
struct durable {
	bool known;
	uint64_t late, lost, p99_us, max_us;
};

/* --- the recorder's statistics ----------------------------------------------------- */

#ifdef EKR_HAS_JSON
static bool read_stats(const struct options *o, uint64_t not_before_ns, struct durable *d)
{
	sd_json_variant *all = NULL, *channels, *c;

	*d = (struct durable){ 0 };
	if (sd_json_parse_file(NULL, o->recorder.statistics, 0, &all, NULL, NULL) < 0)
		return false;
	channels = sd_json_variant_by_key(all, "channels");
	c = channels ? sd_json_variant_by_key(channels, o->channel) : NULL;
	if (c && stats_number(all, "monotonic_ns") >= not_before_ns) {
		*d = (struct durable){
			.known = true,
			.late = stats_number(c, "late"),
			.lost = stats_lost(c),
			.p99_us = stats_number(c, "record_p99_us"),
			.max_us = stats_number(c, "record_max_us"),
		};
	}
	sd_json_variant_unref(all);
	return d->known;
}
#else
static bool read_stats(const struct options *o, uint64_t not_before_ns, struct durable *d)
{
	(void)o;
	(void)not_before_ns;
	*d = (struct durable){ 0 };
	return false;
}
#endif

/* Waits for statistics that were written after this call. */
static void wait_for_stats(const struct options *o, struct durable *d)
{
	const uint64_t now = monotonic_ns();
	const struct timespec pause = { .tv_nsec = 100 * (long)NSEC_PER_MSEC };

	while (!read_stats(o, now, d) && monotonic_ns() - now < STATS_PATIENCE)
		nanosleep(&pause, NULL);
}

/* --- the sets -------------------------------------------------------------------------- */

static void sleep_until(uint64_t ns)
{
	const struct timespec ts = timespec_of(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The exact percentile: @per10000 of all values are not greater. */
static uint64_t percentile(const uint64_t *sorted, uint64_t count, uint64_t per10000)
{
	const uint64_t rank = (count * per10000 + 9999) / 10000;

	return sorted[rank ? rank - 1 : 0];
}

static void keep_worst(struct worst worst[WORST], uint64_t took, uint64_t at)
{
	unsigned int i = WORST;

	if (took <= worst[WORST - 1].took_ns)
		return;
	for (; i > 1 && worst[i - 2].took_ns < took; i--)
		worst[i - 1] = worst[i - 2];
	worst[i - 1] = (struct worst){ took, at };
}

/* 0, or -1: the recorder has exited, which was reported */
static int run_set(struct ek_writer *w, const struct options *o, uint64_t k, uint64_t first,
		   unsigned char *record, uint64_t *took, struct set *s)
{
	const uint64_t lost = ek_writer_lost(w);
	uint64_t due = (monotonic_ns() / o->every_ns + 2) * o->every_ns +
		       k * (NSEC_PER_SEC + o->every_ns / o->sets);

	*s = (struct set){ .min_ns = UINT64_MAX };
	for (uint64_t i = 0; i < o->writes; i++, due += o->every_ns) {
		uint64_t begin, end;
		int ret;

		bench_fill(record, o->record, first, k * o->writes + i);
		sleep_until(due);
		begin = monotonic_ns();
		ret = ek_writer_submit(w, record, o->record);
		end = monotonic_ns();
		if (ret && ret != -EAGAIN) {
			fprintf(stderr, "ek-recorder bench: %s\n", ek_writer_error(w));
			return -1;
		}
		took[i] = end - begin;
		s->sum_ns += took[i];
		keep_worst(s->worst, took[i], begin);
		s->late += begin - due >= o->every_ns;
	}
	qsort(took, o->writes, sizeof(*took), compare);
	s->min_ns = took[0];
	s->max_ns = took[o->writes - 1];
	s->p25_ns = percentile(took, o->writes, 2500);
	s->p50_ns = percentile(took, o->writes, 5000);
	s->p75_ns = percentile(took, o->writes, 7500);
	s->p99_ns = percentile(took, o->writes, 9900);
	s->p9999_ns = percentile(took, o->writes, 9999);
	s->lost = ek_writer_lost(w) - lost;
	return 0;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static void print(const struct options *o, const struct set *sets, const struct durable *before,
		  const struct durable *after)
{
	const struct set *worst = &sets[0];
	uint64_t late = 0, lost = 0;

	for (uint64_t k = 0; k < o->sets; k++) {
		if (sets[k].max_ns > worst->max_ns)
			worst = &sets[k];
		late += sets[k].late;
		lost += sets[k].lost;
	}
	if (!o->json) {
		printf("%s, %" PRIu64 " bytes every %.3f ms, %" PRIu64 " writes, worst of %" PRIu64
		       " sets:\n"
		       "submit   min %.1f, avg %.1f, median %.1f, p99 %.1f, p99.99 %.1f, max %.1f us\n"
		       "all sets: late %" PRIu64 ", lost %" PRIu64 "\n",
		       o->way == EK_BY_RING ? "ring" : "socket", o->record, us(o->every_ns) / 1e3,
		       o->writes, o->sets, us(worst->min_ns), us(worst->sum_ns) / (double)o->writes,
		       us(worst->p50_ns), us(worst->p99_ns), us(worst->p9999_ns), us(worst->max_ns),
		       late, lost);
		if (after->known)
			printf("durable  p99 %.1f, max %.1f ms since the recorder started; %" PRIu64
			       " later than the window, %" PRIu64 " lost\n",
			       (double)after->p99_us / 1e3, (double)after->max_us / 1e3,
			       after->late - before->late, after->lost - before->lost);
		return;
	}
	printf("{\"way\":\"%s\",\"record\":%" PRIu64 ",\"every_us\":%.1f,\"writes\":%" PRIu64
	       ",\"sets\":%" PRIu64 ",\"late\":%" PRIu64 ",\"lost\":%" PRIu64,
	       o->way == EK_BY_RING ? "ring" : "socket", o->record, us(o->every_ns), o->writes,
	       o->sets, late, lost);
	printf(",\"min_us\":%.1f,\"avg_us\":%.1f,\"p25_us\":%.1f,\"p50_us\":%.1f"
	       ",\"p75_us\":%.1f,\"p99_us\":%.1f,\"p9999_us\":%.1f,\"max_us\":%.1f",
	       us(worst->min_ns), us(worst->sum_ns) / (double)o->writes, us(worst->p25_ns),
	       us(worst->p50_ns), us(worst->p75_ns), us(worst->p99_ns), us(worst->p9999_ns),
	       us(worst->max_ns));
	fputs(",\"sets_max_us\":[", stdout);
	for (uint64_t k = 0; k < o->sets; k++)
		printf("%s%.1f", k ? "," : "", us(sets[k].max_ns));
	fputs("],\"worst\":[", stdout);
	for (unsigned int i = 0; i < WORST && worst->worst[i].took_ns; i++)
		printf("%s{\"us\":%.1f,\"at_ns\":%" PRIu64 "}", i ? "," : "",
		       us(worst->worst[i].took_ns), worst->worst[i].at_ns);
	fputs("],\"durable\":", stdout);
	if (after->known)
		printf("{\"p99_us\":%" PRIu64 ",\"max_us\":%" PRIu64 ",\"late\":%" PRIu64
		       ",\"lost\":%" PRIu64 "}}\n",
		       after->p99_us, after->max_us, after->late - before->late,
		       after->lost - before->lost);
	else
		puts("null}");
}

static int measure(struct ek_writer *w, struct options *o)
{
	const struct ek_channel *c = ek_writer_channel(w);
	struct durable before, after;
	FREED struct set *sets = calloc(o->sets, sizeof(*sets));
	FREED uint64_t *took = calloc(o->writes, sizeof(*took));
	FREED unsigned char *record = calloc(1, EKR_RECORD_MAX);
	uint64_t run = monotonic_ns(), bad = 0;
	int ret;

	o->record = o->record ? o->record : c->record_size;
	o->every_ns = o->every_ns ? o->every_ns : c->period_ns ? c->period_ns : 5 * NSEC_PER_MSEC;
	if (!sets || !took || !record || o->record > c->record_size ||
	    o->record < BENCH_RECORD_MIN) {
		fprintf(stderr, "ek-recorder bench: %s\n",
			!sets || !took || !record ?
				"out of memory" :
				"records must have at least 64 bytes and at most the channel's record_size");
		return 1;
	}
	read_stats(o, 0, &before);
	for (uint64_t k = 0; k < o->sets; k++) {
		if (run_set(w, o, k, run, record, took, &sets[k]))
			return 1;
		bad |= sets[k].late | sets[k].lost;
	}
	ret = ek_writer_sync(w, SYNC_TIMEOUT);
	if (ret)
		fprintf(stderr, "ek-recorder bench: %s\n", ek_writer_error(w));
	wait_for_stats(o, &after);
	print(o, sets, &before, &after);
	bad |= after.known ? after.late - before.late : 0;
	return ret || bad || fflush(stdout) ? 1 : 0;
}

/* Runs as a control loop does: with locked memory, and with a priority. */
static int prepare(const struct options *o)
{
	const struct sched_param param = { .sched_priority = (int)o->priority };

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		fprintf(stderr, "ek-recorder bench: locking memory: %s; continuing without\n",
			strerror(errno));
	if (o->priority && sched_setscheduler(0, SCHED_FIFO, &param)) {
		fprintf(stderr, "ek-recorder bench: setting SCHED_FIFO priority %" PRIu64 ": %s\n",
			o->priority, strerror(errno));
		return 1;
	}
	return 0;
}

int cmd_bench(int argc, char **argv)
{
	struct options o = { .config = CONFIG_DIR, .way = EK_BY_SOCKET, .writes = 10000, .sets = 1 };
	const struct cli_option options[] = {
		OPTION("ring", CLI_SET, &o.way, "use shared memory instead of the socket",
		       .least = EK_BY_RING),
		OPTION("writes", CLI_NUMBER, &o.writes, "N\trecords in a set (default 10000)",
		       .least = 1, .most = WRITES_MAX),
		OPTION("sets", CLI_NUMBER, &o.sets, "N\tnumber of sets (default 1)", .least = 1,
		       .most = SETS_MAX),
		OPTION("record", CLI_BYTES, &o.record,
		       "BYTES\tsize of a record (default: the channel's record_size)",
		       .least = BENCH_RECORD_MIN, .most = EKR_RECORD_MAX),
		OPTION("every", CLI_DURATION, &o.every_ns,
		       "TIME\ttime between records (default: the channel's period, or 5ms)",
		       .least = 1, .most = INT64_MAX),
		OPTION("priority", CLI_NUMBER, &o.priority,
		       "N\trun with SCHED_FIFO priority N, as a control loop does (default: none)",
		       .least = 1, .most = 99),
		OPTION("check", CLI_ON, &o.check,
		       "submit nothing; compare the records in CHANNEL with what bench submitted"),
		OPTION_CONFIG(&o.config),
		OPTION("json", CLI_ON, &o.json, "print one JSON object"),
		{ 0 },
	};
	struct cli cli = {
		.command = "bench",
		.usage = "CHANNEL",
		.about =
			"Submits records to CHANNEL at a steady pace. Measures how long each submission takes and\n"
			"how long until the records are on the medium. Prints the worst of several sets.\n"
			"Exit status 1: it failed, or records were lost or late; 2: wrong usage.",
		.options = options,
		.least = 1,
		.most = 1,
	};
	struct ek_writer *w;
	struct error e;
	char path[PATH_MAX];
	int status = cli_parse(&cli, argc, argv), ret;

	if (status >= 0)
		return status;
	o.channel = cli.arguments[0];
	ret = config_file(path, o.config, "recorder.conf", &e);
	if (!ret)
		ret = config_recorder(path, &o.recorder, &e);
	if (ret && ret != -ENOENT) {
		cli_say(&cli, "%s", e.text);
		return 2;
	}
	if (!about_name_ok(o.channel))
		return cli_wrong(&cli, "invalid name of a channel: %s", o.channel);
	if (o.check)
		return bench_check(&o.recorder, o.channel);
	if (prepare(&o))
		return 1;
	if (ek_writer_open(&w, o.recorder.socket, o.channel, o.way) ||
	    ek_writer_connect(w, CONNECT_TIMEOUT)) {
		cli_say(&cli, "%s", w ? ek_writer_error(w) : "out of memory");
		status = 1;
	} else {
		status = measure(w, &o);
	}
	ek_writer_close(w);
	return status;
}
