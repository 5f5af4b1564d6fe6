// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder write: records lines or blocks of standard input or a file. It waits when the recorder cannot
 * keep up, and while the recorder restarts; so does the program that writes to its pipe. With
 * --no-wait, records are lost instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "client.h"
#include "clock.h"
#include "ek_recorder.h"
#include "scope.h"
#include "wire.h"

/* bytes that are read at a time, if the input has as many */
#define READ_LEAST 65536u
/* time for a recorder to listen again */
#define PATIENCE_MS 10000
/* from one check whether the connection has ended to the next */
#define LOOK_MS 100

struct options {
	const char *socket;
	const char *channel;
	uint64_t size; /* of a record, 0: lines */
	enum ek_way way;
	bool wait;
	bool sync;
};

/* the writer, and what was lost */
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
		/* the recorder, or systemd for it, listens and is not ready: this may take any time */
		if (ret == -ETIMEDOUT || ret == -EAGAIN || ret == -EPIPE)
			until = 0;
		else if (ret != -ECONNREFUSED || monotonic_ns() > until)
			return ret;
	}
}

/* 0: submitted, or counted as lost or left out; 1: failed */
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
		/* since it was opened again, the channel accepts only shorter records */
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

/* the rest of the buffer at the end of the input is the last record */
static int copy(struct writing *s, int fd)
{
	const size_t most = s->o->size ? (size_t)s->o->size : s->most;
	/* reads from a pipe what it has */
	const size_t room = most + 1 > READ_LEAST ? most + 1 : READ_LEAST;
	FREED unsigned char *buffer = malloc(room);
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
			return 1;
		}
		if (!n)
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
	return status;
}

/*
 * Wait until everything is on the medium. This also succeeds if the recorder was shut down meanwhile and
 * reported that it had written everything: after a failure, a script would submit all records again.
 */
static int finish(struct writing *s)
{
	const char *why;
	bool in_order;
	int ret = ek_writer_sync(s->w, -1);

	/* the end of an earlier connection, which was reported: sync this connection as well */
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
	struct options o = { .way = EK_BY_SOCKET, .wait = true, .sync = true };
	const struct cli_option options[] = {
		OPTION("size", CLI_BYTES, &o.size,
		       "BYTES\trecord blocks of BYTES instead of lines; the last may be shorter",
		       .least = 1, .most = EKR_RECORD_MAX),
		OPTION("ring", CLI_SET, &o.way, "use shared memory instead of the socket",
		       .least = EK_BY_RING),
		OPTION("no-wait", CLI_OFF, &o.wait,
		       "lose records instead of waiting when the recorder cannot keep up"),
		OPTION("no-sync", CLI_OFF, &o.sync,
		       "exit without waiting until everything is on the medium"),
		OPTION("socket", CLI_TEXT, &o.socket,
		       "PATH\tsocket of the recorder (default " EKR_SOCKET ")"),
		{ 0 },
	};
	struct cli cli = {
		.command = "write",
		.usage = "CHANNEL [FILE]",
		.about =
			"Records each line of FILE or standard input, without its line feed, in CHANNEL. Without\n"
			"--no-wait it also waits while the recorder restarts.\n"
			"Exit status 1: it failed, or records were lost or left out; 2: wrong usage.",
		.options = options,
		.least = 1,
		.most = 2,
	};
	struct writing s = { .o = &o };
	int status = cli_parse(&cli, argc, argv), fd = STDIN_FILENO;

	if (status >= 0)
		return status;
	o.channel = cli.arguments[0];
	if (cli.count == 2)
		fd = open(cli.arguments[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		cli_say(&cli, "opening %s: %s", cli.arguments[1], strerror(errno));
		return 1;
	}
	if (ek_writer_open(&s.w, o.socket, o.channel, o.way) || ek_writer_connect(s.w, PATIENCE_MS))
		status = say_failed(&s);
	else
		status = run(&s, fd);
	ek_writer_close(s.w);
	return status;
}
