// SPDX-License-Identifier: Apache-2.0
/* Command lines. */
#include "cli.h"

#include <getopt.h>
#include <stdio.h>

int cli_usage(const char *command, const char *message, const char *what)
{
	fprintf(stderr, "ek-recorder %s: %s%s (see --help)\n", command, message, what);
	return 2;
}

int cli_config(int argc, char **argv, const char *help, const char **dir, bool *json)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			*dir = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return fflush(stdout) ? 1 : 0;
		case 'j':
			if (!json)
				return cli_usage(argv[0], "this command has no option --json", "");
			*json = true;
			break;
		default:
			return 2;
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "ek-recorder %s: unexpected argument '%s' (see --help)\n", argv[0],
		argv[optind]);
	return 2;
}
