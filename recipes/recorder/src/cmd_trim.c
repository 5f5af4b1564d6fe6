// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder trim: deletes the segments that a channel has beyond its `retain`. Nothing else
 * deletes them: a smaller value may be a typing error.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "cli.h"
#include "directory.h"
#include "found.h"

static bool yes;

/* deletes one by one, oldest first: after a power cut, only the beginning of the recording is missing */
static int delete(struct channel *c, struct found *f, struct error *e)
{
	while (found_surplus(c, f)) {
		size_t i = found_oldest(f);

		if (i == f->r.count)
			break;
		if (unlinkat(c->directory, f->segments[i].file, 0))
			return set_errno(e, errno, "deleting %s", f->segments[i].file);
		found_file(f, i)->usable = false;
	}
	return fsync(c->directory) ? set_errno(e, errno, "flushing the deletion") : 0;
}

static int trim(struct channel *c, struct found *f, struct error *e)
{
	int ret = found_settle(c, f, e);
	size_t surplus;

	if (!ret)
		ret = found_open(c, f, e);
	if (ret)
		return ret;
	surplus = found_surplus(c, f);
	if (!surplus) {
		printf("%s: it has no more segments than retain needs\n", c->config.name);
		return 0;
	}
	if (yes)
		ret = delete (c, f, e);
	if (ret)
		return ret;
	printf("%s: %s the %zu oldest segments of %" PRIu64 " bytes, with the records in them%s\n",
	       c->config.name, yes ? "deleted" : "would delete", surplus, c->config.segment,
	       yes ? "" : "; add --yes to delete them");
	return 0;
}

static int trim_channel(const struct recorder_config *config, struct channel *c)
{
	struct error e = c->broken;
	int ret = -e.code;

	if (!ret)
		ret = channel_open(c, &e);
	if (!ret) {
		ret = directory_open(config, c, false, &e);
		if (!ret)
			ret = found_look(c, trim, &e);
	}
	if (ret == -EBUSY)
		fprintf(stderr,
			"ek-recorder trim: channel %s is being recorded. Stop the recorder first: systemctl stop ek-recorder.socket ek-recorder\n",
			c->config.name);
	else if (ret)
		fprintf(stderr, "ek-recorder trim: channel %s: %s\n", c->file, e.text);
	channel_close(c);
	return ret ? 1 : 0;
}

int cmd_trim(int argc, char **argv)
{
	static struct channel channels[CHANNELS_MAX];
	const char *dir = CONFIG_DIR;
	const struct cli_option options[] = {
		OPTION("yes", CLI_ON, &yes, "delete"),
		OPTION_CONFIG(&dir),
		{ 0 },
	};
	struct cli cli = {
		.command = "trim",
		.usage = "CHANNEL...",
		.about =
			"Deletes the oldest segments that a channel has beyond its `retain`, with the records in them.\n"
			"The recorder itself never does that: it keeps and uses the segments that exist.\n"
			"Without --yes it only prints what it would delete. The recorder must not be running.\n"
			"Exit status 1: it failed; 2: wrong usage, or the configuration is invalid.",
		.options = options,
		.least = 1,
		.most = -1,
	};
	struct recorder_config config;
	struct error e;
	int count, status = cli_parse(&cli, argc, argv);

	if (status >= 0)
		return status;
	status = 0;
	count = load_config(dir, &config, channels, &e);
	if (count < 0) {
		log_error("%s", e.text);
		return 2;
	}
	for (int k = 0; k < cli.count; k++) {
		int i = 0;

		while (i < count && strcmp(channels[i].file, cli.arguments[k]) != 0)
			i++;
		if (i == count)
			return cli_wrong(&cli, "there is no channel '%s'", cli.arguments[k]);
		status |= trim_channel(&config, &channels[i]);
	}
	return fflush(stdout) ? 1 : status;
}
