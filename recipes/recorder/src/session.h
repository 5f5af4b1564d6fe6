/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: a process that is a writer of a channel, or wants to become one. Of the ingest thread, and of
 * shutdown.c.
 */
#ifndef EKR_SESSION_H
#define EKR_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "access.h"
#include "ingest.h"
#include "ring.h"

/* Records that were lost: of this connection, and of the channel since the recorder started. */
struct session_losses {
	uint64_t overrun, failed;	/* there was no space; the medium failed to write them */
};

struct session {
	struct handler on_socket, on_bell;
	struct session *next;
	struct ingest *ingest;
	struct channel *channel;	/* NULL: it has not opened one */
	int socket;			/* -1: dead */
	bool by_ring;
	bool paused;			/* its socket is not read, because the channel has no space */
	bool gone;			/* its writer has disconnected; records in ring or socket may wait for space */
	bool leaving;			/* the same, and records in the ring wait for space */
	struct ring ring;		/* with by_ring */
	bool more;			/* there is more in its ring than one turn may take */
	bool deaf;			/* its bell is ignored, because it has rung too often */
	struct intake_writer writer;	/* its sequences */
	uint64_t first;			/* the first sequence of this connection */
	pid_t pid;			/* -1: the process is in another PID namespace */
	struct access access;		/* its user and groups when it connected */
	uint64_t since_ns;		/* monotonic: when it connected */
	/* the channel that it waits for; NULL: none */
	struct channel *wants;
	uint32_t wants_way;		/* enum ekr_way */
	uint64_t wants_lost;		/* records that its writer lost before */
	struct channel *keeps;		/* the channel whose range it asked to keep, until the answer; NULL: none */
	uint64_t keep_ns;		/* monotonic: when records submitted before the request have been taken, if there was space */
	uint64_t keep_to;		/* all sequences below must become durable before the range is kept; 0: not known yet */
	/* an EKR_SYNC that is not answered yet */
	bool sync;
	uint64_t sync_token;
	uint64_t sync_next;		/* next sequence of its writer, as the message says */
	uint64_t sync_to;		/* all sequences below must become durable; 0: the ring is not empty yet */
	struct session_losses before;	/* when the last sync was answered */
	bool dropped;			/* the shutdown has given up records of it, for lack of space */
};

/* Messages that are still taken from one connection at its end: more than its socket holds. */
#define SESSION_DRAIN 10000
/* Longest time between two polls of a ring. A socket is read at once if its channel has space. */
#define SESSION_INTERVAL (50 * NSEC_PER_MSEC)

/* --- session.c: its life --- */

/* Takes over a connected socket. NULL: out of memory, and the socket is closed. */
struct session *session_open(struct ingest *in, int socket);
/* Closes the connection with a reason; @code: as in ekr_refused. A client that does not read it does not learn it. */
void session_refuse(struct session *s, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* On each turn of the loop: takes records from the ring, answers requests, reads the socket again. */
void session_turn(struct session *s, uint64_t now_ns);
/* Takes everything from the ring and closes the connection; @code: what the writer sees in the ring. */
void session_end(struct session *s, uint32_t code);

/* When its next turn is due, for its ring or its request to keep a range, monotonic; UINT64_MAX: events suffice. */
uint64_t session_due(const struct session *s, uint64_t now_ns);

/* Closes the connection; what it has sent is discarded. */
void session_hang_up(struct session *s);
/* The writer broke the protocol: what it submitted before stays recorded, a gap follows, and it hangs up. */
void session_break(struct session *s, const char *why);
/*
 * Takes records that are in the ring now and find space, at most as many as the ring holds: its writer may be as
 * fast as this. Without @drop at most TURN_BYTES; then it sets s->more. With @drop, records without space are
 * lost. -EPROTO: the ring is invalid.
 */
int session_take_ring(struct session *s, bool drop);
/* Of a ring that is empty: no record follows that would report the last ones that were lost. -EPROTO. */
int session_expect_all(struct session *s);
/* What was lost until now. */
struct session_losses session_count(struct session *s);
/* A message can be taken. Records by ring are not in the socket. */
bool session_has_room(struct session *s);

/* --- session_open.c --- */

/* It has sent no request. */
bool session_undecided(const struct session *s);
/* Its user may write to one of the channels. */
bool session_may_write(const struct session *s);
struct channel *session_find_channel(const struct ingest *in, const char *name);
void session_take_open(struct session *s, const void *message, size_t length);
/* Gives the client its channel, or the reason why not. It waits if the reason may end soon. */
void session_answer_open(struct session *s, uint64_t now_ns);

/* --- session_receive.c --- */

/* Takes a message. -EAGAIN: there is none; 0: the other end has closed; 1: there may be more. */
int session_receive(struct session *s);
/*
 * A connection that is closed with messages unread is reset, and our last message is lost with it. Reads at
 * most @most. False: there are unread messages nevertheless.
 */
bool session_discard(int fd, int most);
void session_answer_keep(struct session *s, uint64_t now_ns);
/* Answers a sync once everything that was submitted is durable, or known to be lost. */
void session_answer_sync(struct session *s);

#endif
