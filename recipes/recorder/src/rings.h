/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rings of one channel. A thread of the channel creates and frees them, because both
 * take the kernel long, and a writer decides how long: freeing a ring costs more with each
 * mapping that its writer has. A slow ring therefore delays writers of its own channel
 * only. At most RINGS_MAX rings exist at a time, including those that are being freed.
 */
#ifndef EKR_RINGS_H
#define EKR_RINGS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "ring.h"

#define RINGS_MAX 17u	/* all writers of a channel, and one ring that is being freed */

enum lease_state {
	LEASE_UNUSED,
	LEASE_ASKED,		/* the thread creates the ring */
	LEASE_READY,		/* the ring is the caller's */
	LEASE_FAILED,
	LEASE_RETURNED,		/* the thread frees the ring */
};

struct lease {
	enum lease_state state;	/* under the lock of its rings */
	struct ring ring;	/* the caller's while READY, otherwise the thread's */
	struct error error;	/* of FAILED */
};

struct rings {
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;	/* inherits priority; held for a few instructions */
	pthread_cond_t changed;
	struct lease leases[RINGS_MAX];
	unsigned int most;	/* leases in use at a time */
	uint32_t record_size, slots;
	int done_fd;		/* eventfd of the caller: a ring was created or freed */
	bool stop;
};

/* @most: rings at a time, up to RINGS_MAX. The thread signals @done_fd after each job. */
int rings_start(struct rings *r, uint32_t record_size, uint32_t slots, unsigned int most,
		int done_fd, struct error *e);
/* Ends the thread. False: it still frees a ring; its memory must stay until the process exits. */
bool rings_stop(struct rings *r);

/* Never wait: ask for a ring; NULL: @most rings exist, try again after a signal of done_fd. */
struct lease *rings_ask(struct rings *r);
enum lease_state rings_state(struct rings *r, const struct lease *lease);
/* Gives the lease back in any state; its ring is no longer used. */
void rings_return(struct rings *r, struct lease *lease);

#endif
