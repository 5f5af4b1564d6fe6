// SPDX-License-Identifier: Apache-2.0
/* A FIFO as a channel's writer. */
#include "fifo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

#define RETRY (10 * NSEC_PER_SEC)
/* between two messages of what a writer does wrong */
#define QUIET (60 * NSEC_PER_SEC)
/* reads before it is another's turn */
#define FAIR 8

static void on_fifo(struct handler *h, uint32_t events);

int fifo_init(struct fifo *f, struct ingest *in, struct channel *c, struct error *e)
{
	*f = (struct fifo){ .ingest = in, .channel = c, .fd = -1 };
	f->on_fifo.on_event = on_fifo;
	if (!*c->config.fifo || c->broken.code)
		return 0;
	f->partial = malloc(c->config.record_size);
	return f->partial ? 0 : set_error(e, ENOMEM, "allocating memory for a FIFO: out of memory");
}

static void take_record(struct fifo *f)
{
	const struct record record = {
		.sequence = f->channel->intake.next_sequence,
		.monotonic_ns = monotonic_ns(),
		.realtime_ns = realtime_ns(),
		.payload = f->partial,
		.length = (uint32_t)f->used,
	};

	intake_take(&f->channel->intake, &record, true);
	f->used = 0;
}

static void add(struct fifo *f, const unsigned char *from, size_t n)
{
	memcpy(f->partial + f->used, from, n);
	f->used += n;
}

/* not each: a writer that knows no better has thousands a second, and the journal is on flash too */
static bool may_say(struct fifo *f)
{
	uint64_t now = monotonic_ns();

	if (now < f->quiet_until_ns)
		return false;
	f->quiet_until_ns = now + QUIET;
	return true;
}

static void take_lines(struct fifo *f, const unsigned char *from, size_t left)
{
	while (left) {
		const unsigned char *end = memchr(from, '\n', left);
		size_t n = end ? (size_t)(end - from) : left;

		if (!f->skipping && n > f->channel->config.record_size - f->used) {
			if (may_say(f))
				log_warning(
					"channel %s: a line from %s is longer than %zu bytes; it is lost",
					f->channel->config.name, f->channel->config.fifo,
					(size_t)f->channel->config.record_size);
			intake_lose(&f->channel->intake, EKR_GAP_WRITER, 1);
			f->skipping = true;
			f->used = 0;
		}
		if (!f->skipping)
			add(f, from, n);
		if (end && !f->skipping)
			take_record(f);
		if (end)
			f->skipping = false;
		n += end ? 1 : 0;
		from += n;
		left -= n;
	}
}

static void take_fixed(struct fifo *f, const unsigned char *from, size_t left)
{
	size_t size = (size_t)f->channel->config.record_size;

	while (left) {
		size_t n = left < size - f->used ? left : size - f->used;

		add(f, from, n);
		if (f->used == size)
			take_record(f);
		from += n;
		left -= n;
	}
}

/* @closed: all who had it open for writing have closed it, else the end of a record may still come */
static void take_end(struct fifo *f, bool closed)
{
	if (f->used && f->channel->config.fifo_lines && closed) {
		take_record(f);
	} else if (f->used) {
		if (may_say(f))
			log_warning(
				"channel %s: the writer of %s left an incomplete record of %zu bytes; it is lost",
				f->channel->config.name, f->channel->config.fifo, f->used);
		intake_lose(&f->channel->intake, EKR_GAP_WRITER, 1);
		f->used = 0;
	}
	f->skipping = false;
	intake_tell(&f->channel->intake);
}

/* At most @most bytes: how many, 0: all writers have closed it, -EAGAIN: nothing for now */
static ssize_t read_some(struct fifo *f, size_t most)
{
	ssize_t n;

	do {
		n = read(f->fd, f->ingest->message,
			 most < f->ingest->message_size ? most : f->ingest->message_size);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -EAGAIN;
	if (!n)
		return 0;
	if (f->channel->config.fifo_lines)
		take_lines(f, f->ingest->message, (size_t)n);
	else
		take_fixed(f, f->ingest->message, (size_t)n);
	return n;
}

static int open_fifo(const struct fifo *f)
{
	const char *path = f->channel->config.fifo;
	struct stat st;
	int fd;

	/* for the group too, whatever the umask is */
	if (!mkfifo(path, 0620))
		chmod(path, 0620);
	else if (errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISFIFO(st.st_mode)) {
		close(fd);
		return -EEXIST;
	}
	return fd;
}

bool fifo_amiss(struct channel *c, struct error *why)
{
	int code = atomic_load(&c->no_fifo);

	if (code)
		set_error(why, code, "opening the FIFO %s: %s; trying again every 10 s",
			  c->config.fifo,
			  code == EEXIST ? "the file exists and is not a FIFO" : strerror(code));
	return code;
}

void fifo_turn(struct fifo *f, uint64_t now)
{
	struct error why;
	int fd, before;

	if (!f->partial || f->fd >= 0 || now < f->retry_ns || !atomic_load(&f->channel->open))
		return;
	fd = open_fifo(f);
	if (fd >= 0 && ingest_watch(f->ingest, fd, &f->on_fifo, EPOLLIN)) {
		close(fd);
		fd = -ENOMEM;
	}
	f->fd = fd < 0 ? -1 : fd;
	f->retry_ns = now + RETRY;
	before = atomic_exchange(&f->channel->no_fifo, fd < 0 ? -fd : 0);
	if (fifo_amiss(f->channel, &why) && why.code != before)
		log_error("channel %s: %s", f->channel->config.name, why.text);
}

/*
 * Opened anew, or it would be at its end for ever; before the old one is closed,
 * or what a next writer has written already would go with it.
 */
static void reopen(struct fifo *f)
{
	int old = f->fd;

	ingest_unwatch(f->ingest, old);
	f->fd = -1;
	f->retry_ns = 0;
	fifo_turn(f, monotonic_ns());
	close(old);
}

static void on_fifo(struct handler *h, uint32_t events)
{
	struct fifo *f = (struct fifo *)h;
	ssize_t ret = 1;

	(void)events;
	for (int i = 0; i < FAIR && ret > 0; i++)
		ret = read_some(f, SIZE_MAX);
	if (!ret) {
		take_end(f, true);
		reopen(f);
	}
	ingest_wake(f->ingest, f->channel);
}

static bool is_closed(const struct fifo *f)
{
	struct pollfd writers = { .fd = f->fd, .events = POLLIN };

	return poll(&writers, 1, 0) > 0 && writers.revents == POLLHUP;
}

void fifo_end(struct fifo *f)
{
	int left = 0;

	if (f->fd >= 0) {
		/* what is in it now: its writers may go on for ever */
		ioctl(f->fd, FIONREAD, &left);
		while (left > 0) {
			ssize_t n = read_some(f, (size_t)left);

			if (n <= 0)
				break;
			left -= (int)n;
		}
		take_end(f, is_closed(f));
		ingest_wake(f->ingest, f->channel);
		ingest_unwatch(f->ingest, f->fd);
		close(f->fd);
		f->fd = -1;
	}
	free(f->partial);
	f->partial = NULL;
}
