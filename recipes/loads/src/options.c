// SPDX-License-Identifier: Apache-2.0
/* Command lines of the loads. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/src/units.h"

#define MAX_OPTS 32
/* largest value of an OPT_TIME, ns: 10^6 s */
#define MAX_TIME UINT64_C(1000000000000000)
/* getopt_long() returns FIRST + n for entry n of a program's table; characters are below FIRST */
#define FIRST 256

void die_usage(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(" (see --help)\n", stderr);
	exit(2);
}

static bool parse_time(const char *text, uint64_t *ns)
{
	return parse_seconds(text, ns) && *ns <= MAX_TIME;
}

static bool parse_count(const struct opt *o, const char *text, uint64_t *n)
{
	return parse_number(text, n) && *n >= o->min && *n <= o->max;
}

static void choose(const struct opt *o, const char *text)
{
	char all[200] = "";
	size_t used = 0;

	for (unsigned int i = 0; o->choices[i]; i++) {
		if (!strcmp(o->choices[i], text)) {
			*(unsigned int *)o->to = i;
			return;
		}
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
					 o->choices[i]);
	}
	die_usage("--%s: '%s' is not one of: %s", o->name, text, all);
}

static void set(const struct opt *o, const char *text)
{
	uint64_t n = 0;

	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)o->to = true;
		return;
	case OPT_TEXT:
		if (!*text)
			die_usage("--%s: must not be empty", o->name);
		*(const char **)o->to = text;
		return;
	case OPT_CHOICE:
		choose(o, text);
		return;
	case OPT_COUNT:
		if (!parse_count(o, text, &n))
			die_usage("--%s: '%s' is not a whole number from %llu to %llu", o->name,
				  text, (unsigned long long)o->min, (unsigned long long)o->max);
		*(unsigned int *)o->to = (unsigned int)n;
		return;
	case OPT_BYTES:
		if (!parse_bytes(text, &n))
			die_usage(
				"--%s: '%s' is not a number of bytes such as 4096, 100M or 41.9MB",
				o->name, text);
		break;
	case OPT_TIME:
		if (!parse_time(text, &n))
			die_usage("--%s: '%s' is not a time such as 10, 0.5s or 5ms", o->name,
				  text);
		break;
	}
	if (n < o->min || (o->max && n > o->max)) {
		/* Print the limits in bytes or ns, so that they are exact. */
		const char *unit = o->kind == OPT_TIME ? "ns" : "bytes";

		if (o->max)
			die_usage("--%s: '%s' is not between %llu and %llu %s", o->name, text,
				  (unsigned long long)o->min, (unsigned long long)o->max, unit);
		die_usage("--%s: must be greater than 0", o->name);
	}
	*(uint64_t *)o->to = n;
}

static _Noreturn void help(const struct opt_program *program)
{
	bool bytes = false, time = false;

	printf("Usage: %s %s\n%s\n\n", program_invocation_short_name, program->usage,
	       program->about);
	for (const struct opt *o = program->opts; o->name; o++) {
		char left[64];

		snprintf(left, sizeof(left), "--%s%s%s", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		printf("  %-26s  %s\n", left, o->help);
		bytes |= o->kind == OPT_BYTES;
		time |= o->kind == OPT_TIME;
	}
	if (bytes)
		puts("BYTES: a number, or with K M G (powers of 1024) or kB MB GB (powers of 1000).");
	if (time)
		puts("TIME: a number of seconds, or with ns, us, ms, s, min, h or d.");
	exit(fflush(stdout) ? 1 : 0);
}

int opt_parse(int argc, char **argv, const struct opt_program *program)
{
	struct option longs[MAX_OPTS + 2] = { { "help", no_argument, NULL, 'h' } };
	unsigned int n = 0;
	int c;

	for (; program->opts[n].name && n < MAX_OPTS; n++)
		longs[n + 1] = (struct option){
			program->opts[n].name,
			program->opts[n].kind == OPT_FLAG ? no_argument : required_argument,
			NULL,
			FIRST + (int)n,
		};
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (c == 'h')
			help(program);
		if (c == ':')
			die_usage("%s needs a value", argv[optind - 1]);
		if (c < FIRST)
			die_usage("unknown option %s, or it takes no value", argv[optind - 1]);
		set(&program->opts[c - FIRST], optarg);
	}
	if (argc - optind < (int)program->positionals ||
	    (argc - optind > (int)program->positionals && !program->more))
		die_usage("expected %s, but got %d argument(s)", program->positional,
			  argc - optind);
	return optind;
}
