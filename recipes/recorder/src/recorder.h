/* SPDX-License-Identifier: Apache-2.0 */
/* The running recorder: its channels and its threads. Of the main thread. */
#ifndef EKR_RECORDER_H
#define EKR_RECORDER_H

#include <stdbool.h>

#include "channel.h"
#include "config.h"
#include "error.h"
#include "ingest.h"
#include "prepare.h"
#include "storage.h"

struct recorder {
	const char *dir;		/* of the configuration */
	struct recorder_config config;
	struct error outdated;		/* why the files, as they are now, are not in force; code 0: they are */
	struct channel channels[CHANNELS_MAX];	/* places; a channel stays in its own */
	struct prepare prepare;
	struct storage storage;
	struct ingest ingest;
	int listener;
	bool own_socket;		/* the listener was created here, and is removed */
};

/* --- listen.c: the socket that writers connect to, systemd's or one that the recorder creates --- */

/* A listening SEQPACKET socket that does not block. *@own: it was created here. -EADDRINUSE: another recorder listens. */
int listen_open(const struct recorder_config *config, bool *own, struct error *e);

/*
 * Tells the clients that wait at systemd's socket why there is no recorder. Otherwise systemd would start
 * the recorder for them again and again.
 */
void listen_refuse(const char *why);

/* --- shutdown.c --- */

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

/* The main thread's: ends everything. */
void shutdown_recorder(struct recorder *r);

/*
 * The main thread's: ends a channel that was removed from the configuration, or changed, while the
 * others go on. @meanwhile is called now and then. False: the channel's medium hangs, and its place
 * stays in use until the recorder exits; or the recorder was asked to end.
 */
bool shutdown_channel(struct recorder *r, struct channel *c, void (*meanwhile)(struct recorder *r));

#endif
