// SPDX-License-Identifier: GPL-2.0-only
/*
 * ek-sim: how much of a device each group of a mix gets. README.md explains the output.
 *
 *   ek-sim [--sched none,bytes,core] [--settle S] [--window S] [--tags N]
 *          [--seed N] [--light] [--json] [--trace] DEVICE [N*]JOB...
 *
 * JOB: words separated by commas:
 *   r | w, rand | seq   direction; order of addresses
 *   bs=SIZE, qd=N       size of an I/O; number of I/Os at once
 *   weight=N            weight of the job's group
 *   in=P/W              the group is a child of parent number P, which has weight W
 *   think=US, every=US  pause after each I/O; or a new I/O every US microseconds
 *   sync, urgent        a flush follows each write; all requests are urgent
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sim.h"

/* The window is long enough for this many requests of each group. */
#define LEAST_REQUESTS	30
/* The light reader: 4 KiB, 50 times a second. */
#define LIGHT_BYTES	4096
#define LIGHT_EVERY	(20 * EK_MS)

static const char * const sched_names[] = { "none", "bytes", "core" };

struct judge {
	struct sim_setup setup;
	struct sim_job jobs[SIM_JOBS + 1];
	int nr;
	double share[SIM_JOBS + 1], alone[SIM_JOBS + 1];
	u64 requests;
	bool json, light, comma;
};

static void fail(const char *why)
{
	fprintf(stderr, "ek-sim: %s\n", why);
	exit(2);
}

/* The size that @s names, such as 512, 4k or 8m. */
static u64 size_of(const char *s)
{
	char *end;
	double v = strtod(s, &end);

	return (u64)(v * (*end == 'k' ? 1 << 10 : *end == 'm' ? 1 << 20 : 1));
}

static void parse_job(struct sim_job *job, char *text)
{
	char *word, *value;

	*job = (struct sim_job){ .weight = 100, .depth = 1, .bytes = 4096, .random = true };
	for (word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		value = strchr(word, '=');
		if (value)
			*value++ = 0;
		if (!strcmp(word, "r"))
			job->op = SIM_READ;
		else if (!strcmp(word, "w"))
			job->op = SIM_WRITE;
		else if (!strcmp(word, "rand"))
			job->random = true;
		else if (!strcmp(word, "seq"))
			job->random = false;
		else if (!strcmp(word, "sync"))
			job->sync = true;
		else if (!strcmp(word, "urgent"))
			job->urgent = true;
		else if (value && !strcmp(word, "bs"))
			job->bytes = size_of(value);
		else if (value && !strcmp(word, "qd"))
			job->depth = atoi(value);
		else if (value && !strcmp(word, "weight"))
			job->weight = atoi(value);
		else if (value && !strcmp(word, "think"))
			job->think = strtoull(value, NULL, 10) * 1000;
		else if (value && !strcmp(word, "every"))
			job->every = strtoull(value, NULL, 10) * 1000;
		else if (value && !strcmp(word, "in") &&
			 sscanf(value, "%u/%u", &job->parent, &job->parent_weight) == 2)
			;
		else
			fail(word);
	}
	if (!job->bytes || job->bytes % 512 || !job->depth || job->depth > 4096 ||
	    job->weight < 1 || job->weight > 10000 || job->parent >= SIM_JOBS)
		fail("a job needs bs from 512, qd 1-4096, weight 1-10000");
}

static void run(struct judge *j, int only, struct sim_result *r)
{
	char why[300], *quote;

	if (sim_run(&j->setup, j->jobs, j->nr, only, r, &j->requests, why, sizeof(why))) {
		if (!j->json)
			fail(why);
		for (quote = why; (quote = strchr(quote, '"')); )
			*quote = '\'';
		printf("%s\"error\": \"%s\"}\n", j->comma ? ", " : "{", why);
		exit(0);
	}
}

/* Set the share of each job (0 to 1) while all jobs are active. */
static void shares(struct judge *j)
{
	double top = 0, below[SIM_JOBS] = { 0 };
	int i;

	for (i = 0; i < j->nr; i++) {
		if (!j->jobs[i].parent)
			top += j->jobs[i].weight;
		else if (!below[j->jobs[i].parent])
			top += j->jobs[i].parent_weight;
		below[j->jobs[i].parent] += j->jobs[i].weight;
	}
	for (i = 0; i < j->nr; i++) {
		j->share[i] = j->jobs[i].weight / top;
		if (j->jobs[i].parent)
			j->share[i] *= j->jobs[i].parent_weight / below[j->jobs[i].parent];
	}
}

/* Do @a and @b get the same alone on the device? */
static bool same(const struct sim_job *a, const struct sim_job *b)
{
	return a->op == b->op && a->random == b->random && a->sync == b->sync &&
	       a->depth == b->depth && a->bytes == b->bytes && a->think == b->think &&
	       a->every == b->every;
}

/* Measure the bytes per second of each job alone on the device, without a scheduler. */
static void alones(struct judge *j)
{
	struct sim_result r[SIM_JOBS + 1];
	int i, k;

	j->setup.sched = SIM_NONE;
	for (i = 0; i < j->nr; i++) {
		for (k = 0; k < i && !same(&j->jobs[i], &j->jobs[k]); k++)
			;
		if (k < i) {
			j->alone[i] = j->alone[k];
			continue;
		}
		run(j, i, r);
		j->alone[i] = r[i].bytes * 1e9 / j->setup.window;
		if (j->alone[i] < 1)
			j->alone[i] = 1;
	}
}

/*
 * Lengthen the window until each group gets LEAST_REQUESTS at its share. Returns whether the
 * window changed.
 */
static bool lengthen(struct judge *j)
{
	struct sim_device *d;
	double need, most = 0;
	char why[200];
	u32 piece;
	int i;

	d = sim_device_new(j->setup.device, why, sizeof(why));
	if (!d)
		fail(why);
	piece = sim_device_max_bytes(d);
	sim_device_free(d);
	for (i = 0; i < j->nr; i++) {
		if (j->jobs[i].every)
			continue;
		need = LEAST_REQUESTS * (double)min_t(u64, j->jobs[i].bytes, piece) /
		       (j->alone[i] * j->share[i]);
		most = max_t(double, most, need);
	}
	if (most * 1e9 <= j->setup.window)
		return false;
	j->setup.window = (u64)(most * 1e9);
	return true;
}

/*
 * The wait (seconds) of a request of job @i that follows from its share: the time in which the
 * share serves all that the group can have queued.
 */
static double implied(struct judge *j, int i, u32 depth, u32 piece)
{
	double bytes = min_t(u64, j->jobs[i].bytes, piece);
	double has = j->jobs[i].depth * ((j->jobs[i].bytes + bytes - 1) / bytes);

	has = min_t(double, has, sim_tags(SIM_CORE, depth));
	return has * bytes / (j->alone[i] * j->share[i]);
}

/* Run all jobs under @sched, and print the results. */
static void report(struct judge *j, enum sim_sched sched)
{
	struct sim_result r[SIM_JOBS + 1];
	double sum = 0, least = 1e9, part, wait = 0, w;
	struct sim_device *d;
	char why[200];
	u32 depth, piece;
	int i;

	d = sim_device_new(j->setup.device, why, sizeof(why));
	depth = sim_device_depth(d);
	piece = sim_device_max_bytes(d);
	sim_device_free(d);
	j->setup.sched = sched;
	run(j, -1, r);
	for (i = 0; i < j->nr; i++) {
		part = r[i].bytes * 1e9 / j->setup.window / j->alone[i];
		sum += part;
		/* a group that pauses is not promised its share */
		if (!j->jobs[i].think && !j->jobs[i].every && !j->jobs[i].sync)
			least = min_t(double, least, part / j->share[i]);
		w = r[i].longest / 1e9 / max_t(double, 2, 1.5 * implied(j, i, depth, piece));
		wait = max_t(double, wait, w);
	}
	if (!j->json) {
		printf("%-5s least part/share %.3f, sum of parts %.3f, longest wait/bound %.2f:",
		       sched_names[sched], least, sum, wait);
		for (i = 0; i < j->nr && i < 8; i++)
			printf(" %.3f", r[i].bytes * 1e9 / j->setup.window / j->alone[i] / j->share[i]);
		printf("\n");
		return;
	}
	printf("%s\"%s\": {\"least\": %.4f, \"sum\": %.4f, \"wait\": %.4f, \"p99\": [",
	       j->comma ? ", " : "{", sched_names[sched], least, sum, wait);
	for (i = 0; i < j->nr; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)r[i].latency_p99);
	printf("], \"longest\": [");
	for (i = 0; i < j->nr; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)r[i].longest);
	printf("], \"ratio\": [");
	for (i = 0; i < j->nr; i++)
		printf("%s%.4f", i ? ", " : "",
		       r[i].bytes * 1e9 / j->setup.window / j->alone[i] / j->share[i]);
	printf("]");
	if (sched == SIM_CORE) {
		printf(", \"together\": %s, \"quick\": %llu, \"cost\": [",
		       r[0].together ? "true" : "false", (unsigned long long)r[0].quick);
		/* learned rate / measured rate; below 1: the core charges too little */
		for (i = 0; i < j->nr; i++)
			printf("%s%.3f", i ? ", " : "", r[i].rate * j->alone[i] / 65536e9);
		printf("]");
	}
	printf("}");
	j->comma = true;
}

/* Print the p99 of a light reader under contention from the mix, and its bound. */
static void light(struct judge *j)
{
	struct sim_result r[SIM_JOBS + 1];
	struct sim_setup keep = j->setup;
	u64 largest = 0, own, p99, bound;
	struct sim_job job;
	int i, n = j->nr;

	j->setup.window = 5 * EK_SEC;
	j->setup.sched = SIM_NONE;
	/* the largest latency of a single request of each of the first eight jobs, alone */
	for (i = 0; i < n; i++) {
		struct sim_device *d = sim_device_new(j->setup.device, (char[200]){ 0 }, 200);

		job = j->jobs[i];
		j->jobs[i].bytes = min_t(u64, job.bytes, sim_device_max_bytes(d));
		sim_device_free(d);
		j->jobs[i].depth = 1;
		j->jobs[i].think = 0;
		j->setup.window = EK_SEC;
		j->setup.settle = EK_SEC;
		run(j, i, r);
		largest = max_t(u64, largest, r[i].latency_p99);
		j->jobs[i] = job;
		if (i >= 7)
			break;
	}
	j->setup = keep;
	j->setup.window = 10 * EK_SEC;
	j->setup.sched = SIM_NONE;
	j->jobs[n] = (struct sim_job){ .weight = 100, .depth = 1, .bytes = LIGHT_BYTES,
				       .random = true, .every = LIGHT_EVERY };
	j->nr = n + 1;
	run(j, n, r);
	own = r[n].latency_p99;
	bound = 2 * (largest + own);
	j->setup.sched = SIM_CORE;
	run(j, -1, r);
	p99 = r[n].latency_p99;
	j->setup.sched = SIM_NONE;
	run(j, -1, r);
	j->nr = n;
	j->setup = keep;
	if (j->json)
		printf(", \"light\": {\"p99\": %llu, \"bound\": %llu, \"none\": %llu}",
		       (unsigned long long)p99, (unsigned long long)bound,
		       (unsigned long long)r[n].latency_p99);
	else
		printf("light p99 %.3f ms, bound %.3f ms (own %.3f, largest request %.3f), none %.3f ms\n",
		       p99 / 1e6, bound / 1e6, own / 1e6, largest / 1e6, r[n].latency_p99 / 1e6);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "sched", 1, NULL, 's' }, { "settle", 1, NULL, 'S' }, { "window", 1, NULL, 'w' },
		{ "tags", 1, NULL, 't' }, { "seed", 1, NULL, 'r' }, { "light", 0, NULL, 'l' },
		{ "json", 0, NULL, 'j' }, { "trace", 0, NULL, 'T' }, { "speed", 0, NULL, 'p' }, {},
	};
	static struct judge j = { .setup = { .settle = 3 * EK_SEC, .window = 10 * EK_SEC, .seed = 1 } };
	const char *scheds = "none,core";
	struct timespec t0, t1;
	bool speed = false;
	int opt, i, k, n;
	char *star;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 's': scheds = optarg; break;
		case 'S': j.setup.settle = (u64)(atof(optarg) * 1e9); break;
		case 'w': j.setup.window = (u64)(atof(optarg) * 1e9); break;
		case 't': j.setup.tags = atoi(optarg); break;
		case 'r': j.setup.seed = strtoull(optarg, NULL, 10); break;
		case 'l': j.light = true; break;
		case 'j': j.json = true; break;
		case 'T': j.setup.trace = true; break;
		case 'p': speed = true; break;
		default: return 2;
		}
	}
	if (argc - optind < 2)
		fail("usage: ek-sim [OPTION...] DEVICE [N*]JOB...");
	j.setup.device = argv[optind];
	for (i = optind + 1; i < argc; i++) {
		star = strchr(argv[i], '*');
		n = star ? atoi(argv[i]) : 1;
		for (k = 0; k < n; k++) {
			char text[200];

			if (j.nr == SIM_JOBS)
				fail("too many jobs");
			snprintf(text, sizeof(text), "%s", star ? star + 1 : argv[i]);
			parse_job(&j.jobs[j.nr++], text);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &t0);
	shares(&j);
	alones(&j);
	if (lengthen(&j))
		alones(&j);
	if (j.json) {
		printf("{\"window\": %.3f, \"alone\": [", j.setup.window / 1e9);
		for (i = 0; i < j.nr; i++)
			printf("%s%.0f", i ? ", " : "", j.alone[i]);
		printf("]");
		j.comma = true;
	}
	for (i = 0; i < 3; i++)
		if (strstr(scheds, sched_names[i]))
			report(&j, i);
	if (j.light)
		light(&j);
	if (j.json)
		printf("}\n");
	clock_gettime(CLOCK_MONOTONIC, &t1);
	if (speed)
		fprintf(stderr, "%.0f requests/s\n", j.requests /
			((t1.tv_sec - t0.tv_sec) + (t1.tv_nsec - t0.tv_nsec) / 1e9));
	return 0;
}
