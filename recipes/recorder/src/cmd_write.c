// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder write: what comes from standard input or a file becomes records of a
 * channel. What cannot wait is lost with a recorder that is behind (--no-wait);
 * else this waits for room, and so does whoever writes to it; also while the recorder
 * restarts.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../common/src/units.h"
#include "cli.h"
#include "client.h"
#include "clock.h"
#include "commands.h"
#include "ek_recorder.h"
#include "wire.h"

/* bytes that are read at once, if there are so many */
#define READ_LEAST 65536u
/* for a recorder to listen again */
#define PATIENCE_MS 10000
/* from one look whether the connection has ended to the next */
#define LOOK_MS 100

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
	"Records each line of FILE or standard input, without its line feed, in CHANNEL.\n\n"
	"  --size BYTES   record blocks of BYTES instead of lines; the last may be shorter\n"
	"  --ring         use shared memory instead of the socket\n"
	"  --no-wait      lose records instead of waiting when the recorder cannot keep up\n"
	"  --no-sync      exit without waiting until everything is on the medium\n"
	"  --socket PATH  socket of the recorder (default " EKR_SOCKET ")\n\n"
	"Without --no-wait it also waits while the recorder restarts.\n"
	"Exit status 1: it failed, or records were lost or left out; 2: wrong usage.\n";

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
				return cli_usage("write", "--size must be from 1 to 1MiB, not ",
						 optarg);
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
		return cli_usage("write", "expected CHANNEL and at most one FILE", "");
	o->channel = argv[optind];
	o->file = argc - optind == 2 ? argv[optind + 1] : NULL;
	return -1;
}

/* what is written to, and what became of it */
struct writing {
	const struct options *o;
	struct ek_writer *w;
	uint64_t too_long;  /* lines */
	size_t most;	    /* bytes of a record, when the channel was first opened */
	unsigned int ended; /* connections, as far as reported */
	bool gone;	    /* a recorder exited without having written everything */
};

static int say_failed(const struct writing *s)
{
	fprintf(stderr, "ek-recorder write: %s\n", s->w ? ek_writer_error(s->w) : "out of memory");
	return 1;
}

/* Reports once that a connection has ended. */
static void note_end(struct writing *s)
{
	const char *why;
	bool in_order;
	unsigned int ended = client_ended(s->w, &in_order, &why);

	if (ended == s->ended)
		return;
	s->ended = ended;
	s->gone |= !in_order;
	fprintf(stderr, "ek-recorder write: %s; %s for the recorder\n", why,
		s->o->wait ? "waiting" : "not waiting");
}

/*
 * While the recorder restarts, this waits for it, but not for long where none listens. 0, or a
 * negative errno.
 */
static int wait_for_room(struct writing *s)
{
	uint64_t until = 0;

	for (;;) {
		int ret = ek_writer_wait(s->w, LOOK_MS);

		note_end(s);
		if (ret == -ECONNREFUSED && !until)
			until = monotonic_ns() + PATIENCE_MS * NSEC_PER_MSEC;
		/* it listens, or systemd does for it, and is not ready: that may take any time */
		if (ret == -ETIMEDOUT || ret == -EAGAIN || ret == -EPIPE)
			until = 0;
		else if (ret != -ECONNREFUSED || monotonic_ns() > until)
			return ret;
	}
}

/* 0: done, lost or left out, which are counted; 1: it is over */
static int submit(struct writing *s, const void *record, size_t length)
{
	for (;;) {
		int ret = s->o->wait ? wait_for_room(s) : 0;

		if (ret)
			return say_failed(s);
		ret = ek_writer_submit(s->w, record, length);
		if (!s->o->wait)
			note_end(s);
		if (!ret || ret == -EAGAIN || (ret == -ENOTCONN && !s->o->wait))
			return 0;
		/* the channel takes shorter ones since it was opened again */
		if (ret == -EMSGSIZE && !s->o->size) {
			s->too_long++;
			return 0;
		}
		if (ret != -ENOTCONN)
			return say_failed(s);
		ret = client_take_back(s->w);
		note_end(s);
		if (!ret)
			return 0;
	}
}

/* what is left in the buffer when the input ends is the last record */
static int copy(struct writing *s, int fd)
{
	const size_t most = s->o->size ? (size_t)s->o->size : s->most;
	/* of a pipe at once what it has */
	const size_t room = most + 1 > READ_LEAST ? most + 1 : READ_LEAST;
	unsigned char *buffer = malloc(room);
	size_t begin = 0, end = 0; /* of what is in it */
	bool skipping = false;
	int status = 0;

	if (!buffer) {
		fputs("ek-recorder write: out of memory\n", stderr);
		return 1;
	}
	while (!status) {
		ssize_t n;

		memmove(buffer, buffer + begin, end - begin);
		end -= begin;
		begin = 0;
		n = read(fd, buffer + end, room - end);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			fprintf(stderr, "ek-recorder write: reading the input: %s\n",
				strerror(errno));
			status = 1;
		}
		if (n <= 0)
			break;
		end += (size_t)n;
		while (!status && begin < end) {
			const unsigned char *from = buffer + begin;
			const size_t used = end - begin;
			const unsigned char *feed = s->o->size ? NULL : memchr(from, '\n', used);
			const size_t length = feed			 ? (size_t)(feed - from) :
					      s->o->size && used >= most ? most :
									   0;

			if (!feed && !length && used <= most && !skipping)
				break;
			if (!feed && !length) {
				/* longer than a record, and its end is still to come */
				s->too_long += !skipping;
				skipping = true;
				begin = end;
				break;
			}
			if (!skipping && length > most)
				s->too_long++;
			else if (!skipping)
				status = submit(s, from, length);
			skipping = false;
			begin += length + (feed ? 1 : 0);
		}
	}
	if (!status && begin < end && !skipping)
		status = submit(s, buffer + begin, end - begin);
	free(buffer);
	return status;
}

/*
 * Until everything is on the medium. A recorder that was shut down meanwhile and reports that it has
 * written everything is as good: a script would submit everything again after a failure.
 */
static int finish(struct writing *s)
{
	const char *why;
	bool in_order;
	int ret = ek_writer_sync(s->w, -1);

	/* of an earlier connection, which was reported: once more for this one */
	if (ret == -EPIPE && s->gone && client_ended(s->w, &in_order, &why) == s->ended)
		ret = ek_writer_sync(s->w, -1);
	return ret ? say_failed(s) : 0;
}

static int run(struct writing *s, int fd)
{
	int status;

	s->most = ek_writer_channel(s->w)->record_size;
	if (s->o->size > s->most) {
		fprintf(stderr,
			"ek-recorder write: --size is too large: channel %s accepts records of up to %zu bytes\n",
			s->o->channel, s->most);
		return 1;
	}
	status = copy(s, fd);
	if (!status && s->o->sync)
		status = finish(s);
	if (s->too_long)
		fprintf(stderr,
			"ek-recorder write: %" PRIu64
			" lines were not recorded, because they are longer than %zu bytes\n",
			s->too_long, s->most);
	if (ek_writer_lost(s->w))
		fprintf(stderr, "ek-recorder write: %" PRIu64 " records were lost\n",
			ek_writer_lost(s->w));
	if (s->gone)
		fputs("ek-recorder write: the recorder did not shut down cleanly: what it had not written is lost; a gap marks the place\n",
		      stderr);
	return status || s->too_long || s->gone || ek_writer_lost(s->w) ? 1 : 0;
}

int cmd_write(int argc, char **argv)
{
	struct options o;
	struct writing s = { .o = &o };
	int status = parse(argc, argv, &o), fd = STDIN_FILENO;

	if (status >= 0)
		return status;
	if (o.file)
		fd = open(o.file, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "ek-recorder write: opening %s: %s\n", o.file, strerror(errno));
		return 1;
	}
	if (ek_writer_open(&s.w, o.socket, o.channel, o.way) || ek_writer_connect(s.w, PATIENCE_MS))
		status = say_failed(&s);
	else
		status = run(&s, fd);
	ek_writer_close(s.w);
	return status;
}
