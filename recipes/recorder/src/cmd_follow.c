// SPDX-License-Identifier: Apache-2.0
/* ek-recorder follow: the records of a channel as they are written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/src/units.h"
#include "clock.h"
#include "commands.h"
#include "reader_out.h"

struct follow {
	enum reader_form form;
	uint64_t every; /* ns between two looks at the end */
};

enum { EVERY = READER_OWN + 100 };

static const char *set(void *to, int option, const char *value)
{
	struct follow *f = to;

	if (option != EVERY)
		return reader_out_set(&f->form, option, value);
	if (!parse_duration(value, &f->every) || f->every < NSEC_PER_MSEC ||
	    f->every > 3600 * NSEC_PER_SEC)
		return "is not a time from 1ms to 1h";
	return NULL;
}

static int follow(struct reader_cli *cli, const struct follow *f, const char *path)
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
			    reader_wait(r, (int)(f->every / NSEC_PER_MSEC), STDOUT_FILENO) < 0)
				break;
			continue;
		}
		fault |= reader_is_fault(e.kind);
		err = reader_out(stdout, f->form, reader_cli_name(path), &e);
		if (err)
			break;
	}
	if (err == -EINTR)
		err = fflush(stdout) ? -errno : 0;
	if (err)
		reader_cli_say(cli, "%s: %s", path,
			       *reader_error(r) ? reader_error(r) : strerror(-err));
	reader_close(r);
	return err ? 2 : fault;
}

int cmd_follow(int argc, char **argv)
{
	struct follow f = { .every = NSEC_PER_SEC };
	struct option own[8] = { { "every", required_argument, NULL, EVERY } };
	char lines[1024];
	struct reader_cli cli = {
		.command = "follow",
		.usage = "CHANNEL",
		.about =
			"Prints the records of a channel as they are written, from now on or from --from.\n"
			"Exits when --to has passed, on a signal, or when its output is closed.\n"
			"Exit status as for cat.",
		.help = lines,
		.own = own,
		.set = set,
		.to = &f,
		.ranges = true,
		.most = 1,
	};
	char *path;
	int status;

	for (size_t i = 0; i + 2 < sizeof(own) / sizeof(*own) && reader_out_options[i].name; i++)
		own[i + 1] = reader_out_options[i];
	snprintf(
		lines, sizeof(lines),
		"%s  --every TIME        longest time between two checks for new records (default 1s); a write\n"
		"                      causes a check at once\n",
		reader_out_help);
	status = reader_cli_parse(&cli, argc, argv);
	if (status >= 0)
		return status;
	reader_cli_catch(&cli);
	cli.options.follow = true;
	cli.options.from_end = !cli.options.range.from.set && !cli.sequences;
	path = reader_cli_path(&cli, cli.channels[0]);
	status = path ? follow(&cli, &f, path) : 2;
	free(path);
	return status;
}
