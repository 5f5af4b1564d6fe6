/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of libek-recorder share: client_connect.c (connections) and client.c (records, and
 * waiting).
 *
 * A writer is not connected, or it has asked for its channel, or it is connected. Each submission moves
 * it on without waiting, so a writer survives any number of restarts of the recorder. Records that find
 * it not connected are counted. The next connection reports their number, so the recording has a gap of
 * that size.
 */
#ifndef EKR_CLIENT_STATE_H
#define EKR_CLIENT_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "ek_recorder.h"
#include "wire.h"

enum state { IDLE, ASKED, CONNECTED };

struct ek_writer {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char name[EKR_NAME_MAX + 1];
	enum ek_way way;
	enum state state;
	struct ek_channel channel; /* as of the last connection */
	int socket;		   /* -1: none */
	int bell;		   /* eventfd of the ring */
	struct ekr_ring *ring;	   /* of the last connection: its slots; NULL: none */
	size_t ring_size;
	const struct ekr_ring_state *ring_state; /* of the same ring */
	uint32_t slots, stride; /* our own copies */
	uint64_t head;		/* slots filled */
	uint64_t tail;		/* slots taken, as last seen */
	uint64_t alive_ns; /* monotonic: when that moved, or the recorder was last seen to run */
	uint64_t retry_ns; /* monotonic: no attempt to connect, no look for an answer before */
	uint64_t sequence; /* of the next record on this connection */
	uint64_t skipped;  /* sequences that this connection left out */
	uint64_t lost;
	uint64_t absent; /* records lost without a connection, and not reported yet */
	uint64_t reported; /* of these, in the request that was sent */
	uint64_t token;	 /* of the last sync */
	int refused;	 /* errno of the last attempt to connect; 0: none failed since */
	int owed;	 /* errno that the next sync returns */
	bool leaving;	 /* the recorder has shut the ring, and has not closed the connection yet */
	bool in_order;	 /* the last connection ended, and the recorder has written everything */
	unsigned int ended; /* connections that have ended */
	bool untaken;	    /* the record that met the end of the last connection is lost */
	char error[256];
	char why[256]; /* the last connection ended */
};

/* Slots that the recorder has taken. */
static inline uint64_t client_taken(const struct ek_writer *w)
{
	return atomic_load_explicit(&w->ring_state->tail, memory_order_acquire);
}

/* Slots that wait for the recorder. */
static inline uint64_t client_filled(const struct ek_writer *w)
{
	return w->head - client_taken(w);
}

/* The recorder takes no more from the ring. */
static inline bool client_is_shut(const struct ek_writer *w)
{
	return atomic_load_explicit(&w->ring_state->closed, memory_order_seq_cst) != 0;
}

/* Sets the sentence of ek_writer_error(); returns -@code. */
int client_fail(struct ek_writer *w, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* --- client_connect.c --- */

void client_close_socket(struct ek_writer *w);
void client_unmap_ring(struct ek_writer *w);
/* Moves on without waiting. @populate: maps all pages of a ring now. True: the writer is connected. */
bool client_move_on(struct ek_writer *w, bool populate);
/*
 * Waits until the writer is connected. @patient: also if no process listens at the socket. Returns as
 * ek_writer_connect().
 */
int client_wait_connected(struct ek_writer *w, int timeout_ms, uint64_t until, bool patient);
/*
 * Takes one message of the recorder. 1: it was taken; *@token: of the sync that it answers, 0: of none; 0: there is
 * none; -EPIPE: the connection has ended.
 */
int client_receive(struct ek_writer *w, uint64_t *token);
/* Takes what the recorder has sent. True: the connection has ended. */
bool client_has_gone(struct ek_writer *w);
void client_count_absent(struct ek_writer *w, uint64_t records);
/* ms left until @until, at least 0; -1: no limit. */
int client_left_ms(int timeout_ms, uint64_t until);
uint64_t client_until_ms(int timeout_ms);

#endif
