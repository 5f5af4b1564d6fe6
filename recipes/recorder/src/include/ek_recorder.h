/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submit records to ek-recorder. No call waits for the medium (the storage device that holds
 * the recordings), and no call waits at all except connect, sync and wait.
 *
 * A writer connects by itself: when it is opened, and again after each restart of the
 * recorder. Each submission makes progress with that. Records submitted without a connection
 * are lost and counted, and after the connection a gap in the recording reports their number.
 *
 * A submission by ring makes a system call in these situations only; none of them waits.
 *
 * - The ring becomes half full: the writer wakes the recorder.
 * - For half a window, at most 200 ms, the recorder was not seen to take a record:
 *   the writer checks that the recorder still runs. The writer notices progress only
 *   when it submits, so if records are further apart than that, every record checks.
 * - The writer is not connected: it looks for an answer once a millisecond, and tries to
 *   connect ten times a second. Mapping a new ring may take it a millisecond.
 *
 * A record that finds the ring full makes the first two calls.
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
 * Create a writer of a channel, and begin to connect. Does not wait, and succeeds also if no
 * recorder is running. @socket: path of the recorder's socket; NULL: the default.
 *
 * -EINVAL: invalid name, way or path.
 *
 * *@writer is set on failure as well, unless there is no memory for it (-ENOMEM). Read the
 * message with ek_writer_error(), and close the writer with ek_writer_close() in any case.
 */
int ek_writer_open(struct ek_writer **writer, const char *socket, const char *channel, enum ek_way way);

/*
 * Wait until the writer is connected, at most @timeout_ms (-1: no limit; 0: only ask). For
 * programs that should end if they cannot record; others need not call it.
 *
 * -ENOENT: there is no such channel.
 * -EACCES: this process may not write to the channel.
 * -EBUSY: the channel has as many writers as it may have, or one more than that wait for it.
 * -EAGAIN: the channel was not available for 8 s, because it is being opened, or because the
 *   medium has not yet accepted the records of the previous writer.
 * -ENODEV, -EIO, -ENOSPC and others: the channel cannot record; 'ek-recorder status' has the reason.
 * -ECONNREFUSED and other errors of connect(): the recorder is not running.
 * -ETIMEDOUT: no answer within that time.
 *
 * After each of these errors the writer goes on trying with each submission.
 */
int ek_writer_connect(struct ek_writer *writer, int timeout_ms);

/*
 * Submit a record of @length bytes. The library reads both clocks.
 *
 * -EMSGSIZE: longer than declared; nothing was submitted.
 * -EAGAIN: there is no space; this record is lost, and a gap in the recording will report it.
 *   This is also how a full or failing medium shows.
 * -ENOTCONN: the writer is not connected, for example because the recorder restarts. This record
 *   is lost, and a gap will report it. Go on submitting: the writer connects again.
 */
int ek_writer_submit(struct ek_writer *writer, const void *record, size_t length);

/*
 * The same for a record that was acquired at @acquired_ns (CLOCK_MONOTONIC), before it was
 * submitted. Both times are recorded. 0: when it was submitted.
 */
int ek_writer_submit_at(struct ek_writer *writer, const void *record, size_t length, uint64_t acquired_ns);

/*
 * Submit by ring without a copy. Reserve returns in *@place the memory for the next record,
 * record_size bytes; fill it, then commit the @length that you used. *@place stays valid until
 * the next call of a function other than commit. Errors as for submit; after an error of
 * reserve there is no place.
 */
int ek_writer_reserve(struct ek_writer *writer, void **place);
int ek_writer_commit(struct ek_writer *writer, size_t length);
int ek_writer_commit_at(struct ek_writer *writer, size_t length, uint64_t acquired_ns);

/*
 * Wait until everything submitted is on the medium, at most @timeout_ms (-1: no limit).
 *
 * -ETIMEDOUT: not within that time.
 * -ENOBUFS: it is, except records that were lost since the last sync because there was no space.
 * -ENOTCONN: it is, except records that were lost since the last sync because there was no connection.
 * -EIO: it is, except records that were lost since the last sync because the medium failed.
 * -EPIPE: since the last sync the recorder exited before it had written everything.
 */
int ek_writer_sync(struct ek_writer *writer, int timeout_ms);

/*
 * Wait until the writer is connected and there is space for the next record, at most
 * @timeout_ms (-1: no limit). For writers that can wait, such as one that reads a file.
 * -ETIMEDOUT, and the errors of ek_writer_connect(). -ECONNREFUSED only after that time.
 */
int ek_writer_wait(struct ek_writer *writer, int timeout_ms);

/* As of the last connection; all 0 before the first. */
const struct ek_channel *ek_writer_channel(const struct ek_writer *writer);
uint64_t ek_writer_lost(const struct ek_writer *writer);	/* records lost so far: no space, or no connection */
const char *ek_writer_error(const struct ek_writer *writer);	/* the last failure as a sentence; "": none */
void ek_writer_close(struct ek_writer *writer);			/* submitted records are still recorded; NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif /* EK_RECORDER_H */
