/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: a process that is a writer of a channel, or wants to become one. */
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
	struct session_losses at_stop;	/* when the shutdown began */
};

/* Takes over a connected socket. NULL: out of memory, and the socket is closed. */
struct session *session_open(struct ingest *in, int socket);
/* It has sent no request. */
bool session_undecided(const struct session *s);
/* Closes the connection with a reason; @code: as in ekr_refused. */
void session_refuse(struct session *s, int code, const char *why);
/* Its user may write to one of the channels. */
bool session_may_write(const struct session *s);
/* On each turn of the loop: takes records from the ring, answers requests, reads the socket again. */
void session_turn(struct session *s, uint64_t now_ns);
/* Takes everything from the ring and closes the connection; @code: what the writer sees in the ring. */
void session_end(struct session *s, uint32_t code);
void session_free(struct session *s);

/* When its next turn is due, for its ring or its request to keep a range, monotonic; UINT64_MAX: events suffice. */
uint64_t session_due(const struct session *s, uint64_t now_ns);

#endif
