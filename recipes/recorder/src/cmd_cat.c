// SPDX-License-Identifier: Apache-2.0
/* ek-recorder cat: the records of a channel to standard output. */
#include <errno.h>
#include <stdlib.h>

#include "reader_out.h"

int cmd_cat(int argc, char **argv)
{
	enum reader_form form = READER_PAYLOAD;
	struct reader_cli cli = { 0 };
	const struct cli_option options[] = { READER_FORMS(&form), READER_RANGES(&cli),
					      READER_OPTIONS(&cli) };
	struct reader_event e;
	struct reader *r;
	bool fault = false;
	int status, err;
	char *path;

	cli.line = (struct cli){
		.command = "cat",
		.usage = "CHANNEL",
		.about =
			"Prints the records of a channel. Exit status 1: some are missing or damaged, which\n"
			"standard error reports. A gap that the recorder recorded does not count.",
		.notes = READER_NOTES,
		.options = options,
		.least = 1,
		.most = 1,
	};
	status = reader_cli_parse(&cli, argc, argv);
	if (status >= 0)
		return status;
	path = reader_cli_path(&cli, cli.line.arguments[0]);
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
		reader_cli_failed(&cli, path, r, err);
	reader_close(r);
	free(path);
	return err ? 2 : fault;
}
