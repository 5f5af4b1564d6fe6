/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ingest thread: an epoll loop over the socket, its connections and their rings.
 * It waits for no medium and for no client, and a client waits for
 * nothing but this loop's turn.
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

#define SESSIONS_MAX 128u /* connections; README.md says so */

/* What epoll tells about: embedded in what it belongs to. */
struct handler {
	void (*on_event)(struct handler *h, uint32_t events);
};

struct prepare;
struct session;

struct ingest {
	struct channel *channels;
	unsigned int count;
	struct storage *storage;
	struct prepare *prepare;	/* of the channels; the caller's */
	pthread_t thread;
	int epoll;
	int listener;			/* the caller's */
	int done_fd;			/* eventfd: something became durable, a channel was tried, or stop */
	struct handler on_listener, on_done;
	uint64_t deaf_until_ns;		/* monotonic, no connection is taken before; 0: they are */
	struct session *sessions;	/* all connections, dead ones until the end of a turn */
	unsigned int session_count;
	unsigned int said;		/* words of writers that break the protocol, up to: */
	uint64_t said_until_ns;		/* monotonic */
	struct closer closer;		/* of descriptors that writers sent */
	uint64_t behind_said_ns;	/* monotonic, when it was last told that it is behind; 0: never */
	unsigned char *message;		/* the largest message, and one byte to tell longer ones */
	size_t message_size;
	atomic_bool stop;
	_Atomic uint64_t alive_ns;	/* when the loop last turned, monotonic */
};

/* @listener: a listening SEQPACKET socket, not blocking. */
int ingest_open(struct ingest *in, struct channel *channels, unsigned int count, int listener,
		struct error *e);
/* The main thread's: a channel whose place was unused; its connections are accepted from here on. */
int ingest_add(struct ingest *in, struct channel *c, struct error *e);
int ingest_start(struct ingest *in, struct storage *storage, int priority, struct error *e);
/*
 * Ends the thread; from here on nothing can be submitted. Takes what has been, as the
 * medium makes room for it, until storage gives up a stop that began at @began_ns
 * (monotonic): then what finds no room is lost, and a gap tells it.
 */
void ingest_stop(struct ingest *in, uint64_t began_ns);
/*
 * Tells writers what became of it and closes all connections: when storage has stopped. False:
 * a ring is still being freed, and all memory must stay until the process exits.
 */
bool ingest_part(struct ingest *in);
void ingest_close(struct ingest *in);

/* For sessions. */
int ingest_watch(struct ingest *in, int fd, struct handler *h, uint32_t events);
void ingest_unwatch(struct ingest *in, int fd);
/* Other events than before; 0: none, the end of a connection is told once. */
void ingest_change(struct ingest *in, int fd, struct handler *h, uint32_t events);
/* Tells the storage thread if the channel's intake says so. */
void ingest_wake(struct ingest *in, struct channel *c);

#endif
