/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on the medium. A channel is a directory of segments. A segment is a file that is
 * written once when it is created and then only overwritten, in turn, so that the file system
 * has no metadata to change but a time stamp.
 *
 *	NAME/00000000.seg, 00000001.seg, ...	segments, all of one size
 *	NAME/channel				what the channel is: about.h
 *	NAME/stopped, NAME/started		the clean-shutdown marker: marker.h
 *	NAME/kept/INCIDENT/			segments that are protected: keep.h
 *
 *	segment = header block | data blocks ...
 *	data    = batches, each of whole blocks: records back to back, then zeros
 *
 * A block that a flush has made durable is never written again until its segment is reused: a
 * write that a power cut tears destroys nothing older. At most one batch of a channel is under
 * way: a batch proves that all batches before it were durable.
 *
 * A segment that is reused gets the next generation. The generation is in each record and in
 * its CRC, so that what an earlier use left behind is never taken for a record of this use. The
 * CRC of a record also covers the channel's id and the segment's index, which are not in the
 * record: a block that was copied from another channel or segment is invalid.
 *
 * A record counts only if its sequence is below first_sequence in the head of the next
 * generation. A batch that failed is written again in the next segment, and after a power cut
 * sequences continue after the last record in order. What the medium accepted beyond that may
 * have a valid CRC, but is void.
 *
 * A use may end before its file does: a batch that does not fit any more begins the next
 * segment, and so does a start of the recorder after an unclean shutdown, or after a boot.
 *
 * All integers are little-endian. CRCs are CRC-32C (Castagnoli) of the bytes as they are on the
 * medium, with the crc field itself as zeros.
 *
 * Times: monotonic_ns is CLOCK_MONOTONIC, which starts with the boot and stands still while the
 * board is suspended. realtime_ns is CLOCK_REALTIME, which may be set.
 */
#ifndef EKR_FORMAT_H
#define EKR_FORMAT_H

#include <stdint.h>

#define EKR_BLOCK		4096u
#define EKR_FORMAT_VERSION	2u
#define EKR_SEGMENT_MAGIC	0x31474553524b45ull	/* "EKRSEG1" */
#define EKR_RECORD_MAGIC	0x52524b45u		/* "EKRR" */

/* NAME: [a-z0-9][a-z0-9-]{0,31}, as of an app */
#define EKR_NAME_MAX		32u

/* A record with its head must fit into the data of a segment. */
#define EKR_RECORD_MAX		(1u << 20)

/* A batch with its zeros is never longer. */
#define EKR_BATCH_MAX		(4u << 20)

/* The first EKR_BLOCK bytes of a segment; what follows the struct is zeros. */
struct ekr_segment_head {
	uint64_t magic;			/* EKR_SEGMENT_MAGIC */
	uint32_t version;		/* EKR_FORMAT_VERSION */
	uint32_t crc;			/* of the whole block */
	uint8_t channel_id[16];		/* random, the same in all segments of a channel */
	char name[EKR_NAME_MAX + 8];	/* of the channel, padded with zeros */
	uint64_t generation;		/* of this use, from 1, greater than that of any other segment; 0: never used */
	uint64_t first_sequence;	/* of the first record that was written in this use */
	uint64_t size;			/* bytes of the file, a multiple of EKR_BLOCK */
	uint32_t index;			/* the number in the file's name */
	uint32_t record_size;		/* largest payload, bytes */
	uint64_t period_ns;		/* declared; 0: none */
	uint64_t window_ns;		/* durability window: what is older is on the medium */
	uint8_t boot_id[16];		/* of the boot whose monotonic clock its records have */
	int64_t realtime_ns;		/* when this use began, CLOCK_REALTIME */
	uint64_t monotonic_ns;		/* when this use began, CLOCK_MONOTONIC */
};

enum ekr_record_flag {
	EKR_RECORD_GAP = 1u << 0,	/* payload: struct ekr_gap; records before this one were lost */
};

/* Begins at a multiple of 8; its payload follows, then zeros up to the next multiple of 8. */
struct ekr_record_head {
	uint32_t magic;			/* EKR_RECORD_MAGIC */
	uint32_t crc;			/* of channel_id, index (both of the segment's head), this head and the payload; without the padding */
	uint32_t length;		/* of the payload, bytes, 0..record_size */
	uint32_t flags;			/* enum ekr_record_flag */
	uint64_t generation;		/* as in the segment's head */
	uint64_t sequence;		/* from 0, one more for each record that writers submitted, also for those that were lost */
	uint64_t monotonic_ns;		/* when it was submitted, CLOCK_MONOTONIC */
	int64_t realtime_ns;		/* the same moment, CLOCK_REALTIME: may jump */
	uint64_t acquired_ns;		/* when its data was acquired, CLOCK_MONOTONIC: at most monotonic_ns */
	uint64_t batch;			/* number of the batch in this use of the segment, from 0: a batch ends where the next one begins, at a block */
};

enum ekr_gap_reason {
	EKR_GAP_OVERRUN = 1,		/* the medium was slower than the writer for longer than the buffer lasts */
	EKR_GAP_RESTART = 2,		/* the recorder or the board did not shut down cleanly */
	EKR_GAP_FAILED = 3,		/* the medium failed to write the records */
	EKR_GAP_WRITER = 4,		/* the writer broke the protocol */
	EKR_GAP_ABSENT = 5,		/* the writer was not connected, for example because the recorder restarted */
};

/* Their names by number, for commands, statistics and documents. */
#define EKR_GAP_NAMES                                                                     \
	[EKR_GAP_OVERRUN] = "overrun", [EKR_GAP_RESTART] = "restart",                     \
	[EKR_GAP_FAILED] = "failed", [EKR_GAP_WRITER] = "writer", [EKR_GAP_ABSENT] = "absent"

/*
 * Payload of a gap. It takes the sequence of the last record that was lost: its
 * sequence is that of the record before it plus count_lost. Where the number is
 * not known, count_lost is 0 and the gap takes one sequence of its own, so that
 * sequences always grow.
 */
struct ekr_gap {
	uint32_t reason;		/* enum ekr_gap_reason */
	uint32_t count_lost;		/* records, saturated; 0: not known */
};

#endif /* EKR_FORMAT_H */
