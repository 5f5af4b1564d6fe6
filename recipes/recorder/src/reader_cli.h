/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reading commands share: options, channels, and how an event is told.
 * Exit statuses: 0 all is well, 1 what was read is not as it should be, 2 wrong
 * usage or nothing to read.
 */
#ifndef EKR_READER_CLI_H
#define EKR_READER_CLI_H

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "reader.h"
#include "reader_text.h"

#define READER_DIRECTORY	"/recorder"

/* `val` of a command's own options begins here. */
#define READER_OWN		512

struct reader_cli {
	const char *command;		/* its name */
	const char *usage;		/* what follows the options, such as "CHANNEL" */
	const char *about;		/* one line */
	const char *help;		/* lines on the command's own options, or "" */
	const struct option *own;	/* ends with { 0 }; at most 12 */
	/* Takes an own option; NULL or what is wrong with its value. */
	const char *(*set)(void *to, int option, const char *value);
	void *to;
	bool ranges;			/* it has --from, --to and --sequences */
	int most;			/* channels; -1: any number, and none for all */

	const char *directory;		/* of the channels */
	struct reader_options options;
	bool sequences;			/* --sequences was given */
	char **channels;		/* as they were given */
	int count;
};

/* -1: go on, else the exit status (--help: 0). */
int reader_cli_parse(struct reader_cli *cli, int argc, char **argv);

/* "ek-recorder COMMAND: message" to standard error */
void reader_cli_say(const struct reader_cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * The directory of a channel: the name's in --directory, or the argument itself
 * if it has a '/'. To be freed; NULL: it is neither (and that was said).
 */
char *reader_cli_path(const struct reader_cli *cli, const char *channel);
/* The last part of the path. */
const char *reader_cli_name(const char *path);

/*
 * The paths of the channels that were given, or of all; to be freed by
 * reader_cli_free(). -1: there are none (and that was said).
 */
int reader_cli_all(const struct reader_cli *cli, char ***paths);
void reader_cli_free(char **paths, int count);

/* Opens it; NULL: it could not (and that was said). */
struct reader *reader_cli_open(const struct reader_cli *cli, const char *path);

/* SIGINT, SIGTERM and SIGHUP end reader_next() from now on, by options.stop. */
void reader_cli_catch(struct reader_cli *cli);
extern volatile sig_atomic_t reader_cli_stop;

/* A kind that says that something is not as it should be. */
static inline bool reader_is_fault(enum reader_kind kind)
{
	return kind == READER_DAMAGE || kind == READER_TORN || kind == READER_MISSING;
}

#endif /* EKR_READER_CLI_H */
