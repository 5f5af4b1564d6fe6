// SPDX-License-Identifier: Apache-2.0
/* ek-recorder init: creates what the recorder would create, and exits when everything exists. */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel.h"
#include "cli.h"
#include "found.h"
#include "prepare.h"

static int make(struct prepare *p, struct channel *c, struct error *e)
{
	uint32_t before;
	int ret = prepare_channel(p, c, e);

	if (ret)
		return ret;
	before = atomic_load(&c->made);
	do {
		ret = prepare_segment(p, c, e);
	} while (!ret);
	if (ret < 0)
		return ret;
	printf("%s: %" PRIu32 " segments of %" PRIu64 " bytes, %" PRIu32 " of them new\n",
	       c->config.name, atomic_load(&c->made), c->config.segment,
	       atomic_load(&c->made) - before);
	/* nothing was recorded: the next start finds the same marker */
	return opening_leave(c, e);
}

/* the recorder runs as the owner of the directory, and cannot open files of root */
static int become_owner(const char *directory, struct error *e)
{
	struct stat st;

	/* a missing directory is reported when it is opened */
	if (geteuid() || stat(directory, &st) || !st.st_uid)
		return 0;
	if (setgroups(0, NULL) || setgid(st.st_gid) || setuid(st.st_uid))
		return set_errno(e, errno, "switching to the owner of %s", directory);
	return 0;
}

static int init(const char *dir)
{
	static struct channel channels[CHANNELS_MAX];
	struct recorder_config config;
	struct rlimit files;
	struct prepare prepare;
	struct error e;
	int count = load_config(dir, &config, channels, &e), status = 0;

	if (count < 0) {
		log_error("%s", e.text);
		return 2;
	}
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (become_owner(config.directory, &e) ||
	    prepare_open(&prepare, &config, channels, (unsigned int)count, -1, &e)) {
		log_error("%s", e.text);
		return 1;
	}
	for (int i = 0; i < count; i++) {
		struct channel *c = &channels[i];

		if (c->broken.code) {
			status = 1;
			continue;
		}
		if (channel_open(c, &e) || make(&prepare, c, &e)) {
			log_error("channel %s: %s", c->config.name, e.text);
			status = 1;
		}
		channel_close(c);
	}
	prepare_close(&prepare);
	return fflush(stdout) ? 1 : status;
}

int cmd_init(int argc, char **argv)
{
	const char *dir = CONFIG_DIR;
	const struct cli_option options[] = { OPTION_CONFIG(&dir), { 0 } };
	struct cli cli = {
		.command = "init",
		.usage = "",
		.about =
			"Checks the configuration, creates all missing segments, and exits. If root runs it, the\n"
			"segments belong to the owner of the recorder's directory.\n"
			"Exit status 1: a channel does not have its segments; 2: wrong usage or invalid configuration.",
		.options = options,
	};
	int status = cli_parse(&cli, argc, argv);

	return status < 0 ? init(dir) : status;
}
