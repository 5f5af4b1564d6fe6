/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: a process that is, or wants to be, the writer of a channel. */
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
	uint64_t overrun, failed;	/* no room; the medium did not take them */
};

struct session {
	struct handler on_socket, on_bell;
	struct session *next;
	struct ingest *ingest;
	struct channel *channel;	/* NULL: it has not opened one */
	int socket;			/* -1: dead */
	bool by_ring;
	bool paused;			/* its socket is not read: the channel has no room */
	bool gone;			/* its writer has; what it left in ring or socket may wait for room */
	bool leaving;			/* it has, and what is in the ring does */
	struct ring *ring;		/* NULL unless by_ring */
	struct lease *lease;		/* of the ring that it has or waits for; NULL: none */
	struct channel *leased_from;
	bool deaf;			/* its bell is not heard: it has rung too often */
	struct intake_writer writer;	/* its sequences */
	uint64_t first;			/* the first of them */
	pid_t pid;			/* -1: not known here */
	struct access access;		/* its user and groups when it connected */
	uint64_t since_ns;		/* monotonic, when it connected */
	/* the channel that it waits for; NULL: none */
	struct channel *wants;
	uint32_t wants_way;		/* enum ekr_way */
	uint64_t wants_lost;		/* records that its writer lost before */
	struct channel *keeps;		/* whose range it asked to keep, and waits for the answer; NULL: none */
	/* EKR_SYNC that is to be answered */
	bool sync;
	uint64_t sync_token;
	uint64_t sync_next;		/* sequence that its writer will go on with, as it says */
	uint64_t sync_to;		/* all below are to be durable; 0: the ring is still to be emptied */
	struct session_losses before;	/* when it was last told */
	struct session_losses at_stop;	/* when the recorder began to stop */
};

/* Takes over a connected socket. NULL: no memory; then it is closed. */
struct session *session_open(struct ingest *in, int socket);
/* It has not said what it wants, nor is that about to be heard. */
bool session_undecided(const struct session *s);
/* It may not stay; @code as in ekr_refused. */
void session_refuse(struct session *s, int code, const char *why);
/* Its user may write to one of the channels. */
bool session_may_write(const struct session *s);
/* Looks into the ring, answers an open or a sync, reads its socket again: on each turn of the loop. */
void session_turn(struct session *s, uint64_t now_ns);
/* Takes all that is in the ring and ends it; @code: what a writer by ring will see. */
void session_end(struct session *s, uint32_t code);
void session_free(struct session *s);

/*
 * When the recorder stops: first nothing more can be submitted; then what was is taken
 * as far as there is room, or with @drop all, and true says that nothing is left; at
 * last, when no record will be written any more, its writer is told what became of it.
 */
void session_shut(struct session *s);
bool session_drain(struct session *s, bool drop);
void session_part(struct session *s);

/* When its ring has to be looked into again, monotonic; UINT64_MAX: by nothing but events. */
uint64_t session_due(const struct session *s, uint64_t now_ns);

#endif
