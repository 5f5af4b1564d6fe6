// SPDX-License-Identifier: Apache-2.0
/* ek-recorder follow: the records of a channel as they are written. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "reader_out.h"

/* @every_ns: longest time between two looks at the end */
static int follow(struct reader_cli *cli, enum reader_form form, uint64_t every_ns,
		  const char *path)
{
	struct reader *r = reader_cli_open(cli, path);
	struct reader_event e;
	bool fault = false;
	int err;

	if (!r)
		return 2;
	while (!(err = reader_next(r, &e))) {
		if (e.kind == READER_END) {
			if (fflush(stdout)) {
				err = -errno;
				break;
			}
			if (reader_over(r) ||
			    reader_wait(r, (int)(every_ns / NSEC_PER_MSEC), STDOUT_FILENO) < 0)
				break;
			continue;
		}
		fault |= reader_is_fault(e.kind);
		err = reader_out(stdout, form, reader_cli_name(path), &e);
		if (err)
			break;
	}
	if (err == -EINTR)
		err = fflush(stdout) ? -errno : 0;
	if (err)
		reader_cli_failed(cli, path, r, err);
	reader_close(r);
	return err ? 2 : fault;
}

int cmd_follow(int argc, char **argv)
{
	enum reader_form form = READER_PAYLOAD;
	uint64_t every_ns = NSEC_PER_SEC;
	struct reader_cli cli = { 0 };
	const struct cli_option options[] = {
		READER_FORMS(&form),
		OPTION("every", CLI_DURATION, &every_ns,
		       "TIME\tlongest time between two checks for new records (default 1s); a write\n"
		       "causes a check at once",
		       .least = NSEC_PER_MSEC, .most = NSEC_PER_SEC),
		READER_RANGES(&cli),
		READER_OPTIONS(&cli),
	};
	char *path;
	int status;

	cli.line = (struct cli){
		.command = "follow",
		.usage = "CHANNEL",
		.about =
			"Prints the records of a channel as they are written, from now on or from --from.\n"
			"Exits when --to has passed, on a signal, or when its output is closed.\n"
			"Exit status as for cat.",
		.notes = READER_NOTES,
		.options = options,
		.least = 1,
		.most = 1,
	};
	status = reader_cli_parse(&cli, argc, argv);
	if (status >= 0)
		return status;
	reader_cli_catch(&cli);
	cli.options.follow = true;
	cli.options.from_end = !cli.options.range.from.set && !cli.sequences;
	path = reader_cli_path(&cli, cli.line.arguments[0]);
	status = path ? follow(&cli, form, every_ns, path) : 2;
	free(path);
	return status;
}
