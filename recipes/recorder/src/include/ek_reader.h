/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read recordings of ek-recorder, also while they are recorded, and also on another machine: the
 * library needs neither a running recorder nor its configuration.
 *
 * A reader returns events in order: each record, and each place where records are lost, missing,
 * damaged or already overwritten. A record is returned only if its CRC is valid. Reading bypasses the page
 * cache and has the I/O priority idle.
 *
 *	struct ek_reader *r;
 *	struct ek_event e;
 *
 *	if (ek_reader_open(&r, "/recorder/arm", NULL))
 *		errx(1, "%s", ek_reader_error(r));
 *	while (ek_reader_next(r, &e) > 0)
 *		if (e.kind == EK_RECORD)
 *			use(e.payload, e.length);
 *	ek_reader_close(r);
 *
 * One thread at a time may use a reader. Functions return what they document, or a negative errno.
 */
#ifndef EK_READER_H
#define EK_READER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ek_reader;

enum ek_event_kind {
	EK_RECORD = 1,
	EK_GAP = 2,		/* the recorder recorded that records before this one were lost */
	EK_MISSING = 3,		/* sequences are absent, and no gap explains them */
	EK_DAMAGE = 4,		/* a place in a segment is invalid; reading continues after it */
	EK_TORN = 5,		/* the last batch before a power cut was written in part */
	EK_OVERWRITTEN = 6,	/* no fault: the recorder reused the segment while it was read */
};

struct ek_event {
	enum ek_event_kind kind;
	uint32_t gap_reason;		/* of a gap, see ek_reader_gap_name() */
	uint64_t sequence;		/* of a record; of a gap or missing records: the last */
	uint64_t first;			/* of a record: its sequence; of a gap or missing records: the first */
	uint64_t lost;			/* of a gap: the number of records; 0: unknown */
	uint64_t monotonic_ns;		/* of a record or gap: when it was submitted, CLOCK_MONOTONIC of its boot */
	int64_t realtime_ns;		/* the same moment, CLOCK_REALTIME: may jump */
	uint64_t acquired_ns;		/* of a record: when its data was acquired, CLOCK_MONOTONIC */
	const void *payload;		/* of a record, valid up to the next call */
	size_t length;			/* bytes */
	const char *message;		/* of everything else: a sentence, valid up to the next call */
};

/* Zeros or NULL: the default of each. */
struct ek_reader_options {
	size_t size;			/* sizeof(struct ek_reader_options): later versions may have more members */
	const char *from, *to;		/* RFC 3339 with a zone, "now", "-5min" or "boot+90s"; both are included */
	const char *sequences;		/* "A..B", "A..", "..B" or "A" */
	uint64_t rate;			/* read at most this many bytes per second */
	int follow;			/* not 0: continue with records that are written later */
	int from_end;			/* with follow: only these */
};

/*
 * @directory: of the channel. @options: NULL: everything that is there. -EINVAL: invalid options;
 * -ENOENT: there is no such directory; -ENODATA: it has no segments; -EPROTONOSUPPORT: a format
 * that this library cannot read. *@reader is set on failure as well, unless there is no memory for it; read
 * ek_reader_error(), and close it in any case.
 */
int ek_reader_open(struct ek_reader **reader, const char *directory, const struct ek_reader_options *options);

/* 1: an event; 0: the end, with follow for now; otherwise a negative errno. */
int ek_reader_next(struct ek_reader *reader, struct ek_event *event);

/*
 * With follow, after ek_reader_next() returned 0: wait until more may have been written, at most
 * @timeout_ms (-1: no limit). 1: try again; 0: not within that time; -ESTALE: nothing more of the
 * range will come; -EINTR: a signal came, try again.
 */
int ek_reader_wait(struct ek_reader *reader, int timeout_ms);

/* "overrun", "restart", ... ; "unknown" for a reason of a later version. */
const char *ek_reader_gap_name(uint32_t reason);
const char *ek_reader_error(const struct ek_reader *reader);	/* the last failure as a sentence; "": none */
void ek_reader_close(struct ek_reader *reader);			/* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif /* EK_READER_H */
