/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a writer and the recorder: a Unix SEQPACKET socket, and for a ring the
 * shared memory that it passes. One writer a channel at a time; it opens with
 * EKR_OPEN and gets EKR_OPENED or EKR_REFUSED (and the connection is closed).
 *
 * By socket: each record is one EKR_RECORD message. Nothing is answered. While the
 * recorder has no room it does not read; a full socket buffer is the writer's
 * -EAGAIN, and a lost record, counted in the next message's sequence.
 *
 * By ring: EKR_OPENED carries two descriptors, a sealed memfd and an eventfd.
 * The ring has fixed slots, one producer and one consumer. The recorder looks
 * into it by itself at least four times in a durability window; the writer
 * writes to the eventfd only when its record makes the ring half full. Nobody reads
 * that: its edge is enough, and the writer could make a read block.
 *
 * The recorder believes nothing that it reads from the socket or the ring.
 */
#ifndef EKR_WIRE_H
#define EKR_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#include "format.h"

#define EKR_SOCKET		"/run/ek-recorder/socket"
#define EKR_WIRE_VERSION	1u

enum ekr_message {
	EKR_OPEN = 1,			/* struct ekr_open */
	EKR_OPENED = 2,			/* struct ekr_opened, with the two descriptors if by ring */
	EKR_REFUSED = 3,		/* struct ekr_refused */
	EKR_RECORD = 4,			/* struct ekr_submit, then the payload */
	EKR_SYNC = 5,			/* struct ekr_sync: answered by the same when all before it is on the medium */
};

enum ekr_way { EKR_BY_SOCKET = 1, EKR_BY_RING = 2 };

struct ekr_open {
	uint32_t type;			/* EKR_OPEN */
	uint32_t version;		/* EKR_WIRE_VERSION */
	uint32_t way;			/* enum ekr_way */
	char name[EKR_NAME_MAX + 4];
};

struct ekr_opened {
	uint32_t type;			/* EKR_OPENED */
	uint32_t record_size;		/* largest payload, bytes */
	uint64_t next_sequence;		/* that the writer goes on with */
	uint64_t period_ns, window_ns;
	uint32_t slots, stride;		/* by ring: number of slots, bytes from one to the next */
};

struct ekr_refused {
	uint32_t type;			/* EKR_REFUSED */
	int32_t error;			/* errno: ENOENT no such channel, EBUSY has a writer, EAGAIN not yet, EPROTO, ENOSPC, EROFS, EIO; ESHUTDOWN stopped, all was taken */
	char why[240];			/* one sentence, names the channel (and the writer's process) */
};

struct ekr_submit {
	uint32_t type;			/* EKR_RECORD */
	uint32_t length;
	uint64_t sequence, monotonic_ns;
	int64_t realtime_ns;
};

struct ekr_sync {
	uint32_t type;			/* EKR_SYNC */
	int32_t error;			/* in the answer: 0, or of what was lost: ENOBUFS no room, EIO the medium */
	uint64_t token;			/* any, comes back */
	uint64_t sequence;		/* all below it: the writer's next one; those that have not come are lost */
};

/*
 * The memfd: this, then slots x stride bytes from EKR_RING_DATA on. Producer and
 * consumer each write their own cache line only.
 */
#define EKR_RING_DATA		4096u

struct ekr_ring {
	uint32_t slots, stride;		/* set once by the recorder; it keeps its own copy */
	uint32_t record_size, pad;
	_Alignas(64) _Atomic uint64_t head;	/* slots filled, by the writer, release */
	_Atomic uint64_t lost;			/* records that found the ring full */
	_Alignas(64) _Atomic uint64_t tail;	/* slots taken, by the recorder, release */
	_Atomic uint32_t closed;		/* errno: the recorder takes no more */
};

/* A slot: slot i of the ring is that of head % slots == i. */
struct ekr_slot {
	uint32_t length, pad;
	uint64_t sequence, monotonic_ns;
	int64_t realtime_ns;
	unsigned char payload[];
};

#endif /* EKR_WIRE_H */
