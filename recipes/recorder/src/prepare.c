// SPDX-License-Identifier: Apache-2.0
/* The prepare threads: their start and end, and whose turn it is on a medium. */
#include "prepare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "scope.h"
#include "thread.h"

/* for a part of a segment that is being created, and for markers, on a busy medium; systemd waits 10 s */
#define END_TIME (4 * NSEC_PER_SEC)

int prepare_open(struct prepare *p, const struct recorder_config *config, struct channel *channels,
		 unsigned int count, int tried_fd, struct error *e)
{
	pthread_condattr_t attr;

	*p = (struct prepare){
		.config = config, .channels = channels, .count = count, .tried_fd = tried_fd
	};
	p->zeros = aligned_alloc(EKR_BLOCK, PREPARE_ZEROS);
	p->keepers = calloc(count + 1, sizeof(*p->keepers));
	if (!p->zeros || !p->keepers) {
		free(p->zeros);
		free(p->keepers);
		return set_error(e, ENOMEM, "allocating memory to create segments: out of memory");
	}
	memset(p->zeros, 0, PREPARE_ZEROS);
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

/* no other channel has its turn on the medium, and none that waits there has fewer segments */
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

bool keeper_take_turn(struct keeper *k)
{
	struct prepare *p = k->prepare;
	HOLD(&p->lock);

	k->waits = true;
	while (!atomic_load(&k->stop) && !is_next(k))
		pthread_cond_wait(&p->changed, &p->lock);
	k->waits = false;
	k->works = !atomic_load(&k->stop);
	return k->works;
}

void keeper_end_turn(struct keeper *k)
{
	struct prepare *p = k->prepare;
	HOLD(&p->lock);

	k->works = false;
	pthread_cond_broadcast(&p->changed);
}

void keeper_pause_until(struct keeper *k, uint64_t until)
{
	const struct timespec ts = timespec_of(until);
	struct prepare *p = k->prepare;
	HOLD(&p->lock);

	while (!atomic_load(&k->stop) && !k->wake &&
	       pthread_cond_timedwait(&p->changed, &p->lock, &ts) != ETIMEDOUT)
		;
	k->wake = false;
}

void prepare_wake(struct prepare *p, const struct channel *c)
{
	HOLD(&p->lock);

	p->keepers[c - p->channels].wake = true;
	pthread_cond_broadcast(&p->changed);
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
	ret = thread_start(&k->thread, "prepare", 0, keeper_run, k, e);
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
	HOLD(&p->lock);

	atomic_store(&p->keepers[i].stop, true);
	pthread_cond_broadcast(&p->changed);
}

static void tell_written(struct prepare *p, unsigned int i)
{
	HOLD(&p->lock);

	p->keepers[i].written = true;
	pthread_cond_broadcast(&p->changed);
}

static bool join(struct keeper *k, uint64_t until)
{
	if (k->started)
		k->started = !thread_join(k->thread, until);
	return !k->started;
}

bool prepare_release(struct prepare *p, unsigned int i, uint64_t time_ns)
{
	tell_written(p, i);
	if (!join(&p->keepers[i], monotonic_ns() + time_ns))
		return false;
	HOLD(&p->lock);
	p->keepers[i].live = false;
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
