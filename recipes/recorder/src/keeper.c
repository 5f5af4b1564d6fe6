// SPDX-License-Identifier: Apache-2.0
/* What the prepare thread of a channel does in each round. */
#include "prepare.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "access.h"
#include "clock.h"
#include "directory.h"
#include "found.h"
#include "keep.h"
#include "storage.h"

/* from one round to the next */
#define RETRY (10 * NSEC_PER_SEC)

/* reported once, not each 10 s */
static bool is_new(struct keeper *k, const struct error *e)
{
	bool new = strcmp(k->logged, e->text) != 0;

	memcpy(k->logged, e->text, sizeof(k->logged));
	return new;
}

/* @k: takes its turn on the medium, and logs failures; NULL: there are no other channels */
static int open_channel(const struct recorder_config *config, struct channel *c, struct keeper *k,
			found_use *use, struct error *e)
{
	struct stat st;
	int ret = directory_open(config, c, true, e);

	if (!ret)
		ret = fstat(c->directory, &st) ? set_errno(e, errno, "examining its directory") : 0;
	if (!ret)
		atomic_store(&c->store.medium, st.st_dev);
	if (!ret && k) {
		pthread_mutex_lock(&k->prepare->lock);
		k->medium = st.st_dev;
		pthread_mutex_unlock(&k->prepare->lock);
		if (!keeper_take_turn(k))
			ret = set_error(e, ECANCELED, "stopped");
	}
	if (!ret) {
		ret = directory_writable(c, e);
		if (!ret && access_apply(c->directory, &c->config, e))
			log_warning("channel %s: %s", c->config.name, e->text);
		if (!ret)
			ret = found_look(c, use, e);
		if (k)
			keeper_end_turn(k);
	}
	if (ret)
		directory_close(c);
	if (ret && ret != -ECANCELED) {
		store_fail(&c->store, e);
		if (k && is_new(k, e))
			log_error("channel %s: %s; trying again every 10 s", c->config.name,
				  e->text);
	}
	return ret;
}

int prepare_channel(struct prepare *p, struct channel *c, struct error *e)
{
	return open_channel(p->config, c, NULL, opening_begin, e);
}

int prepare_segment(struct prepare *p, struct channel *c, struct error *e)
{
	return segments_make(c, p->zeros, PREPARE_ZEROS, &p->keepers->stop, e);
}

/* the channel has more segments: its records may wait for them */
static void tell_storage(const struct keeper *k)
{
	const struct prepare *p = k->prepare;

	if (p->storage)
		storage_wake(p->storage, (unsigned int)(k->channel - p->channels));
}

static void try_to_open(struct keeper *k)
{
	struct channel *c = k->channel;
	struct error e;

	if (!open_channel(k->prepare->config, c, k, opening_begin, &e))
		atomic_store(&c->open, true);
	atomic_store(&c->tried, true);
	/* writers may wait for the channel */
	eventfd_write(k->prepare->tried_fd, 1);
}

/* does what the ingest thread asked for */
static void answer_keep(struct keeper *k)
{
	struct channel *c = k->channel;
	struct keep_request *r = &c->keep;

	if (atomic_load(&r->state) != KEEP_ASKED)
		return;
	if (!atomic_load(&c->open) || c->directory < 0)
		r->result = set_error(&r->error, EAGAIN, "it is not open");
	else
		r->result = keep_range(c, r->incident, r->from_ns, r->to_ns, &r->error);
	atomic_store(&r->state, KEEP_DONE);
	eventfd_write(k->prepare->tried_fd, 1);
}

static void make_segments(struct keeper *k)
{
	struct channel *c = k->channel;
	struct error e;
	int ret = 0;

	/* those that were found */
	tell_storage(k);
	while (!ret && segments_lack(c) && keeper_take_turn(k)) {
		ret = segments_make(c, k->prepare->zeros, PREPARE_ZEROS, &k->stop, &e);
		keeper_end_turn(k);
		tell_storage(k);
		answer_keep(k);
	}
	if (ret < 0 && ret != -ECANCELED && is_new(k, &e))
		log_error("channel %s: %s; it has %u of %" PRIu64
			  " segments, trying again every 10 s",
			  c->config.name, e.text, atomic_load(&c->made), c->config.segments);
}

/*
 * Drops segments whose files were removed, moved or truncated. Nobody would read what is written there, or
 * somebody has moved the file away to keep it.
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
 * If the channel's directory was removed, moved or unmounted, continues in the one that has its name now. Nothing
 * more is written to the old place. Tried in each round. False: there is no directory.
 */
static bool return_to_directory(struct keeper *k)
{
	struct channel *c = k->channel;
	const struct recorder_config *config = k->prepare->config;
	struct segment s;
	struct error e;

	if (c->directory >= 0) {
		if (!directory_moved(config, c))
			return true;
		while (store_segment(&c->store, 0, &s))
			if (!segments_drop(c, &s))
				return false;
		/* otherwise the medium could not be unmounted, and no other recorder could use it */
		directory_close(c);
		set_error(&e, ENOENT, "%s/%s was removed, moved or unmounted, with its records",
			  config->directory, c->config.name);
		log_error("channel %s: %s", c->config.name, e.text);
		store_fail(&c->store, &e);
	}
	if (open_channel(config, c, k, opening_return, &e))
		return false;
	log_info("channel %s: recording continues in %s/%s", c->config.name, config->directory,
		 c->config.name);
	k->logged[0] = '\0';
	return true;
}

/* waits until no more is written, and leaves the clean-shutdown marker if everything is on the medium */
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

void *keeper_run(void *arg)
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
		keeper_pause_until(k, began + RETRY);
	}
	mark(k);
	return NULL;
}
