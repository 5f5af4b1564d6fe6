// SPDX-License-Identifier: Apache-2.0
/* The thread that creates and frees the rings of a channel. */
#include "rings.h"

#include <unistd.h>

#include "clock.h"
#include "thread.h"

/* a shutdown does not wait longer for rings that are being freed: the exit of the process frees them */
#define STOP_TIME (100 * NSEC_PER_MSEC)

static struct lease *find(struct rings *r, enum lease_state state)
{
	for (unsigned int i = 0; i < r->most; i++)
		if (r->leases[i].state == state)
			return &r->leases[i];
	return NULL;
}

/* called and returns with the lock held, which it releases meanwhile */
static void serve(struct rings *r, struct lease *lease)
{
	const bool create = lease->state == LEASE_ASKED;
	const uint64_t one = 1;
	int ret = 0;

	pthread_mutex_unlock(&r->lock);
	if (create)
		ret = ring_open(&lease->ring, r->record_size, r->slots, &lease->error);
	else
		ring_close(&lease->ring);
	pthread_mutex_lock(&r->lock);
	if (!create)
		lease->state = LEASE_UNUSED;
	else if (lease->state == LEASE_ASKED)
		lease->state = ret ? LEASE_FAILED : LEASE_READY;
	(void)!write(r->done_fd, &one, sizeof(one));
}

static void *run(void *arg)
{
	struct rings *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		struct lease *lease = find(r, LEASE_RETURNED);

		if (!lease)
			lease = find(r, LEASE_ASKED);
		if (lease)
			serve(r, lease);
		else
			pthread_cond_wait(&r->changed, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

int rings_start(struct rings *r, uint32_t record_size, uint32_t slots, unsigned int most,
		int done_fd, struct error *e)
{
	int ret;

	*r = (struct rings){ .record_size = record_size,
			     .slots = slots,
			     .most = most < RINGS_MAX ? most : RINGS_MAX,
			     .done_fd = done_fd };
	for (unsigned int i = 0; i < RINGS_MAX; i++)
		r->leases[i].ring = (struct ring){ .memfd = -1, .eventfd = -1 };
	thread_mutex(&r->lock);
	pthread_cond_init(&r->changed, NULL);
	ret = thread_start(&r->thread, "rings", 0, run, r, e);
	r->started = !ret;
	return ret;
}

bool rings_stop(struct rings *r)
{
	if (!r->started)
		return true;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
	if (!thread_join(r->thread, monotonic_ns() + STOP_TIME))
		return false;
	r->started = false;
	for (unsigned int i = 0; i < r->most; i++)
		if (r->leases[i].state != LEASE_UNUSED)
			ring_close(&r->leases[i].ring);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->changed);
	return true;
}

struct lease *rings_ask(struct rings *r)
{
	struct lease *lease;

	pthread_mutex_lock(&r->lock);
	lease = find(r, LEASE_UNUSED);
	if (lease)
		lease->state = LEASE_ASKED;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return lease;
}

enum lease_state rings_state(struct rings *r, const struct lease *lease)
{
	enum lease_state state;

	pthread_mutex_lock(&r->lock);
	state = lease->state;
	pthread_mutex_unlock(&r->lock);
	return state;
}

void rings_return(struct rings *r, struct lease *lease)
{
	pthread_mutex_lock(&r->lock);
	/* of a ring that could not be created nothing is left */
	lease->state = lease->state == LEASE_FAILED ? LEASE_UNUSED : LEASE_RETURNED;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}
