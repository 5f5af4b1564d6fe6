/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines of the loads: a table per program says what each option takes
 * and where it goes, and is its --help as well. Whatever is wrong ends the
 * program with one line and status 2.
 */
#ifndef EK_OPTIONS_H
#define EK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum opt_kind {
	OPT_FLAG,	/* bool: set */
	OPT_TEXT,	/* const char * */
	OPT_BYTES,	/* uint64_t, bytes */
	OPT_TIME,	/* uint64_t, ns; at most 10^6 s */
	OPT_COUNT,	/* unsigned int, a whole number from min to max */
	OPT_CHOICE,	/* unsigned int, index of one of choices */
};

struct opt {
	const char *name;	/* without the dashes */
	enum opt_kind kind;
	void *to;
	uint64_t min;		/* of numbers */
	uint64_t max;		/* of numbers, 0: none (counts need one) */
	const char *const *choices;	/* NULL-terminated */
	const char *arg;	/* what the help calls its value, e.g. "BYTES" */
	const char *help;	/* one line */
};

struct opt_program {
	const char *usage;	/* what follows the program's name */
	const char *about;	/* one or two lines */
	const char *positional;	/* "one file to play": what must follow the options */
	unsigned int positionals;	/* how many of them */
	const struct opt *opts;	/* up to one without a name */
};

/*
 * Reads argv[first...]; --help prints and exits 0. Options may stand before,
 * between and after the positional arguments, which end up in argv[result...].
 */
int opt_parse(int argc, char **argv, const struct opt_program *program);

/* "PROGRAM: message" to standard error, then exit with status 2 */
_Noreturn void die_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
