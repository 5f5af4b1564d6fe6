/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reading commands share: options and channels. Exit statuses: 0 all is well, 1 what was
 * read has faults, 2 wrong usage or nothing to read.
 */
#ifndef EKR_READER_CLI_H
#define EKR_READER_CLI_H

#include "cli.h"
#include "reader.h"

#define READER_DIRECTORY	"/recorder"

struct reader_cli {
	struct cli line;
	const char *directory;		/* of the channels */
	struct reader_options options;
	bool sequences;			/* --sequences was given */
};

/* The options of all reading commands, and of those that take a range; @c: a struct reader_cli. */
#define READER_OPTIONS(c)                                                                   \
	OPTION("directory", CLI_TEXT, &(c)->directory,                                      \
	       "DIR\tdirectory of the channels (default " READER_DIRECTORY ")"),            \
	OPTION("rate", CLI_BYTES, &(c)->options.rate,                                       \
	       "BYTES\tread at most this many bytes per second, such as 4MiB", .least = 1, \
	       .most = INT64_MAX),                                                          \
	{ 0 }
#define READER_RANGES(c)                                                                   \
	OPTION("from", CLI_PARSED, &(c)->options.range.from,                               \
	       "TIME\tstart at 2026-11-21T10:00:00Z, -5min (before now) or boot+90s",      \
	       .parse = reader_cli_time),                                                  \
	OPTION("to", CLI_PARSED, &(c)->options.range.to, "TIME\tend at this time",         \
	       .parse = reader_cli_time),                                                  \
	OPTION("sequences", CLI_PARSED, c, "A..B\tonly these sequences; A or B may be omitted", \
	       .parse = reader_cli_sequences)
#define READER_NOTES "A CHANNEL is a name in this directory, or a path that contains a '/'."
const char *reader_cli_time(void *to, const char *value);
const char *reader_cli_sequences(void *to, const char *value);

/* Sets the defaults, then as cli_parse(). */
int reader_cli_parse(struct reader_cli *cli, int argc, char **argv);

/*
 * The directory of a channel: the name's in --directory, or the argument itself if it has a '/'. To
 * be freed; NULL: it is neither, which was reported.
 */
char *reader_cli_path(const struct reader_cli *cli, const char *channel);
/* The last part of the path. */
const char *reader_cli_name(const char *path);

/*
 * The paths of the channels that were given, or of all; to be freed by reader_cli_free(). -1: there
 * are none, which was reported.
 */
int reader_cli_all(const struct reader_cli *cli, char ***paths);
void reader_cli_free(char **paths, int count);

/* Opens it; NULL: it cannot be read, which was reported. */
struct reader *reader_cli_open(const struct reader_cli *cli, const char *path);
/* Reports an error of reader_next() or of the output. */
void reader_cli_failed(const struct reader_cli *cli, const char *path, const struct reader *reader,
		       int err);

/* From now on, SIGINT, SIGTERM and SIGHUP end reader_next(). */
void reader_cli_catch(struct reader_cli *cli);

/* A kind of event that is a fault. */
static inline bool reader_is_fault(enum reader_kind kind)
{
	return kind == READER_DAMAGE || kind == READER_TORN || kind == READER_MISSING;
}

#endif /* EKR_READER_CLI_H */
