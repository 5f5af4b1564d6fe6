/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines of the loads. Each program has one table of its options. An entry has
 * the type of the value, the variable that gets it, and the text of --help. After an
 * error, the program prints one line and exits with status 2.
 */
#ifndef EK_OPTIONS_H
#define EK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum opt_kind {
	OPT_FLAG,	/* bool: becomes true */
	OPT_TEXT,	/* const char *, must not be empty */
	OPT_BYTES,	/* uint64_t, bytes */
	OPT_TIME,	/* uint64_t, ns; at most 10^6 s */
	OPT_COUNT,	/* unsigned int, a whole number from min to max */
	OPT_CHOICE,	/* unsigned int, index of one of choices */
};

struct opt {
	const char *name;	/* without the dashes */
	enum opt_kind kind;
	void *to;		/* the variable that gets the value; enum opt_kind has its type */
	uint64_t min;		/* smallest allowed number */
	uint64_t max;		/* largest allowed number; 0: no limit, except for OPT_COUNT */
	const char *const *choices;	/* the allowed words of OPT_CHOICE, NULL-terminated */
	const char *arg;	/* name of the value in the help, such as "BYTES" */
	const char *help;	/* one line */
};

struct opt_program {
	const char *usage;	/* text after the program's name */
	const char *about;	/* one or two lines */
	const char *positional;	/* the required arguments, such as "one file to play" */
	unsigned int positionals;	/* number of required arguments */
	bool more;		/* further arguments are allowed */
	const struct opt *opts;	/* ends with an entry without a name */
};

/*
 * Parses argv. --help prints the help and exits with status 0. Options may come
 * before, between and after the positional arguments. The function moves the positional
 * arguments to the end of argv, and returns the index of the first one.
 */
int opt_parse(int argc, char **argv, const struct opt_program *program);

/* Prints "PROGRAM: message (see --help)" to standard error, then exits with status 2. */
_Noreturn void die_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
