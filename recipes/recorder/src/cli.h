/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of the commands that do not read recordings (those: reader_cli.h). */
#ifndef EKR_CLI_H
#define EKR_CLI_H

#include <stdbool.h>

/* One line to standard error that names the command and --help; returns 2. */
int cli_usage(const char *command, const char *message, const char *what);

/*
 * [--config DIR] [--help], and [--json] where @json is not NULL; argv[0] is the
 * command. -1: go on; else the exit status. *@dir is left as it is without --config.
 */
int cli_config(int argc, char **argv, const char *help, const char **dir, bool *json);

#endif
