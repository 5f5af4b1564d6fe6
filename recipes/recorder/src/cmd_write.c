// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder write: what comes from standard input or a file becomes records of a
 * channel. What cannot wait is lost with a recorder that is behind (--no-wait);
 * else this waits for room, and so does whoever writes to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/units.h"
#include "cli.h"
#include "commands.h"
#include "ek_recorder.h"
#include "wire.h"

struct options {
	const char *socket;
	const char *channel;
	const char *file; /* NULL: standard input */
	uint64_t size;	  /* of a record, 0: lines */
	enum ek_way way;
	bool wait;
	bool sync;
};

static const char help[] =
	"Usage: ek-recorder write [OPTION...] CHANNEL [FILE]\n\n"
	"Records each line of FILE or standard input, without its end, in CHANNEL.\n\n"
	"  --size BYTES   records of so many bytes instead of lines; the last may be shorter\n"
	"  --ring         by shared memory instead of the socket\n"
	"  --no-wait      lose records when the recorder is behind instead of waiting\n"
	"  --no-sync      end without waiting until all is on the medium\n"
	"  --socket PATH  of the recorder (default " EKR_SOCKET ")\n\n"
	"Status 1: it failed, or records were lost or left out; 2: wrong usage.\n";

/* -1: go on; else the exit status */
static int parse(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "ring", no_argument, NULL, 'r' },
		{ "no-wait", no_argument, NULL, 'w' },
		{ "no-sync", no_argument, NULL, 'n' },
		{ "socket", required_argument, NULL, 'S' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int option;

	*o = (struct options){ .way = EK_BY_SOCKET, .wait = true, .sync = true };
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			if (!parse_bytes(optarg, &o->size) || !o->size || o->size > EKR_RECORD_MAX)
				return cli_usage("write",
						 "--size: not a size from 1 to 1MiB: ", optarg);
			break;
		case 'r':
			o->way = EK_BY_RING;
			break;
		case 'w':
			o->wait = false;
			break;
		case 'n':
			o->sync = false;
			break;
		case 'S':
			o->socket = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return fflush(stdout) ? 1 : 0;
		default:
			return 2;
		}
	}
	if (argc - optind < 1 || argc - optind > 2)
		return cli_usage("write", "give a channel, and a file or nothing", "");
	o->channel = argv[optind];
	o->file = argc - optind == 2 ? argv[optind + 1] : NULL;
	return -1;
}

/* 0: done or lost, both of which are counted by the library; 1: it is over */
static int submit(struct ek_writer *w, const struct options *o, const void *record, size_t length)
{
	int ret = o->wait ? ek_writer_wait(w, -1) : 0;

	if (!ret)
		ret = ek_writer_submit(w, record, length);
	if (!ret || ret == -EAGAIN)
		return 0;
	fprintf(stderr, "ek-recorder write: %s\n", ek_writer_error(w));
	return 1;
}

/* what is left in the buffer when the input ends is the last record */
static int copy(struct ek_writer *w, const struct options *o, int fd, uint64_t *too_long)
{
	size_t most = o->size ? (size_t)o->size : ek_writer_channel(w)->record_size;
	unsigned char *buffer = malloc(most + 1);
	size_t used = 0;
	bool skipping = false;
	int status = 0;

	if (!buffer) {
		fputs("ek-recorder write: no memory\n", stderr);
		return 1;
	}
	while (!status) {
		ssize_t n = read(fd, buffer + used, most + 1 - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			fprintf(stderr, "ek-recorder write: reading: %s\n", strerror(errno));
			status = 1;
		}
		if (n <= 0)
			break;
		used += (size_t)n;
		while (!status && used) {
			unsigned char *end = o->size ? NULL : memchr(buffer, '\n', used);
			size_t length = end			? (size_t)(end - buffer) :
					o->size && used >= most ? most :
								  0;
			size_t taken = end ? length + 1 : length;

			if (!taken && used <= most && !skipping)
				break;
			if (!taken) {
				/* longer than a record, and its end is still to come */
				*too_long += !skipping;
				skipping = true;
				used = 0;
				break;
			}
			if (!skipping)
				status = submit(w, o, buffer, length);
			skipping = false;
			used -= taken;
			memmove(buffer, buffer + taken, used);
		}
	}
	if (!status && used && !skipping)
		status = submit(w, o, buffer, used);
	free(buffer);
	return status;
}

static int run(struct ek_writer *w, const struct options *o, int fd)
{
	uint64_t too_long = 0;
	int status;

	if (o->size > ek_writer_channel(w)->record_size) {
		fprintf(stderr, "ek-recorder write: channel %s takes records of at most %u bytes\n",
			o->channel, ek_writer_channel(w)->record_size);
		return 1;
	}
	status = copy(w, o, fd, &too_long);
	if (!status && o->sync && ek_writer_sync(w, -1)) {
		fprintf(stderr, "ek-recorder write: %s\n", ek_writer_error(w));
		status = 1;
	}
	if (too_long)
		fprintf(stderr,
			"ek-recorder write: %" PRIu64
			" lines were longer than %u bytes and left out\n",
			too_long, ek_writer_channel(w)->record_size);
	if (ek_writer_lost(w))
		fprintf(stderr, "ek-recorder write: %" PRIu64 " records were lost\n",
			ek_writer_lost(w));
	return status || too_long || ek_writer_lost(w) ? 1 : 0;
}

int cmd_write(int argc, char **argv)
{
	struct options o;
	struct ek_writer *w;
	int status = parse(argc, argv, &o), fd = STDIN_FILENO;

	if (status >= 0)
		return status;
	if (o.file)
		fd = open(o.file, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "ek-recorder write: opening %s: %s\n", o.file, strerror(errno));
		return 1;
	}
	if (ek_writer_open(&w, o.socket, o.channel, o.way)) {
		fprintf(stderr, "ek-recorder write: %s\n", w ? ek_writer_error(w) : "no memory");
		status = 1;
	} else {
		status = run(w, &o, fd);
	}
	ek_writer_close(w);
	return status;
}
