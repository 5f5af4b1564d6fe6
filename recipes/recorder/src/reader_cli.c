// SPDX-License-Identifier: Apache-2.0
/* What the reading commands share: options, channels, and how an event is told. */
#include "reader_cli.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/src/units.h"
#include "clock.h"
#include "segment.h"

#define MOST_OWN 12

enum { DIRECTORY = 256, RATE, FROM, TO, SEQUENCES };

volatile sig_atomic_t reader_cli_stop;

void reader_cli_say(const struct reader_cli *cli, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "ek-recorder %s: ", cli->command);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static int help(const struct reader_cli *cli)
{
	printf("Usage: ek-recorder %s [OPTION...] %s\n%s\n\n%s", cli->command, cli->usage,
	       cli->about, cli->help);
	if (cli->ranges)
		fputs("  --from TIME         start at 2026-11-21T10:00:00Z, -5min (before now) or boot+90s\n"
		      "  --to TIME           end at this time\n"
		      "  --sequences A..B    only these sequences; A or B may be omitted\n",
		      stdout);
	printf("  --directory DIR     directory of the channels (default %s)\n"
	       "  --rate BYTES        read at most this many bytes per second, such as 4MiB\n",
	       READER_DIRECTORY);
	fputs("A CHANNEL is a name in this directory, or a path that contains a '/'.\n", stdout);
	return fflush(stdout) ? 2 : 0;
}

static const char *set(struct reader_cli *cli, int option, const char *value)
{
	struct reader_range *range = &cli->options.range;

	switch (option) {
	case DIRECTORY:
		cli->directory = value;
		return *value ? NULL : "must not be empty";
	case RATE:
		return parse_bytes(value, &cli->options.rate) && cli->options.rate ?
			       NULL :
			       "is not a number of bytes such as 4MiB";
	case FROM:
		return reader_parse_time(value, realtime_ns(), &range->from);
	case TO:
		return reader_parse_time(value, realtime_ns(), &range->to);
	case SEQUENCES:
		cli->sequences = true;
		return reader_parse_sequences(value, range);
	default:
		return cli->set(cli->to, option, value);
	}
}

int reader_cli_parse(struct reader_cli *cli, int argc, char **argv)
{
	static const struct option common[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "directory", required_argument, NULL, DIRECTORY },
		{ "rate", required_argument, NULL, RATE },
		{ "from", required_argument, NULL, FROM },
		{ "to", required_argument, NULL, TO },
		{ "sequences", required_argument, NULL, SEQUENCES },
	};
	/* the last three are for those that take a range */
	const size_t base = sizeof(common) / sizeof(*common) - (cli->ranges ? 0 : 3);
	struct option all[sizeof(common) / sizeof(*common) + MOST_OWN + 1] = { 0 };
	size_t n = base;
	int c, which;

	memcpy(all, common, base * sizeof(*common));
	for (const struct option *o = cli->own; o && o->name && n < base + MOST_OWN; o++)
		all[n++] = *o;
	cli->directory = READER_DIRECTORY;
	cli->options.range = READER_ALL;
	cli->options.again_ns = READER_AGAIN;
	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, ":ho:", all, &which)) != -1) {
		const char *wrong, *name = "o";

		if (c == 'h')
			return help(cli);
		if (c == ':') {
			reader_cli_say(cli, "%s needs a value (see --help)", argv[optind - 1]);
			return 2;
		}
		if (c == '?') {
			reader_cli_say(cli, "unknown option %s, or it takes no value (see --help)",
				       argv[optind - 1]);
			return 2;
		}
		for (size_t i = 0; i < n; i++)
			if (all[i].val == c)
				name = all[i].name;
		wrong = c == 'o' && !cli->own ? "is not accepted: this command has no such option" :
						set(cli, c, optarg);
		if (wrong) {
			reader_cli_say(cli, "--%s: '%s' %s", name, optarg ? optarg : "", wrong);
			return 2;
		}
	}
	cli->channels = argv + optind;
	cli->count = argc - optind;
	if (cli->most >= 0 && cli->count != cli->most) {
		reader_cli_say(cli, "expected %s (see --help)", cli->usage);
		return 2;
	}
	return -1;
}

static bool is_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	size_t length = strlen(name);

	return length && length <= EKR_NAME_MAX && *name != '-' && strspn(name, letters) == length;
}

char *reader_cli_path(const struct reader_cli *cli, const char *channel)
{
	char *path = NULL;
	int n;

	if (!strchr(channel, '/') && !is_name(channel)) {
		reader_cli_say(
			cli,
			"'%s' is neither a path nor the name of a channel (a-z, 0-9 and -, at most %u)",
			channel, EKR_NAME_MAX);
		return NULL;
	}
	n = strchr(channel, '/') ? asprintf(&path, "%s", channel) :
				   asprintf(&path, "%s/%s", cli->directory, channel);
	if (n < 0) {
		reader_cli_say(cli, "out of memory");
		return NULL;
	}
	/* so that the last part is the name */
	for (size_t l = strlen(path); l > 1 && path[l - 1] == '/'; l--)
		path[l - 1] = '\0';
	return path;
}

const char *reader_cli_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

void reader_cli_free(char **paths, int count)
{
	for (int i = 0; i < count; i++)
		free(paths[i]);
	free(paths);
}

static int is_channel(const struct dirent *d)
{
	return is_name(d->d_name) && (d->d_type == DT_DIR || d->d_type == DT_UNKNOWN);
}

/* a directory without one is no channel, or one that is being made */
static bool has_segments(const char *path)
{
	struct dirent *entry;
	DIR *d = opendir(path);
	bool found = false;
	uint32_t index;

	if (!d)
		/* that it cannot be read is told when it is opened */
		return errno != ENOTDIR && errno != ENOENT;
	while (!found && (entry = readdir(d)) != NULL)
		found = segment_index(entry->d_name, &index);
	closedir(d);
	return found;
}

static int all_channels(const struct reader_cli *cli, char ***paths)
{
	struct dirent **found;
	int n = scandir(cli->directory, &found, is_channel, alphasort), count = 0;
	bool bad = false;

	if (n < 0) {
		reader_cli_say(cli, "looking for channels in %s: %s", cli->directory,
			       strerror(errno));
		return -1;
	}
	*paths = calloc((size_t)n + 1, sizeof(**paths));
	for (int i = 0; i < n; i++) {
		char *path = *paths && !bad ? reader_cli_path(cli, found[i]->d_name) : NULL;

		if (!path)
			bad = true;
		else if (has_segments(path))
			(*paths)[count++] = path;
		else
			free(path);
		free(found[i]);
	}
	free(found);
	if (bad) {
		if (*paths)
			reader_cli_free(*paths, count);
		return -1;
	}
	return count;
}

int reader_cli_all(const struct reader_cli *cli, char ***paths)
{
	if (!cli->count)
		return all_channels(cli, paths);
	*paths = calloc((size_t)cli->count, sizeof(**paths));
	if (!*paths) {
		reader_cli_say(cli, "out of memory");
		return -1;
	}
	for (int i = 0; i < cli->count; i++) {
		(*paths)[i] = reader_cli_path(cli, cli->channels[i]);
		if (!(*paths)[i]) {
			reader_cli_free(*paths, i);
			return -1;
		}
	}
	return cli->count;
}

struct reader *reader_cli_open(const struct reader_cli *cli, const char *path)
{
	struct reader *r;

	if (!reader_open(&r, path, &cli->options)) {
		if (reader_uses(r)->count)
			return r;
		reader_cli_say(cli, "%s: there are no segments of a recording", path);
	} else {
		reader_cli_say(cli, "%s", reader_error(r));
	}
	reader_close(r);
	return NULL;
}

static void on_signal(int sig)
{
	(void)sig;
	reader_cli_stop = 1;
}

void reader_cli_catch(struct reader_cli *cli)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* nohup's stays as it is */
	if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &sa, NULL);
	cli->options.stop = &reader_cli_stop;
}
