/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submit records to ek-recorder. A call that submits never waits for the medium (the
 * storage device that holds the recordings).
 *
 * A submission by ring makes a system call in two situations only; neither call waits.
 *
 * - The ring becomes half full: the writer wakes the recorder.
 * - For half a window, at most 200 ms, the recorder was not seen to take a record:
 *   the writer checks that the recorder still runs. The writer notices progress only
 *   when it submits, so if records are further apart than that, every record checks.
 *
 * A record that finds the ring full makes both calls.
 *
 * One thread at a time may use a writer. All functions return 0 (or the value that
 * they document) or a negative errno.
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

/* What the recorder reports about a channel. */
struct ek_channel {
	uint32_t record_size;	/* largest record, bytes */
	uint64_t period_ns;	/* declared time between records; 0: none */
	uint64_t window_ns;	/* durability window: older records are on the medium */
};

/*
 * Become the writer of a channel. @socket: path of the recorder's socket; NULL: the default.
 *
 * -ENOENT: there is no such channel.
 * -EBUSY: the channel has a writer.
 * -EAGAIN: the channel was not available for 8 s, because it is being opened, or because the
 *   medium has not yet accepted the records of the previous writer.
 * -EINVAL: invalid name or way.
 * -ENODEV, -EIO, -ENOSPC and others: the channel cannot record; 'ek-recorder status' has the reason.
 * -ECONNREFUSED and other errors of connect(): the recorder is not running.
 *
 * *@writer is set on failure as well, unless there is no memory for it. Read the recorder's
 * message with ek_writer_error(), and close the writer with ek_writer_close() in any case.
 * All other calls with a writer that could not be opened return -EPIPE.
 */
int ek_writer_open(struct ek_writer **writer, const char *socket, const char *channel, enum ek_way way);

/*
 * Submit a record of @length bytes. The library reads both clocks.
 *
 * -EMSGSIZE: longer than declared; nothing was submitted.
 * -EAGAIN: there is no space; this record is lost, and a gap in the recording will report it.
 *   This is also how a full or failing medium shows.
 * -EPIPE: the recorder exited or closed the connection; this record may be lost. Open the
 *   channel again.
 */
int ek_writer_submit(struct ek_writer *writer, const void *record, size_t length);

/*
 * Submit by ring without a copy. Reserve returns in *@place the memory for the next record,
 * record_size bytes; fill it, then commit the @length that you used. *@place stays the same
 * until it is committed.
 *
 * -EAGAIN from reserve: there is no space; the record is lost and counted, as with submit.
 */
int ek_writer_reserve(struct ek_writer *writer, void **place);
int ek_writer_commit(struct ek_writer *writer, size_t length);

/*
 * Wait until everything submitted is on the medium, at most @timeout_ms (-1: no limit).
 *
 * -ETIMEDOUT: not within that time.
 * -ENOBUFS: it is, except records that were lost since the last sync because there was no space.
 * -EIO: it is, except records that were lost since the last sync because the medium failed.
 * -EPIPE: the recorder exited before it answered; ek_writer_error() says whether it wrote everything.
 */
int ek_writer_sync(struct ek_writer *writer, int timeout_ms);

/*
 * Wait until there is space for the next record, at most @timeout_ms (-1: no limit). For
 * writers that can wait, such as one that reads a file. -ETIMEDOUT, -EPIPE.
 */
int ek_writer_wait(struct ek_writer *writer, int timeout_ms);

const struct ek_channel *ek_writer_channel(const struct ek_writer *writer);
uint64_t ek_writer_lost(const struct ek_writer *writer);	/* records lost so far because there was no space */
const char *ek_writer_error(const struct ek_writer *writer);	/* the last failure as a sentence; "": none */
void ek_writer_close(struct ek_writer *writer);			/* submitted records are still recorded; NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif /* EK_RECORDER_H */
