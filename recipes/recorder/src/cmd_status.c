// SPDX-License-Identifier: Apache-2.0
/* ek-recorder status: prints the statistics of the running recorder. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifdef EKR_HAS_JSON
#include "stats_json.h"
#endif

#include "cli.h"
#include "clock.h"
#include "config.h"

/* the recorder writes its statistics every second */
#define STALE (10 * NSEC_PER_SEC)

static int copy_out(const char *path)
{
	FILE *f = fopen(path, "re");
	char piece[4096];
	size_t n;

	if (!f) {
		fprintf(stderr, "ek-recorder status: reading %s: %s\n", path, strerror(errno));
		return 1;
	}
	while ((n = fread(piece, 1, sizeof(piece), f)))
		fwrite(piece, 1, n, stdout);
	fclose(f);
	return fflush(stdout) ? 1 : 0;
}

#ifdef EKR_HAS_JSON
static const char *text(sd_json_variant *v, const char *key)
{
	sd_json_variant *t = sd_json_variant_by_key(v, key);

	return t && sd_json_variant_is_string(t) ? sd_json_variant_string(t) : "";
}

static void print_channel(const char *name, sd_json_variant *c)
{
	uint64_t buffer = stats_number(c, "buffer");
	const char *reason = text(c, "reason");

	printf("%-20s %-10s %10" PRIu64 " %9.1f MB %8" PRIu64 " %6" PRIu64
	       " %7.0f %% %9.1f ms %9.1f ms\n",
	       name, text(c, "state"), stats_number(c, "records"),
	       (double)stats_number(c, "bytes") / 1e6, stats_lost(c), stats_number(c, "late"),
	       buffer ? 100.0 * (double)stats_number(c, "backlog") / (double)buffer : 0.0,
	       (double)stats_number(c, "record_p99_us") / 1e3,
	       (double)stats_number(c, "record_max_us") / 1e3);
	if (*reason)
		printf("%-20s %s\n", "", reason);
}

static int print_table(const char *path, sd_json_variant *all, const char *outdated)
{
	sd_json_variant *channels = sd_json_variant_by_key(all, "channels");
	const char *configuration = text(all, "configuration");
	uint64_t then = stats_number(all, "monotonic_ns"), now = monotonic_ns();

	if (!channels || !sd_json_variant_is_object(channels)) {
		fprintf(stderr,
			"ek-recorder status: %s is not a statistics file: it has no channels\n",
			path);
		return 1;
	}
	printf("%-20s %-10s %10s %12s %8s %6s %9s %12s %12s\n", "channel", "state", "records",
	       "bytes", "lost", "late", "backlog", "durable p99", "durable max");
	for (size_t i = 0; i + 1 < sd_json_variant_elements(channels); i += 2)
		print_channel(sd_json_variant_string(sd_json_variant_by_index(channels, i)),
			      sd_json_variant_by_index(channels, i + 1));
	if (*configuration || *outdated)
		printf("configuration: %s\n", *configuration ? configuration : outdated);
	if (now > then && now - then < STALE)
		return fflush(stdout) ? 1 : 0;
	fprintf(stderr,
		"ek-recorder status: these figures are older than 10 s: the recorder is not running or does not respond\n");
	return 1;
}

static int print(const char *path, const char *outdated)
{
	sd_json_variant *all = NULL;
	int ret = sd_json_parse_file(NULL, path, 0, &all, NULL, NULL);

	if (ret < 0) {
		fprintf(stderr, "ek-recorder status: reading %s: %s\n", path, strerror(-ret));
		if (*outdated)
			fprintf(stderr, "ek-recorder status: configuration: %s\n", outdated);
		return 1;
	}
	ret = print_table(path, all, outdated);
	sd_json_variant_unref(all);
	return ret;
}
#else
static int print(const char *path, const char *outdated)
{
	if (*outdated)
		fprintf(stderr, "ek-recorder status: configuration: %s\n", outdated);
	return copy_out(path);
}
#endif

int cmd_status(int argc, char **argv)
{
	const char *dir = CONFIG_DIR;
	struct recorder_config config;
	struct error e, outdated = { 0 };
	char path[PATH_MAX];
	bool json = false;
	const struct cli_option options[] = {
		OPTION("json", CLI_ON, &json, "print all statistics"),
		OPTION_CONFIG(&dir),
		{ 0 },
	};
	struct cli cli = {
		.command = "status",
		.usage = "",
		.about =
			"Prints the state and the counters of each channel, and why the configuration in the files is\n"
			"not the one in force, if so.\n"
			"Exit status 1: the recorder is not running or writes no statistics; 2: wrong usage, or it is\n"
			"not running and recorder.conf is invalid.",
		.options = options,
	};
	int status = cli_parse(&cli, argc, argv), ret;

	if (status >= 0)
		return status;
	ret = config_file(path, dir, "recorder.conf", &e);
	if (!ret)
		ret = config_recorder(path, &config, &e);
	/* at the default path may be the statistics of another recorder */
	if (ret && ret != -ENOENT && ret != -EINVAL) {
		cli_say(&cli, "%s", e.text);
		return 2;
	}
	/* an invalid file still names the statistics of the recorder that runs on without it */
	if (ret == -EINVAL)
		set_error(&outdated, -ret, "%.190s; the recorder would not start with it", e.text);
	if (!*config.statistics) {
		cli_say(&cli, "%s: statistics is empty, so the recorder writes none", path);
		return 1;
	}
	if (json && outdated.code)
		cli_say(&cli, "configuration: %s", outdated.text);
	ret = json ? copy_out(config.statistics) : print(config.statistics, outdated.text);
	return ret && outdated.code ? 2 : ret;
}
