// SPDX-License-Identifier: Apache-2.0
/* ek-recorder: one program, a subcommand for each thing that it does. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *about;
} commands[] = {
	{ "run", cmd_run, "run the recorder" },
	{ "init", cmd_init, "create or check the segments of all channels, and exit" },
	{ "keep", cmd_keep, "protect a range of a recording from being overwritten" },
	{ "trim", cmd_trim, "delete the segments that a channel has beyond its retain" },
	{ "status", cmd_status, "show the state of the running recorder" },
	{ "ls", cmd_ls, "list the channels and what they hold" },
	{ "cat", cmd_cat, "print the records of a channel" },
	{ "follow", cmd_follow, "print the records of a channel as they are written" },
	{ "verify", cmd_verify, "read everything and report what is missing or damaged" },
	{ "export", cmd_export, "write a channel, or a part of it, as MCAP or CSV" },
	{ "write", cmd_write, "record lines or blocks of standard input or a file" },
	{ "bench", cmd_bench,
	  "measure how long a writer waits and how long until records are durable" },
};

static void usage(FILE *to)
{
	fputs("Usage: ek-recorder COMMAND [OPTION...]\n\n", to);
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		fprintf(to, "  %-8s  %s\n", commands[i].name, commands[i].about);
	fputs("\nRun 'ek-recorder COMMAND --help' for the options of a command.\n", to);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		usage(stdout);
		return fflush(stdout) ? 1 : 0;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("ek-recorder " EKR_VERSION);
		return fflush(stdout) ? 1 : 0;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "ek-recorder: unknown command '%s' (see --help)\n", argv[1]);
	return 2;
}
