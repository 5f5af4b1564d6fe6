/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the recorder, and of one channel. Both have the same steps:
 *
 * 1. Nothing more can be submitted: the sockets are shut for reading, and the rings are shut.
 * 2. What was submitted is taken as the medium makes space, and written.
 * 3. Each writer gets a message whether everything was written, and its connection is closed.
 * 4. The channel's prepare thread leaves the clean-shutdown marker, if everything is on the medium.
 *
 * A medium that accepts nothing, or not fast enough, ends step 2: see shutdown_by(). The marker may
 * then take 4 s (prepare.c), and systemd waits 10 s for all of it.
 */
#ifndef EKR_SHUTDOWN_H
#define EKR_SHUTDOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

struct channel;
struct ingest;
struct recorder;

/* A medium that accepts nothing is waited for as long as a slow card needs for one batch. */
#define SHUTDOWN_TIME (1500 * NSEC_PER_MSEC)
/* A medium that accepts data is waited for as long. */
#define SHUTDOWN_MOST (5 * NSEC_PER_SEC)

/*
 * When a shutdown that began at @began_ns gives up what is not written yet, if a medium last accepted
 * something at @took_ns; all monotonic.
 */
static inline uint64_t shutdown_by(uint64_t began_ns, uint64_t took_ns)
{
	uint64_t by = (took_ns > began_ns ? took_ns : began_ns) + SHUTDOWN_TIME;

	return by < began_ns + SHUTDOWN_MOST ? by : began_ns + SHUTDOWN_MOST;
}

/* The main thread's: ends everything. */
void shutdown_recorder(struct recorder *r);

/*
 * The main thread's: ends a channel that was removed from the configuration, or changed, while the
 * others go on. @meanwhile is called now and then. False: the channel's medium hangs, and its place
 * stays in use until the recorder exits; or the recorder was asked to end.
 */
bool shutdown_channel(struct recorder *r, struct channel *c, void (*meanwhile)(struct recorder *r));

/* The ingest thread's part of that, on each turn while the channel is CHANNEL_LEAVING; ends it. */
void shutdown_leave(struct ingest *in, struct channel *c, uint64_t now_ns);

#endif
