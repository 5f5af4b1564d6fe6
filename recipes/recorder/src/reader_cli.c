// SPDX-License-Identifier: Apache-2.0
/* What the reading commands share. */
#include "reader_cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "about.h"
#include "clock.h"
#include "scope.h"
#include "segment.h"

static volatile sig_atomic_t stop;

const char *reader_cli_time(void *to, const char *value)
{
	return reader_parse_time(value, realtime_ns(), to);
}

const char *reader_cli_sequences(void *to, const char *value)
{
	struct reader_cli *cli = to;

	cli->sequences = true;
	return reader_parse_sequences(value, &cli->options.range);
}

int reader_cli_parse(struct reader_cli *cli, int argc, char **argv)
{
	cli->directory = READER_DIRECTORY;
	cli->options.range = READER_ALL;
	cli->options.again_ns = READER_AGAIN;
	return cli_parse(&cli->line, argc, argv);
}

char *reader_cli_path(const struct reader_cli *cli, const char *channel)
{
	const bool is_path = strchr(channel, '/');
	char *path = NULL;
	int n;

	if (!is_path && !about_name_ok(channel)) {
		cli_say(&cli->line,
			"'%s' is neither a path nor the name of a channel (a-z, 0-9 and -, at most %u)",
			channel, EKR_NAME_MAX);
		return NULL;
	}
	n = is_path ? asprintf(&path, "%s", channel) :
		      asprintf(&path, "%s/%s", cli->directory, channel);
	if (n < 0) {
		cli_say(&cli->line, "out of memory");
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
	return about_name_ok(d->d_name) && (d->d_type == DT_DIR || d->d_type == DT_UNKNOWN);
}

/* a directory without one is no channel, or one that is being made */
static bool has_segments(const char *path)
{
	CLOSED_LIST DIR *d = opendir(path);
	struct dirent *entry;
	uint32_t index;

	if (!d)
		/* a directory that cannot be read is reported when it is opened */
		return errno != ENOTDIR && errno != ENOENT;
	while ((entry = readdir(d)) != NULL)
		if (segment_index(entry->d_name, &index))
			return true;
	return false;
}

int reader_cli_all(const struct reader_cli *cli, char ***paths)
{
	const bool all = !cli->line.count;
	struct dirent **found = NULL;
	int n = all ? scandir(cli->directory, &found, is_channel, alphasort) : cli->line.count;
	int count = 0;
	bool bad;

	if (n < 0) {
		cli_say(&cli->line, "looking for channels in %s: %s", cli->directory,
			strerror(errno));
		return -1;
	}
	*paths = calloc((size_t)n + 1, sizeof(**paths));
	bad = !*paths;
	if (bad)
		cli_say(&cli->line, "out of memory");
	for (int i = 0; i < n; i++) {
		const char *name = all ? found[i]->d_name : cli->line.arguments[i];
		char *path = bad ? NULL : reader_cli_path(cli, name);

		bad |= !path;
		if (all && path && !has_segments(path))
			free(path);
		else if (path)
			(*paths)[count++] = path;
		if (all)
			free(found[i]);
	}
	free(found);
	if (bad)
		reader_cli_free(*paths, count);
	return bad ? -1 : count;
}

struct reader *reader_cli_open(const struct reader_cli *cli, const char *path)
{
	struct reader *r;

	if (!reader_open(&r, path, &cli->options)) {
		if (reader_uses(r)->count)
			return r;
		cli_say(&cli->line, "%s: there are no segments of a recording", path);
	} else {
		cli_say(&cli->line, "%s", reader_error(r));
	}
	reader_close(r);
	return NULL;
}

void reader_cli_failed(const struct reader_cli *cli, const char *path, const struct reader *reader,
		       int err)
{
	cli_say(&cli->line, "%s: %s", path,
		*reader_error(reader) ? reader_error(reader) : strerror(-err));
}

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

void reader_cli_catch(struct reader_cli *cli)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* nohup's stays as it is */
	if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &sa, NULL);
	cli->options.stop = &stop;
}
