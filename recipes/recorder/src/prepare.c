// SPDX-License-Identifier: Apache-2.0
/* The threads that keep channels: whose turn it is on a medium, and what is done in a turn. */
#include "prepare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access.h"
#include "clock.h"
#include "directory.h"
#include "keep.h"
#include "log.h"
#include "opening.h"
#include "segments.h"
#include "thread.h"

#define ZEROS ((size_t)1 << 20)
#define RETRY (10 * NSEC_PER_SEC)
/* for a piece of a segment that is being made, and for marks, on a medium that is busy; systemd waits 10 s */
#define END_TIME (4 * NSEC_PER_SEC)

int prepare_open(struct prepare *p, const struct recorder_config *config, struct channel *channels,
		 unsigned int count, int tried_fd, struct error *e)
{
	pthread_condattr_t attr;

	*p = (struct prepare){
		.config = config, .channels = channels, .count = count, .tried_fd = tried_fd
	};
	p->zeros = aligned_alloc(EKR_BLOCK, ZEROS);
	p->keepers = calloc(count + 1, sizeof(*p->keepers));
	if (!p->zeros || !p->keepers) {
		free(p->zeros);
		free(p->keepers);
		return set_error(e, ENOMEM, "allocating memory to create segments: out of memory");
	}
	memset(p->zeros, 0, ZEROS);
	for (unsigned int i = 0; i < count; i++)
		p->keepers[i] = (struct keeper){ .prepare = p, .channel = &channels[i] };
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

void prepare_close(struct prepare *p)
{
	free(p->zeros);
	free(p->keepers);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
}

/* nobody works on its medium, and nobody who waits there has fewer segments */
static bool is_next(const struct keeper *k)
{
	const struct prepare *p = k->prepare;
	uint32_t made = atomic_load(&k->channel->made);

	for (unsigned int i = 0; i < p->count; i++) {
		const struct keeper *o = &p->keepers[i];
		uint32_t theirs;

		if (o == k || !o->live || o->medium != k->medium)
			continue;
		theirs = atomic_load(&o->channel->made);
		if (o->works || (o->waits && (theirs < made || (theirs == made && o < k))))
			return false;
	}
	return true;
}

/* waits for it; false: it is to stop */
static bool take_turn(struct keeper *k)
{
	struct prepare *p = k->prepare;
	bool stop;

	pthread_mutex_lock(&p->lock);
	k->waits = true;
	while (!atomic_load(&k->stop) && !is_next(k))
		pthread_cond_wait(&p->changed, &p->lock);
	stop = atomic_load(&k->stop);
	k->waits = false;
	k->works = !stop;
	pthread_mutex_unlock(&p->lock);
	return !stop;
}

static void end_turn(struct keeper *k)
{
	struct prepare *p = k->prepare;

	pthread_mutex_lock(&p->lock);
	k->works = false;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* @k: takes its turn on the medium; NULL: there are no others */
static int open_channel(const struct recorder_config *config, struct channel *c, struct keeper *k,
			found_use *use, struct error *e)
{
	struct stat st;
	int ret = directory_open(config, c->config.name, e);

	if (ret >= 0) {
		c->directory = ret;
		ret = fstat(ret, &st) ? set_errno(e, errno, "examining its directory") : 0;
	}
	if (!ret && k) {
		pthread_mutex_lock(&k->prepare->lock);
		k->medium = st.st_dev;
		pthread_mutex_unlock(&k->prepare->lock);
		if (!take_turn(k))
			ret = set_error(e, ECANCELED, "stopped");
	}
	if (!ret) {
		ret = directory_writable(c, e);
		if (!ret && access_apply(c->directory, &c->config, e))
			log_warning("channel %s: %s", c->config.name, e->text);
		if (!ret)
			ret = found_look(c, use, e);
		if (k)
			end_turn(k);
	}
	if (ret && c->directory >= 0) {
		close(c->directory);
		c->directory = -1;
	}
	if (ret && ret != -ECANCELED)
		store_fail(&c->store, e);
	return ret;
}

int prepare_channel(struct prepare *p, struct channel *c, struct error *e)
{
	return open_channel(p->config, c, NULL, opening_begin, e);
}

/* once, not each 10 s */
int prepare_segment(struct prepare *p, struct channel *c, struct error *e)
{
	return segments_make(c, p->zeros, ZEROS, &p->keepers->stop, e);
}

static bool is_new(struct keeper *k, const struct error *e)
{
	bool new = strcmp(k->said, e->text) != 0;

	memcpy(k->said, e->text, sizeof(k->said));
	return new;
}

static void try_to_open(struct keeper *k)
{
	struct channel *c = k->channel;
	uint64_t one = 1;
	struct error e;
	int ret = open_channel(k->prepare->config, c, k, opening_begin, &e);

	if (!ret)
		atomic_store(&c->open, true);
	else if (ret != -ECANCELED && is_new(k, &e))
		log_error("channel %s: %s; trying again every 10 s", c->config.name, e.text);
	atomic_store(&c->tried, true);
	/* writers may wait for it */
	if (k->prepare->tried_fd >= 0)
		(void)!write(k->prepare->tried_fd, &one, sizeof(one));
}

/* what the ingest thread asked for */
static void answer_keep(struct keeper *k)
{
	struct channel *c = k->channel;
	struct keep_request *r = &c->keep;
	uint64_t one = 1;

	if (atomic_load(&r->state) != KEEP_ASKED)
		return;
	if (!atomic_load(&c->open) || c->directory < 0)
		r->result = set_error(&r->error, EAGAIN, "it is not open");
	else
		r->result = keep_range(c, r->incident, r->from_ns, r->to_ns, &r->error);
	atomic_store(&r->state, KEEP_DONE);
	(void)!write(k->prepare->tried_fd, &one, sizeof(one));
}

static void make_segments(struct keeper *k)
{
	struct channel *c = k->channel;
	struct error e;
	int ret = 0;

	while (!ret && segments_lack(c) && take_turn(k)) {
		ret = segments_make(c, k->prepare->zeros, ZEROS, &k->stop, &e);
		end_turn(k);
		answer_keep(k);
	}
	if (ret < 0 && ret != -ECANCELED && is_new(k, &e))
		log_error("channel %s: %s; it has %u of %" PRIu64
			  " segments, trying again every 10 s",
			  c->config.name, e.text, atomic_load(&c->made), c->config.segments);
}

/*
 * Segments whose files somebody has removed, moved or cut short: what is written there nobody
 * will read, or somebody has put it away to keep it.
 */
static void drop_damaged(struct keeper *k)
{
	struct channel *c = k->channel;
	unsigned int i = 0, count = 0;
	struct segment s;
	struct error e;

	while (store_segment(&c->store, i, &s)) {
		if (segments_whole(c, &s) || !segments_drop(c, &s))
			i++;
		else
			count++;
	}
	if (!count)
		return;
	set_error(
		&e, ENOENT,
		"%u segments were removed or truncated; their records are lost, and they are created again",
		count);
	log_error("channel %s: %s", c->config.name, e.text);
	store_fail(&c->store, &e);
}

/*
 * To the one that has its name now, if somebody has removed it, moved it away or unmounted it:
 * nothing more is written to where it was. Tried in each round until there is one. False: there
 * is none.
 */
static bool return_to_directory(struct keeper *k)
{
	struct channel *c = k->channel;
	const struct recorder_config *config = k->prepare->config;
	struct segment s;
	struct error e;
	int ret;

	if (c->directory >= 0) {
		if (!directory_moved(config, c))
			return true;
		while (store_segment(&c->store, 0, &s))
			if (!segments_drop(c, &s))
				return false;
		/* else it would hold up that it is unmounted, and that a recorder goes on there */
		close(c->directory);
		c->directory = -1;
		set_error(&e, ENOENT, "%s/%s was removed, moved or unmounted, with its records",
			  config->directory, c->config.name);
		log_error("channel %s: %s", c->config.name, e.text);
		store_fail(&c->store, &e);
	}
	ret = open_channel(config, c, k, opening_return, &e);
	if (!ret) {
		log_info("channel %s: recording continues in %s/%s", c->config.name,
			 config->directory, c->config.name);
		k->said[0] = '\0';
	} else if (ret != -ECANCELED && is_new(k, &e)) {
		log_error("channel %s: %s; trying again every 10 s", c->config.name, e.text);
	}
	return !ret;
}

static void pause_until(struct keeper *k, uint64_t until)
{
	const struct timespec ts = timespec_of(until);
	struct prepare *p = k->prepare;

	pthread_mutex_lock(&p->lock);
	while (!atomic_load(&k->stop) && !k->wake &&
	       pthread_cond_timedwait(&p->changed, &p->lock, &ts) != ETIMEDOUT)
		;
	k->wake = false;
	pthread_mutex_unlock(&p->lock);
}

/* all that the storage thread could write is on the medium */
static void mark(struct keeper *k)
{
	struct prepare *p = k->prepare;
	struct channel *c = k->channel;

	pthread_mutex_lock(&p->lock);
	while (!k->written)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	if (!atomic_load(&c->open))
		return;
	if (store_idle(&c->store) && !c->intake.gap)
		channel_mark_stopped(c);
	else
		log_warning("channel %s: shut down with %zu bytes that were not written",
			    c->config.name, buffer_backlog(&c->buffer));
}

void prepare_wake(struct prepare *p, const struct channel *c)
{
	struct keeper *k = &p->keepers[c - p->channels];

	pthread_mutex_lock(&p->lock);
	k->wake = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void *run(void *arg)
{
	struct keeper *k = arg;

	while (!atomic_load(&k->stop)) {
		uint64_t began = monotonic_ns();

		if (!atomic_load(&k->channel->open))
			try_to_open(k);
		answer_keep(k);
		if (atomic_load(&k->channel->open)) {
			drop_damaged(k);
			/* before segments are created, which may take long */
			segments_expire(k->channel);
			if (return_to_directory(k))
				make_segments(k);
		}
		pause_until(k, began + RETRY);
	}
	mark(k);
	return NULL;
}

int prepare_keep(struct prepare *p, unsigned int i, struct error *e)
{
	struct keeper *k = &p->keepers[i];
	int ret;

	pthread_mutex_lock(&p->lock);
	*k = (struct keeper){ .prepare = p,
			      .channel = &p->channels[i],
			      .live = !p->channels[i].broken.code };
	pthread_mutex_unlock(&p->lock);
	if (!k->live)
		return 0;
	ret = thread_start(&k->thread, "prepare", 0, run, k, e);
	k->started = !ret;
	return ret;
}

bool prepare_tried(const struct prepare *p)
{
	for (unsigned int i = 0; i < p->count; i++)
		if (p->keepers[i].started && !atomic_load(&p->channels[i].tried))
			return false;
	return true;
}

void prepare_ask_to_stop(struct prepare *p, unsigned int i)
{
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->keepers[i].stop, true);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void prepare_ask_all_to_stop(struct prepare *p)
{
	for (unsigned int i = 0; i < p->count; i++)
		prepare_ask_to_stop(p, i);
}

static void tell_written(struct prepare *p, unsigned int i)
{
	pthread_mutex_lock(&p->lock);
	p->keepers[i].written = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static bool join(struct keeper *k, uint64_t until)
{
	if (k->started)
		k->started = !thread_join(k->thread, until);
	return !k->started;
}

bool prepare_release(struct prepare *p, unsigned int i)
{
	tell_written(p, i);
	if (!join(&p->keepers[i], monotonic_ns() + END_TIME))
		return false;
	pthread_mutex_lock(&p->lock);
	p->keepers[i].live = false;
	pthread_mutex_unlock(&p->lock);
	return true;
}

bool prepare_end(struct prepare *p)
{
	const uint64_t until = monotonic_ns() + END_TIME;
	bool ended = true;

	for (unsigned int i = 0; i < p->count; i++)
		tell_written(p, i);
	for (unsigned int i = 0; i < p->count; i++)
		ended &= join(&p->keepers[i], until);
	return ended;
}
