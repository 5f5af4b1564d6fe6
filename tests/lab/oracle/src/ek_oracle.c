// SPDX-License-Identifier: Apache-2.0
/*
 * What a scheduler can gain on a device of the flash model: the best order of a
 * load's requests that a search finds, and a bound that no order can beat. Prints
 * one JSON object.
 */
#include "bound.h"
#include "search.h"

#include <getopt.h>
#include <stdlib.h>

/* seed of the list of requests on which the policy is tuned; other lists are measured */
#define TUNE_SEED 0
struct settings {
	const char *preset, *set;
	struct sim_load load;
	struct effort effort;
	u64 lists, run;
};

struct number {
	const char *name;
	u64 least, most, unit, dfl;
	const char *about;
};

enum { BYTES, OUTSTANDING, READS, RAMP, RUN, LISTS, TAG, TURN, ROUNDS, CHOICES, HORIZON, NUMBERS };

static const struct number numbers[NUMBERS] = {
	[BYTES] = { "bytes", 512, 1 << 20, 1, 16384, "size of each request" },
	[OUTSTANDING] = { "outstanding", 1, SIM_SLOTS, 1, 128, "requests of all jobs together" },
	[READS] = { "read-pct", 0, 100, 1, 100, "reads of all requests, percent" },
	[RAMP] = { "ramp-ms", 0, 60000, 1000000, 250, "time that is not counted" },
	[RUN] = { "run-ms", 1, 60000, 1000000, 500, "time that is counted" },
	[LISTS] = { "lists", 1, 64, 1, 2, "lists of random requests, of which the mean is taken" },
	[TAG] = { "tag-ns", 0, 1000000, 1, 0, "host: from a completion until its tag is free" },
	[TURN] = { "turn-ns", 0, 1000000, 1, 0,
		   "host: work between a completion and the next request" },
	[ROUNDS] = { "rounds", 0, 100000, 1, 100, "policies tried" },
	[CHOICES] = { "choices", 1, POLICY_CHOICES, 1, 3,
		      "choices looked at before each decision" },
	[HORIZON] = { "horizon-us", 0, 100000, 1000, 3000, "how far to look ahead; 0: not at all" },
};

static void help(void)
{
	int i;

	puts("usage: ek-oracle [OPTION...]\n"
	     "Print what a load reaches on the flash model in the order of arrival (fifo), in the\n"
	     "best order found (oracle), and at most in any order (bound), as JSON.\n\n"
	     "  --preset NAME         of the flash model\n"
	     "  --set NAME=VALUE,...  its other parameters\n"
	     "  --sequential          addresses in order; otherwise random");
	for (i = 0; i < NUMBERS; i++) {
		int gap = 18 - (int)strlen(numbers[i].name);

		printf("  --%s N%*s%s (default %llu)\n", numbers[i].name, gap, "", numbers[i].about,
		       (unsigned long long)numbers[i].dfl);
	}
}

_Noreturn static void refuse(const char *what, const char *why)
{
	fprintf(stderr, "ek-oracle: %s: %s\n", what, why);
	exit(2);
}

static u64 parse(const struct number *number, const char *text)
{
	char why[128], *end;
	u64 value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < number->least ||
	    value > number->most) {
		snprintf(why, sizeof(why), "'%s' is not a number from %llu to %llu", text,
			 (unsigned long long)number->least, (unsigned long long)number->most);
		refuse(number->name, why);
	}
	return value * number->unit;
}

static void options(int argc, char **argv, struct settings *s)
{
	enum { HELP = NUMBERS, PRESET, SET, SEQUENTIAL };
	struct option list[NUMBERS + 5] = {};
	u64 value[NUMBERS];
	char why[1024];
	int i, got;

	for (i = 0; i < NUMBERS; i++) {
		list[i] = (struct option){ numbers[i].name, required_argument, NULL, i };
		value[i] = numbers[i].dfl * numbers[i].unit;
	}
	list[HELP] = (struct option){ "help", no_argument, NULL, HELP };
	list[PRESET] = (struct option){ "preset", required_argument, NULL, PRESET };
	list[SET] = (struct option){ "set", required_argument, NULL, SET };
	list[SEQUENTIAL] = (struct option){ "sequential", no_argument, NULL, SEQUENTIAL };
	while ((got = getopt_long(argc, argv, "", list, NULL)) >= 0) {
		switch (got) {
		case HELP:
			help();
			exit(0);
		case PRESET:
			s->preset = optarg;
			break;
		case SET:
			s->set = optarg;
			break;
		case SEQUENTIAL:
			s->load.sequential = true;
			break;
		case '?':
			exit(2);
		default:
			value[got] = parse(&numbers[got], optarg);
		}
	}
	if (optind < argc)
		refuse(argv[optind], "not an option; --help lists them");
	if (value[BYTES] % 512)
		refuse("bytes", "not a multiple of 512");
	if (value[TAG] > value[TURN])
		refuse("tag-ns", "more than turn-ns");
	s->load.bytes = (u32)value[BYTES];
	s->load.outstanding = (u32)value[OUTSTANDING];
	s->load.read_pct = (u32)value[READS];
	s->load.ramp = value[RAMP];
	s->load.until = value[RAMP] + value[RUN];
	s->load.tag = value[TAG];
	s->load.turn = value[TURN];
	s->run = value[RUN];
	s->lists = value[LISTS];
	s->effort = (struct effort){
		.rounds = (u32)value[ROUNDS],
		.choices = (u32)value[CHOICES],
		.horizon = value[HORIZON],
	};
	if (ek_flash_preset(&s->load.params, s->preset, why, sizeof(why)))
		refuse("preset", why);
	if (ek_flash_set(&s->load.params, s->set, why, sizeof(why)) ||
	    ek_flash_check(&s->load.params, why, sizeof(why)))
		refuse("set", why);
	if (s->load.params.kind != EK_FS_FLASH)
		refuse("preset", "not a flash device: there is nothing to choose");
}

/*
 * Print one member of the object. The mean latency follows from Little's law: the jobs'
 * requests are outstanding all the time, except during the host's work between two of them.
 * A mean over completed requests would ignore those that an order leaves unfinished.
 */
static void print(const char *name, const struct settings *s, double ios, double time)
{
	const struct sim_load *load = &s->load;

	printf("\"%s\": {\"mbps\": %.3f, \"iops\": %.1f, \"mean_us\": %.2f}", name,
	       ios * load->bytes * 1e3 / time, ios * 1e9 / time,
	       (load->outstanding * time / ios - (double)(load->turn - load->tag)) / 1e3);
}

/* Completions from ramp to until that the bound allows. Its credit for unfinished work cancels. */
static u64 bound_between(const struct sim_load *load)
{
	struct sim_load ramp = *load;

	ramp.until = load->ramp;
	return bound_ios(load) - (load->ramp ? bound_ios(&ramp) : 0);
}

static bool serve(struct settings *s)
{
	static const char *const steps[] = { "fifo", "tuned", "ahead" };
	struct policy policy = policy_start;
	u64 fifo = 0, oracle = 0, bound = 0, list, found[3] = {};
	struct outcome outcome, best;

	s->load.seed = TUNE_SEED;
	if (!search_tune(&s->load, s->effort.rounds, &policy))
		return false;
	for (list = 1; list <= s->lists; list++) {
		enum step step;

		s->load.seed = list;
		if (!search_run(&s->load, &policy_fifo, &outcome) ||
		    !search_best(&s->load, &policy, &s->effort, &best, &step))
			return false;
		fifo += outcome_ios(&outcome);
		oracle += outcome_ios(&best);
		bound += bound_between(&s->load);
		found[step]++;
	}
	printf("{");
	print("fifo", s, (double)fifo, (double)(s->lists * s->run));
	printf(", ");
	print("oracle", s, (double)oracle, (double)(s->lists * s->run));
	printf(", ");
	print("bound", s, (double)bound, (double)(s->lists * s->run));
	printf(", \"found_by\": {");
	for (list = 0; list < ARRAY_SIZE(steps); list++)
		printf("%s\"%s\": %llu", list ? ", " : "", steps[list],
		       (unsigned long long)found[list]);
	puts("}}");
	return true;
}

int main(int argc, char **argv)
{
	struct settings settings = { .preset = "sata-mlc-8ch", .set = "" };

	options(argc, argv, &settings);
	if (!serve(&settings)) {
		fputs("ek-oracle: not enough memory\n", stderr);
		return 1;
	}
	return 0;
}
