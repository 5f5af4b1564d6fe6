// SPDX-License-Identifier: Apache-2.0
/* ek-recorder cat: the records of a channel to standard output. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "reader_out.h"

int cmd_cat(int argc, char **argv)
{
	enum reader_form form = READER_PAYLOAD;
	struct reader_cli cli = {
		.command = "cat",
		.usage = "CHANNEL",
		.about =
			"Prints the records of a channel. Exit status 1: some are missing or damaged, which\n"
			"standard error reports. A gap that the recorder recorded does not count.",
		.help = reader_out_help,
		.own = reader_out_options,
		.set = reader_out_set,
		.to = &form,
		.ranges = true,
		.most = 1,
	};
	struct reader_event e;
	struct reader *r;
	bool fault = false;
	char *path;
	int status = reader_cli_parse(&cli, argc, argv), err = 0;

	if (status >= 0)
		return status;
	path = reader_cli_path(&cli, cli.channels[0]);
	r = path ? reader_cli_open(&cli, path) : NULL;
	if (!r) {
		free(path);
		return 2;
	}
	while (!(err = reader_next(r, &e)) && e.kind != READER_END) {
		fault |= reader_is_fault(e.kind);
		err = reader_out(stdout, form, reader_cli_name(path), &e);
		if (err)
			break;
	}
	if (!err && fflush(stdout))
		err = -errno;
	if (err)
		reader_cli_say(&cli, "%s: %s", path,
			       *reader_error(r) ? reader_error(r) : strerror(-err));
	reader_close(r);
	free(path);
	return err ? 2 : fault;
}
