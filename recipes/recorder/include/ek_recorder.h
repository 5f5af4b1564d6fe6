/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Give records to ek-recorder. A call that submits never waits for the medium.
 *
 * By ring it makes no system call but two, which wait for nothing. One wakes the
 * recorder when the ring is half full. One asks whether it is still there, if it was
 * not seen to take anything for half a window, at most 200 ms; it is looked at with
 * each record, so where that long is between two, each asks. A record that finds no
 * place in the ring makes both.
 *
 * A writer belongs to one thread at a time. All functions return 0 (or what
 * they say) or a negative errno.
 */
#ifndef EK_RECORDER_H
#define EK_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ek_writer;

enum ek_way {
	EK_BY_SOCKET = 1,	/* each record is a message */
	EK_BY_RING = 2,		/* each record is copied into shared memory */
};

/* What the recorder says about a channel. */
struct ek_channel {
	uint32_t record_size;	/* largest record, bytes */
	uint64_t period_ns;	/* declared; 0: none */
	uint64_t window_ns;	/* what is older is on the medium */
};

/*
 * Become the writer of a channel. @socket: NULL for the board's own.
 * -ENOENT: no such channel; -EBUSY: it has a writer; -EAGAIN: not yet, after 8 s: it
 * is being opened, or the medium has not taken what a writer left; -EINVAL: a bad name or way;
 * -ENODEV, -EIO, -ENOSPC and others: the channel cannot record, for the reason that `status` shows;
 * -ECONNREFUSED and others of connect(): no recorder. ek_writer_error() tells
 * the recorder's own words. *@writer is set also on failure, if there is memory
 * for it, so that they can be read; ek_writer_close() it in any case. All else with
 * one that failed is -EPIPE.
 */
int ek_writer_open(struct ek_writer **writer, const char *socket, const char *channel, enum ek_way way);

/*
 * Submit a record of @length bytes; both clocks are read here. -EMSGSIZE: larger
 * than declared, nothing was submitted; -EAGAIN: the recorder is behind, this
 * record is lost and will be told as lost; -EPIPE: the recorder has gone or has
 * closed the connection, and this record may not be taken; open anew. A medium that
 * is full or fails is told by -EAGAIN and by a sync.
 */
int ek_writer_submit(struct ek_writer *writer, const void *record, size_t length);

/*
 * By ring, without a copy: the place of the next record, of record_size bytes,
 * and then its submission with the @length that it got. *@place stays the same
 * until it is committed. -EAGAIN from reserve: the record that it was for is lost
 * and counted, as with submit.
 */
int ek_writer_reserve(struct ek_writer *writer, void **place);
int ek_writer_commit(struct ek_writer *writer, size_t length);

/*
 * Wait until all that was submitted is on the medium, at most @timeout_ms (-1: for
 * ever). -ETIMEDOUT; -ENOBUFS: it is, but for records that were lost since the last
 * time because there was no room for them; -EIO: for such that the medium did not take.
 * -EPIPE: the recorder went before it answered; ek_writer_error() tells whether with all.
 */
int ek_writer_sync(struct ek_writer *writer, int timeout_ms);

/*
 * For writers that can wait, such as one that reads a file: until the next record
 * will find a place, at most @timeout_ms (-1: for ever). -ETIMEDOUT, -EPIPE.
 */
int ek_writer_wait(struct ek_writer *writer, int timeout_ms);

const struct ek_channel *ek_writer_channel(const struct ek_writer *writer);
uint64_t ek_writer_lost(const struct ek_writer *writer);	/* records that found no place, so far */
const char *ek_writer_error(const struct ek_writer *writer);	/* the last failure, one sentence; "" */
void ek_writer_close(struct ek_writer *writer);			/* what was submitted is still recorded; NULL is fine */

#ifdef __cplusplus
}
#endif

#endif /* EK_RECORDER_H */
