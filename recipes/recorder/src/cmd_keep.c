// SPDX-License-Identifier: Apache-2.0
/* ek-recorder keep: protects a range of a recording, and lists and deletes protected ranges. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "config.h"
#include "reader_cli.h"
#include "scope.h"
#include "segment.h"
#include "wire.h"

/* s: longer than the recorder needs for a segment that it may be creating, and to write what is in memory */
#define PATIENCE 60

struct options {
	bool list;
	const char *remove; /* an incident; NULL: none */
	const char *socket;
};

static const char *take_incident(void *to, const char *value)
{
	*(const char **)to = value;
	return about_name_ok(value) ? NULL : "is not the name of an incident";
}

static const char *take_socket(void *to, const char *value)
{
	*(const char **)to = value;
	return strlen(value) < sizeof(((struct sockaddr_un *)0)->sun_path) ? NULL : "is too long";
}

static int ask(const struct reader_cli *cli, const struct options *o, const char *channel,
	       const char *incident)
{
	const struct reader_range *range = &cli->options.range;
	struct ekr_keep keep = { .type = EKR_KEEP,
				 .version = EKR_WIRE_VERSION,
				 .from_ns = range->from.ns,
				 .to_ns = range->to.ns };
	const struct timeval patience = { .tv_sec = PATIENCE };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	union {
		struct ekr_keep keep;
		struct ekr_refused refused;
	} answer;
	CLOSED int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ssize_t n;

	memcpy(keep.name, channel, strlen(channel));
	memcpy(keep.incident, incident, strlen(incident));
	memcpy(address.sun_path, o->socket, strlen(o->socket));
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    (send(fd, &keep, sizeof(keep), MSG_NOSIGNAL) < 0 && errno != EPIPE)) {
		cli_say(&cli->line, "asking the recorder at %s: %s. Does ek-recorder run?",
			o->socket, strerror(errno));
		return 1;
	}
	n = recv(fd, &answer, sizeof(answer), 0);
	if (n == sizeof(answer.keep) && answer.keep.type == EKR_KEEP) {
		printf("%s: %" PRIu64 " segments are kept as %s\n", channel, answer.keep.segments,
		       incident);
		return 0;
	}
	if (n == sizeof(answer.refused) && answer.refused.type == EKR_REFUSED)
		cli_say(&cli->line, "%.*s", (int)sizeof(answer.refused.why), answer.refused.why);
	else
		cli_say(&cli->line,
			"channel %s: the recorder did not answer and may still keep the range; check with 'ek-recorder keep --list %s'",
			channel, channel);
	return 1;
}

/* counts the segments and their bytes; with @remove it deletes all files */
static int each_file(const char *path, bool remove, uint64_t *segments, uint64_t *bytes)
{
	CLOSED_LIST DIR *d = opendir(path);
	struct dirent *entry;
	struct stat st;
	uint32_t index;

	if (!d)
		return -errno;
	while ((entry = readdir(d))) {
		if (*entry->d_name == '.')
			continue;
		if (segment_index(entry->d_name, &index) &&
		    !fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW)) {
			++*segments;
			*bytes += (uint64_t)st.st_size;
		}
		if (remove && unlinkat(dirfd(d), entry->d_name, 0))
			return -errno;
	}
	return remove && rmdir(path) ? -errno : 0;
}

static int list(const struct reader_cli *cli, const char *directory)
{
	FREED char *path = NULL;
	CLOSED_LIST DIR *d = NULL;
	struct dirent *entry;
	const char *bad;
	int status = 0;

	if (asprintf(&path, "%s/" MEDIUM_KEPT, directory) < 0)
		return 2;
	d = opendir(path);
	/* a channel without an incident has no such directory */
	bad = d ? NULL : errno != ENOENT ? path : access(directory, F_OK) ? directory : NULL;
	if (bad) {
		cli_say(&cli->line, "%s: %s", bad, strerror(errno));
		return 2;
	}
	while (d && (entry = readdir(d))) {
		uint64_t segments = 0, bytes = 0;
		FREED char *incident = NULL;
		int err;

		if (!about_name_ok(entry->d_name) ||
		    asprintf(&incident, "%s/%s", path, entry->d_name) < 0)
			continue;
		err = each_file(incident, false, &segments, &bytes);
		if (err) {
			cli_say(&cli->line, "%s: %s", incident, strerror(-err));
			status = 2;
		} else {
			printf("%-20s  %-24s  %5" PRIu64 " segments  %10.1f MiB\n",
			       reader_cli_name(directory), entry->d_name, segments,
			       (double)bytes / (1 << 20));
		}
	}
	return status;
}

/* -ENOENT: the channel has no such incident; this is not reported */
static int delete_incident(const struct reader_cli *cli, const char *directory,
			   const char *incident)
{
	uint64_t segments = 0, bytes = 0;
	FREED char *path = NULL;
	int err;

	if (asprintf(&path, "%s/" MEDIUM_KEPT "/%s", directory, incident) < 0)
		return -ENOMEM;
	err = each_file(path, true, &segments, &bytes);
	if (!err)
		printf("%s: %s: deleted %" PRIu64 " segments, %.1f MiB\n",
		       reader_cli_name(directory), incident, segments, (double)bytes / (1 << 20));
	else if (err != -ENOENT)
		cli_say(&cli->line, "%s: %s", path, strerror(-err));
	return err;
}

/* what was asked for, with one channel after the other */
static int do_all(const struct reader_cli *cli, const struct options *o, const char *incident)
{
	int status = 0, found = 0;
	char **paths;
	int count = reader_cli_all(cli, &paths);

	if (count < 0)
		return 2;
	for (int i = 0; i < count; i++) {
		int ret = o->list   ? list(cli, paths[i]) :
			  o->remove ? delete_incident(cli, paths[i], o->remove) :
				      ask(cli, o, reader_cli_name(paths[i]), incident);

		found += !o->remove || ret != -ENOENT;
		if (ret != -ENOENT && abs(ret) > status)
			status = ret < 0 ? 2 : ret;
	}
	reader_cli_free(paths, count);
	if (!count)
		cli_say(&cli->line, "there are no channels in %s", cli->directory);
	else if (!found)
		cli_say(&cli->line, "there is no incident %s; see 'ek-recorder keep --list'",
			o->remove);
	return fflush(stdout) || !count || !found ? 2 : status;
}

int cmd_keep(int argc, char **argv)
{
	struct options o = { .socket = EKR_SOCKET };
	struct reader_cli cli = { 0 };
	const struct reader_range *range = &cli.options.range;
	const struct cli_option options[] = {
		OPTION("list", CLI_ON, &o.list, "list the incidents"),
		OPTION("remove", CLI_PARSED, &o.remove,
		       "INCIDENT\tdelete an incident and its records", .parse = take_incident),
		OPTION("socket", CLI_PARSED, &o.socket,
		       "PATH\tsocket of the recorder (default " EKR_SOCKET ")",
		       .parse = take_socket),
		READER_RANGES(&cli),
		READER_OPTIONS(&cli),
	};
	const char *incident = NULL;
	int status;

	cli.line = (struct cli){
		.command = "keep",
		.usage = "[INCIDENT] [CHANNEL...]",
		.about =
			"Protects the segments with the records from --from to --to from being overwritten, under the\n"
			"name INCIDENT, in these channels or in all. They stay part of the recording, in addition to\n"
			"`retain` and within `keep` bytes. Exit status 1: a channel keeps nothing; the reason is printed.",
		.options = options,
		.least = 0,
		.most = -1,
	};
	status = reader_cli_parse(&cli, argc, argv);
	if (status >= 0)
		return status;
	if (o.list || o.remove)
		return do_all(&cli, &o, NULL);
	if (!cli.line.count)
		return cli_wrong(&cli.line, "expected INCIDENT, a name for what is kept");
	if (!range->from.set || !range->to.set || range->from.monotonic || range->to.monotonic ||
	    cli.sequences || range->from.ns > range->to.ns)
		return cli_wrong(
			&cli.line,
			"expected --from TIME and --to TIME, not before it; boot+TIME and --sequences do not work here");
	for (int i = 0; i < cli.line.count; i++)
		if (!about_name_ok(cli.line.arguments[i]))
			return cli_wrong(
				&cli.line,
				"'%s' is not a valid name: it has 1 to %u characters a-z, 0-9 or -",
				cli.line.arguments[i], EKR_NAME_MAX);
	incident = cli.line.arguments[0];
	cli.line.arguments++;
	cli.line.count--;
	return do_all(&cli, &o, incident);
}
