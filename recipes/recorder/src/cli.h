/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines: a command describes its options in a table, and gets their values and its help
 * from it. Wrong usage is one line on standard error and exit status 2.
 */
#ifndef EKR_CLI_H
#define EKR_CLI_H

#include <stdbool.h>
#include <stdint.h>

enum cli_kind {
	CLI_ON,			/* bool: true */
	CLI_OFF,		/* bool: false */
	CLI_SET,		/* int: `least` */
	CLI_TEXT,		/* const char *: not empty */
	CLI_CHOICE,		/* int: the place in `choices` */
	CLI_NUMBER,		/* uint64_t, from `least` to `most` */
	CLI_BYTES,
	CLI_DURATION,		/* ns */
	CLI_PARSED,		/* what `parse` makes of it: NULL, or what is wrong as a phrase */
};

struct cli_option {
	const char *name;
	enum cli_kind kind;
	void *to;
	const char *help;	/* "TEXT" or "ARGUMENT\tTEXT"; a line feed continues TEXT */
	uint64_t least, most;
	const char *const *choices;	/* ends with NULL */
	const char *(*parse)(void *to, const char *value);
	char letter;		/* its short form; 0: none */
};

#define OPTION(name_, kind_, to_, help_, ...) \
	{ .name = (name_), .kind = (kind_), .to = (to_), .help = (help_), ##__VA_ARGS__ }

struct cli {
	const char *command;	/* its name */
	const char *usage;	/* what follows the options, such as "CHANNEL" */
	const char *about;	/* lines without a line feed at the end */
	const char *notes;	/* after the options; NULL: none */
	const struct cli_option *options;	/* ends with one without a name */
	int least, most;	/* arguments; most -1: any number */
	char **arguments;	/* as they were given */
	int count;
};

/* -1: go on; otherwise the exit status. argv[0] is the command. */
int cli_parse(struct cli *cli, int argc, char **argv);

/* "ek-recorder COMMAND: MESSAGE" to standard error. */
void cli_say(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with a hint at --help; returns 2. */
int cli_wrong(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The configuration directory, for commands that read it. */
#define OPTION_CONFIG(to_)             \
	OPTION("config", CLI_TEXT, to_, \
	       "DIR\tconfiguration of the recorder (default " CONFIG_DIR ")")

/*
 * The commands: each is cmd_NAME() in cmd_NAME.c; follow is in cmd_cat.c. argv[0] is the command. Returns the
 * exit status: 0 done, 1 failed, 2 wrong usage.
 */
int cmd_run(int argc, char **argv);
int cmd_write(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_keep(int argc, char **argv);
int cmd_trim(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_cat(int argc, char **argv);
int cmd_follow(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_bench(int argc, char **argv);

#endif
