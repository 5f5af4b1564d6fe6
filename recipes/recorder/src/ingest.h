/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ingest thread: an epoll loop over the socket, its connections and their rings. The thread waits for no
 * medium and no client, and a client waits only for a turn of this loop.
 */
#ifndef EKR_INGEST_H
#define EKR_INGEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "channel.h"
#include "closer.h"
#include "error.h"
#include "storage.h"

#define SESSIONS_MAX 128u /* connections; docs/reference/recorder.md gives the number */

/* What an epoll event calls; a member of what it belongs to. */
struct handler {
	void (*on_event)(struct handler *h, uint32_t events);
};

struct prepare;
struct session;

struct ingest {
	struct channel *channels;
	unsigned int count;
	struct storage *storage;
	struct prepare *prepare;	/* of the channels; of the caller */
	pthread_t thread;
	int epoll;
	int listener;			/* of the caller */
	int done_fd;			/* eventfd: something became durable, a channel was tried, or the thread must stop */
	struct handler on_listener, on_done;
	uint64_t deaf_until_ns;		/* monotonic: no connection is accepted before; 0: all are */
	struct session *sessions;	/* all connections; dead ones stay until the end of a turn */
	unsigned int session_count;	/* without the dead ones */
	unsigned int logged;		/* log lines about writers that broke the protocol, in a time that ends at: */
	uint64_t logged_until_ns;	/* monotonic */
	struct closer closer;		/* of sockets and descriptors that writers sent */
	struct closer ring_closer;	/* of rings: these do not wait for the others */
	uint64_t behind_logged_ns;	/* monotonic: when it was last logged that the closer is behind; 0: never */
	/*
	 * RING_COPY bytes for the message that is read, or for the slots of a ring: more than the largest message,
	 * to detect longer ones.
	 */
	unsigned char *message;
	atomic_bool stop;
	_Atomic uint64_t alive_ns;	/* monotonic: the last turn of the loop */
};

/* @listener: a listening SEQPACKET socket, not blocking. */
int ingest_open(struct ingest *in, struct channel *channels, unsigned int count, int listener,
		struct error *e);
int ingest_start(struct ingest *in, struct storage *storage, int priority, struct error *e);
/* Frees dead connections; true: there were some. */
bool ingest_reap(struct ingest *in);
void ingest_close(struct ingest *in);
/* A turn's part of shutdown_channel(), while the channel is CHANNEL_LEAVING; ends it. */
void shutdown_leave(struct ingest *in, struct channel *c, uint64_t now_ns);

/* For sessions. */
int ingest_watch(struct ingest *in, int fd, struct handler *h, uint32_t events);
void ingest_unwatch(struct ingest *in, int fd);
/* Changes the events. 0: none; the end of a connection is then reported once. */
void ingest_change(struct ingest *in, int fd, struct handler *h, uint32_t events);
/* Wakes the storage thread if the channel's intake demands it. */
void ingest_wake(struct ingest *in, struct channel *c);

#endif
