/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes descriptors that a writer sent. To let go of the last one of a file may take
 * as long as its sender likes (SO_LINGER, FUSE, a medium that hangs), so this is done
 * by a thread that nobody waits for, and whose work does not pile up without end.
 */
#ifndef EKR_CLOSER_H
#define EKR_CLOSER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "error.h"

#define CLOSER_BATCH 253u /* SCM_MAX_FD of the kernel: as many as a message can bring */

struct closer {
	int from, to;		/* a pipe of what is to be closed; the thread has `from` */
	atomic_uint pending;	/* given and not closed yet */
};

/* It has to stay where it is to the end of the process, as the thread may. */
int closer_start(struct closer *c, struct error *e);
/*
 * It has a batch or more: nothing that may bring more is received, nor is a new
 * connection taken. Any thread, no system call.
 */
bool closer_behind(struct closer *c);
/*
 * Takes over these, @count up to a batch, and never waits: while it is behind it may
 * be given no more than the sockets of all connections. One thread at a time.
 */
void closer_give(struct closer *c, const int *fds, unsigned int count);
/* The thread ends when all is closed; it is not waited for. */
void closer_end(struct closer *c);

#endif
