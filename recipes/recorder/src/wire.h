/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between a writer and the recorder: a Unix SEQPACKET socket, and by ring also shared memory
 * that the recorder passes. The writer opens a channel with EKR_OPEN and gets EKR_OPENED, or EKR_REFUSED
 * and the end of the connection.
 *
 * Sequences: a connection numbers its records from ekr_opened.next_sequence, one more for each
 * record, also for those that it lost. The recorder gives the records of a channel the
 * sequences on the medium, so with several writers the two differ.
 *
 * By socket: each record is one EKR_RECORD message, which is not answered. While the recorder
 * has no space, it does not read. A full socket buffer gives the writer -EAGAIN; that record is
 * lost, and the sequence of the next message shows it.
 *
 * By ring: EKR_OPENED carries three descriptors: a memfd with the slots, which the writer fills; a memfd
 * with the state, which the writer can only read; and an eventfd. The ring has fixed slots, one
 * producer and one consumer. The recorder looks into the ring at least four times in a durability
 * window. The writer writes to the eventfd only when its record makes the ring half full. Nobody
 * reads the eventfd: its edge is enough, and the writer could make a read block.
 *
 * The recorder reads the slots with pread(), and does not map them. A writer can free their memory
 * (MADV_REMOVE) and make that slow with thousands of mappings. A page fault of the recorder would wait for all
 * of it, and a read waits for one page at most.
 *
 * The recorder validates all that it reads from the socket or the ring.
 */
#ifndef EKR_WIRE_H
#define EKR_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#include "format.h"

#define EKR_SOCKET		"/run/ek-recorder/socket"
#define EKR_WIRE_VERSION	3u

enum ekr_message {
	EKR_OPEN = 1,			/* struct ekr_open */
	EKR_OPENED = 2,			/* struct ekr_opened, with the three descriptors if by ring */
	EKR_REFUSED = 3,		/* struct ekr_refused */
	EKR_RECORD = 4,			/* struct ekr_submit, then the payload */
	EKR_KEEP = 6,			/* struct ekr_keep, instead of EKR_OPEN: answered by the same or EKR_REFUSED */
	EKR_SYNC = 5,			/* struct ekr_sync: answered by the same when all before it is on the medium */
};

enum ekr_way { EKR_BY_SOCKET = 1, EKR_BY_RING = 2 };

struct ekr_open {
	uint32_t type;			/* EKR_OPEN */
	uint32_t version;		/* EKR_WIRE_VERSION */
	uint32_t way;			/* enum ekr_way */
	char name[EKR_NAME_MAX + 4];
	uint64_t lost;			/* records that this writer lost without a connection, and has not reported */
};

struct ekr_opened {
	uint32_t type;			/* EKR_OPENED */
	uint32_t record_size;		/* largest payload, bytes */
	uint64_t next_sequence;		/* of the writer's first record */
	uint64_t period_ns, window_ns;
	uint32_t slots, stride;		/* by ring: number of slots, bytes from one to the next */
};

struct ekr_refused {
	uint32_t type;			/* EKR_REFUSED */
	/*
	 * errno. ENOENT: no such channel; EACCES: may not write; EBUSY: too many writers or connections;
	 * EAGAIN: not yet; EOPNOTSUPP: no ring; ESHUTDOWN: stopped, and all was taken; EINVAL: the
	 * recorder's configuration is invalid; others: what the medium or the protocol lacks.
	 */
	int32_t error;
	uint64_t sequence;		/* after EKR_OPENED: the recorder took or lost all below it; before: 0 */
	char why[240];			/* one sentence; names the channel if one is concerned */
};

struct ekr_submit {
	uint32_t type;			/* EKR_RECORD */
	uint32_t length;
	uint64_t sequence, monotonic_ns;
	int64_t realtime_ns;
	uint64_t acquired_ns;		/* monotonic; 0: as monotonic_ns */
};

struct ekr_sync {
	uint32_t type;			/* EKR_SYNC */
	int32_t error;			/* in the answer: 0, or why records were lost: ENOBUFS no space, EIO the medium */
	uint64_t token;			/* any value; the answer has the same */
	uint64_t sequence;		/* the writer's next one; records below that have not arrived are lost */
};

/* A request to protect a range of real time from being overwritten. Its user must have access for writing. */
struct ekr_keep {
	uint32_t type;			/* EKR_KEEP */
	uint32_t version;		/* EKR_WIRE_VERSION */
	char name[EKR_NAME_MAX + 8];	/* of the channel */
	char incident[EKR_NAME_MAX + 8];	/* a name of the same form */
	int64_t from_ns, to_ns;		/* both included */
	uint64_t segments;		/* in the answer: number of segments that are kept */
};

/* The first page of the slots' memfd. The slots follow at EKR_RING_DATA. Only the writer writes this memfd. */
#define EKR_RING_DATA		4096u

struct ekr_ring {
	_Atomic uint64_t head;		/* slots filled, release */
	_Atomic uint64_t lost;		/* records that found the ring full */
};

/* The memfd of the state, one page. Only the recorder can write it (F_SEAL_FUTURE_WRITE). */
struct ekr_ring_state {
	_Atomic uint64_t tail;		/* slots taken, release */
	_Atomic uint32_t closed;	/* not 0: the recorder takes no more; the errno says why */
};

/* A slot: the record number `head` is in slot head % slots. */
struct ekr_slot {
	uint32_t length, pad;
	uint64_t sequence, monotonic_ns;
	int64_t realtime_ns;
	uint64_t acquired_ns;		/* monotonic; 0: as monotonic_ns */
	unsigned char payload[];
};

#endif /* EKR_WIRE_H */
