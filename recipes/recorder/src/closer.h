/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes what may be slow to close: rings, sockets with unread messages, and file descriptors that a writer sent.
 * Closing the last descriptor of a file may take as long as its sender likes (SO_LINGER, FUSE, a medium
 * that hangs). So a separate thread closes them, and no thread waits for it. The number of descriptors
 * that it has to close is limited.
 */
#ifndef EKR_CLOSER_H
#define EKR_CLOSER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "error.h"

#define CLOSER_BATCH 253u /* SCM_MAX_FD of the kernel: as many as a message can carry */

struct closer {
	int from, to;		/* a pipe of descriptors to close; the thread reads from `from` */
	atomic_uint pending;	/* descriptors that were given and are not closed yet */
};

/* @c must stay in place until the process exits, because the thread may run until then. */
int closer_start(struct closer *c, struct error *e);
/*
 * A batch or more is pending: the caller must not receive a message that may carry more, and must accept no
 * new connection. Any thread, no system call.
 */
bool closer_behind(struct closer *c);
/*
 * Takes over these descriptors, at most a batch, and never waits. While it is behind, it may be given
 * only the sockets and rings of all connections. One thread at a time.
 */
void closer_give(struct closer *c, const int *fds, unsigned int count);
/* The thread ends when everything is closed; this does not wait for it. */
void closer_end(struct closer *c);

#endif
