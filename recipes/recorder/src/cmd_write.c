// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder write: what comes from standard input or a file becomes records of a
 * channel. What cannot wait is lost with a recorder that is behind (--no-wait);
 * else this waits for room, and so does whoever writes to it; also while the recorder
 * is started anew. By ring a record may then be there twice: the one that met the end.
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
/* for somebody to listen again where the recorder was, and between two looks */
#define REOPEN_PATIENCE (10 * NSEC_PER_SEC)
#define REOPEN_PAUSE	(100 * NSEC_PER_MSEC)

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
	uint64_t lost;	   /* of writers before this one */
	uint64_t too_long; /* lines */
	size_t most;	   /* bytes of a record, when the channel was first opened */
	bool gone; /* a recorder has gone other than in order, with what it had not written */
};

static uint64_t lost(const struct writing *s)
{
	return s->lost + (s->w ? ek_writer_lost(s->w) : 0);
}

/*
 * The recorder was stopped or has crashed, and is started again: whoever can wait does.
 * Where nobody listens any more, not for long. 0, or a negative errno and the writer has
 * the words.
 */
static int reopen(struct writing *s)
{
	const struct timespec pause = timespec_of(REOPEN_PAUSE);
	const uint64_t until = monotonic_ns() + REOPEN_PATIENCE;
	int ret;

	s->gone |= !client_in_order(s->w);
	s->lost += ek_writer_lost(s->w);
	fprintf(stderr, "ek-recorder write: %s; waiting for the recorder\n", ek_writer_error(s->w));
	for (;;) {
		ek_writer_close(s->w);
		ret = ek_writer_open(&s->w, s->o->socket, s->o->channel, s->o->way);
		if (!ret || !s->w)
			return ret;
		/* it listens, or systemd does for it, and it is not ready */
		if (ret != -EPIPE && ret != -ETIMEDOUT && ret != -EAGAIN &&
		    (ret != -ECONNREFUSED || monotonic_ns() > until))
			return ret;
		nanosleep(&pause, NULL);
	}
}

static int say_failed(const struct writing *s)
{
	fprintf(stderr, "ek-recorder write: %s\n", s->w ? ek_writer_error(s->w) : "out of memory");
	return 1;
}

/* 0: done, lost or left out, which are counted; 1: it is over */
static int submit(struct writing *s, const void *record, size_t length)
{
	for (;;) {
		int ret = s->o->wait ? ek_writer_wait(s->w, -1) : 0;

		if (!ret)
			ret = ek_writer_submit(s->w, record, length);
		if (!ret || ret == -EAGAIN)
			return 0;
		/* the channel takes shorter ones since it was opened anew */
		if (ret == -EMSGSIZE && !s->o->size) {
			s->too_long++;
			return 0;
		}
		if (ret != -EPIPE || !s->o->wait || reopen(s))
			return say_failed(s);
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
 * Until all is on the medium. A recorder that is stopped meanwhile and says that it has taken
 * all of it is as good: whoever gave it again would have it twice.
 */
static int finish(struct writing *s)
{
	int ret = ek_writer_sync(s->w, -1);

	return !ret || (ret == -EPIPE && client_in_order(s->w)) ? 0 : say_failed(s);
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
	if (lost(s))
		fprintf(stderr, "ek-recorder write: %" PRIu64 " records were lost\n", lost(s));
	if (s->gone)
		fputs("ek-recorder write: the recorder did not shut down cleanly: what it had not written is lost; a gap marks the place\n",
		      stderr);
	return status || s->too_long || s->gone || lost(s) ? 1 : 0;
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
	if (ek_writer_open(&s.w, o.socket, o.channel, o.way))
		status = say_failed(&s);
	else
		status = run(&s, fd);
	ek_writer_close(s.w);
	return status;
}
