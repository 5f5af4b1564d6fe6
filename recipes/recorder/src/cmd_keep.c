// SPDX-License-Identifier: Apache-2.0
/* ek-recorder keep: protects a range of a recording, lists what is protected, and gives it up. */
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

#include "commands.h"
#include "config.h"
#include "reader_cli.h"
#include "segment.h"
#include "wire.h"

enum { LIST = READER_OWN, REMOVE, SOCKET };

/* longer than the recorder needs for the segment that it may be creating */
#define PATIENCE 60

struct options {
	bool list;
	const char *remove; /* an incident; NULL: none */
	const char *socket;
};

static const char *set(void *to, int option, const char *value)
{
	struct options *o = to;

	switch (option) {
	case LIST:
		o->list = true;
		return NULL;
	case REMOVE:
		o->remove = value;
		return config_name_ok(value) ? NULL : "is not the name of an incident";
	case SOCKET:
		o->socket = value;
		return strlen(value) < sizeof(((struct sockaddr_un *)0)->sun_path) ? NULL :
										     "is too long";
	default:
		return "is not accepted: this command has no such option";
	}
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
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ssize_t n = -1;

	memcpy(keep.name, channel, strlen(channel));
	memcpy(keep.incident, incident, strlen(incident));
	memcpy(address.sun_path, o->socket, strlen(o->socket));
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    (send(fd, &keep, sizeof(keep), MSG_NOSIGNAL) < 0 && errno != EPIPE)) {
		reader_cli_say(cli, "asking the recorder at %s: %s", o->socket, strerror(errno));
	} else {
		n = recv(fd, &answer, sizeof(answer), 0);
		if (n == sizeof(answer.refused) && answer.refused.type == EKR_REFUSED)
			reader_cli_say(cli, "%.*s", (int)sizeof(answer.refused.why),
				       answer.refused.why);
		else if (n != sizeof(answer.keep) || answer.keep.type != EKR_KEEP)
			reader_cli_say(
				cli,
				"the recorder did not answer; see 'ek-recorder keep --list %s'",
				channel);
	}
	if (fd >= 0)
		close(fd);
	if (n != sizeof(answer.keep) || answer.keep.type != EKR_KEEP)
		return 1;
	printf("%s: %" PRIu64 " segments are kept as %s\n", channel, answer.keep.segments,
	       incident);
	return 0;
}

/* bytes of the segments; with @remove it deletes all files */
static int each_file(const char *path, bool remove, uint64_t *segments, uint64_t *bytes)
{
	DIR *d = opendir(path);
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
		if (remove && unlinkat(dirfd(d), entry->d_name, 0)) {
			int err = -errno;

			closedir(d);
			return err;
		}
	}
	closedir(d);
	return remove && rmdir(path) ? -errno : 0;
}

static int list(const struct reader_cli *cli, const char *directory)
{
	char *path = NULL;
	struct dirent *entry;
	int status = 0;
	DIR *d;

	if (asprintf(&path, "%s/" MEDIUM_KEPT, directory) < 0)
		return 2;
	d = opendir(path);
	if (!d && errno != ENOENT) {
		reader_cli_say(cli, "%s: %s", path, strerror(errno));
		status = 2;
	}
	while (d && (entry = readdir(d))) {
		uint64_t segments = 0, bytes = 0;
		char *incident = NULL;
		int err;

		if (!config_name_ok(entry->d_name) ||
		    asprintf(&incident, "%s/%s", path, entry->d_name) < 0)
			continue;
		err = each_file(incident, false, &segments, &bytes);
		if (err) {
			reader_cli_say(cli, "%s: %s", incident, strerror(-err));
			status = 2;
		} else {
			printf("%-32s  %5" PRIu64 " segments  %10.1f MiB\n", entry->d_name,
			       segments, (double)bytes / (1 << 20));
		}
		free(incident);
	}
	if (d)
		closedir(d);
	free(path);
	return status;
}

static int give_up(const struct reader_cli *cli, const char *directory, const char *incident)
{
	uint64_t segments = 0, bytes = 0;
	char *path = NULL;
	int err;

	if (asprintf(&path, "%s/" MEDIUM_KEPT "/%s", directory, incident) < 0)
		return 2;
	err = each_file(path, true, &segments, &bytes);
	if (err)
		reader_cli_say(cli, "%s: %s", path, strerror(-err));
	else
		printf("%s: deleted %" PRIu64 " segments, %.1f MiB\n", incident, segments,
		       (double)bytes / (1 << 20));
	free(path);
	return err ? 2 : 0;
}

int cmd_keep(int argc, char **argv)
{
	static const struct option own[] = {
		{ "list", no_argument, NULL, LIST },
		{ "remove", required_argument, NULL, REMOVE },
		{ "socket", required_argument, NULL, SOCKET },
		{ 0 },
	};
	struct options o = { .socket = EKR_SOCKET };
	struct reader_cli cli = {
		.command = "keep",
		.usage = "CHANNEL [INCIDENT]",
		.about =
			"Protects the segments with the records from --from to --to from being overwritten, under the\n"
			"name INCIDENT. They stay part of the recording, beside `retain` and within `keep` bytes.",
		.help = "  --list              list the incidents of the channel\n"
			"  --remove INCIDENT   give an incident up: deletes its records\n"
			"  --socket PATH       socket of the recorder (default " EKR_SOCKET ")\n",
		.own = own,
		.set = set,
		.to = &o,
		.ranges = true,
		.most = -1,
	};
	int status = reader_cli_parse(&cli, argc, argv);
	const struct reader_range *range = &cli.options.range;
	char *path;

	if (status >= 0)
		return status;
	if (cli.count != (o.list || o.remove ? 1 : 2)) {
		reader_cli_say(&cli, "expected %s (see --help)",
			       o.list || o.remove ? "CHANNEL" : "CHANNEL INCIDENT");
		return 2;
	}
	if (o.list || o.remove) {
		path = reader_cli_path(&cli, cli.channels[0]);
		status = !path ? 2 : o.list ? list(&cli, path) : give_up(&cli, path, o.remove);
		free(path);
		return fflush(stdout) ? 2 : status;
	}
	if (!range->from.set || !range->to.set || range->from.monotonic || range->to.monotonic ||
	    cli.sequences || range->from.ns > range->to.ns) {
		reader_cli_say(
			&cli,
			"expected --from TIME and a later --to TIME, as real times (see --help)");
		return 2;
	}
	if (!config_name_ok(cli.channels[0]) || !config_name_ok(cli.channels[1])) {
		reader_cli_say(&cli, "a name has 1 to %u characters a-z, 0-9 or -", EKR_NAME_MAX);
		return 2;
	}
	return ask(&cli, &o, cli.channels[0], cli.channels[1]);
}
