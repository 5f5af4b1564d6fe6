/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of a connection share: session.c (its life), session_open.c, session_receive.c and
 * shutdown.c. Of the ingest thread.
 */
#ifndef EKR_SESSION_PARTS_H
#define EKR_SESSION_PARTS_H

#include "session.h"

/* Messages that are still taken from one connection at its end: more than its socket holds. */
#define SESSION_DRAIN 10000

/* --- session.c --- */

/* Sends an EKR_REFUSED. A client that does not read it does not learn it. */
void session_tell(const struct session *s, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
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

struct channel *session_find_channel(const struct ingest *in, const char *name);
void session_take_open(struct session *s, const void *message, size_t length);
/* Gives the client its channel, or the reason why not. It waits if the reason may end soon. */
void session_answer_open(struct session *s, uint64_t now_ns);

/* --- session_receive.c --- */

/* Longest time between two polls of a ring. A socket is read at once if its channel has space. */
#define SESSION_INTERVAL (50 * NSEC_PER_MSEC)

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
