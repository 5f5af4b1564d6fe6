/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of a medium: bytes in, verdicts out. The recovery at a start, all reading commands and
 * libek-reader use it, so they agree about each head and each record.
 *
 * No byte counts before its CRC is valid. The parser allocates nothing and writes nothing. One
 * thread at a time. Functions return 0 or a negative errno if nothing else is documented.
 */
#ifndef EKR_MEDIUM_H
#define EKR_MEDIUM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "format.h"

/* --- the bytes of a segment ---------------------------------------------------------- */

/* As pread(), but returns -errno. @place: as in the medium_bytes. Offset and length are whole blocks. */
typedef ssize_t medium_read(void *ctx, uint32_t place, void *to, size_t length, uint64_t offset);

/* Bytes of a buffer that reads @ahead bytes at a time and has room for any record at any place. */
#define MEDIUM_ROOM(ahead)	(EKR_RECORD_MAX + 2 * EKR_BLOCK + (ahead))

struct medium_bytes {
	medium_read *read;
	void *ctx;
	uint32_t place;		/* which of the caller's segments is read */
	uint64_t size;		/* of the file, bytes */
	unsigned char *buffer;	/* aligned to EKR_BLOCK */
	size_t room;		/* of the buffer, bytes */
	uint64_t begin;		/* offset of what the buffer holds, a multiple of EKR_BLOCK */
	size_t held;		/* bytes that it holds */
	size_t ahead;		/* bytes to read at a time, if the medium can read them; a multiple of EKR_BLOCK */
	const volatile sig_atomic_t *stop;	/* not 0: a search ends; may be NULL */
};

/*
 * @length bytes, at most EKR_RECORD_MAX + EKR_BLOCK, from @offset on, valid up to the next call.
 * -ENODATA: they reach beyond the end of the file. A bad block fails only what contains it.
 */
int medium_bytes_at(struct medium_bytes *b, uint64_t offset, size_t length,
		    const unsigned char **bytes);
/* The next call reads from the medium again. */
void medium_forget(struct medium_bytes *b);

/* --- heads ------------------------------------------------------------------------------ */

/* "00000000.seg" or "kept/INCIDENT/00000000.seg" */
#define MEDIUM_KEPT	"kept"
#define MEDIUM_NAME	(13 + sizeof(MEDIUM_KEPT) + EKR_NAME_MAX + 1)

/* What the parser says of a segment that belongs to another channel or recording. */
#define MEDIUM_FOREIGN	"head: belongs to another channel than the newest segment"

/* A segment and its last use. */
struct medium_use {
	char file[MEDIUM_NAME];		/* name in the channel's directory */
	uint32_t index;			/* the number in that name */
	uint32_t place;			/* for medium_bytes */
	uint64_t size;			/* of the file, bytes */
	const char *damage;		/* what is wrong with the head; NULL: nothing */
	bool valid;			/* the head's CRC is valid, and the head is of this file */
	bool used;			/* the segment has records of this recording, or had */
	/* Not valid, but used: the first valid record gives what follows, and the rest is 0. Otherwise all is 0. */
	struct ekr_segment_head head;
};

/* The head of a segment whose file, index and place are set; @b reads it. */
int medium_head(struct medium_bytes *b, struct medium_use *use);

/* Opens a segment for reading; NULL: it cannot be read. */
typedef struct medium_bytes *medium_open(void *ctx, const struct medium_use *use);

/*
 * Judges all segments of a channel together, after medium_head() of each, and sorts them by
 * generation: those that were never used come first, by index.
 *
 * - Segments whose head is damaged get a generation from their records. @most: bytes at the start of
 *   a segment in which a record must be found.
 * - Segments of another channel, and copies of a use, are not used. They keep their `damage`.
 *
 * @id: of the channel, for when no head is valid.
 */
void medium_judge(struct medium_use *uses, size_t count, const uint8_t id[16], uint64_t most,
		  medium_open *opener, void *ctx);
/* Sorts them again after a generation was changed. */
void medium_sort(struct medium_use *uses, size_t count);

/* --- records ---------------------------------------------------------------------------- */

/* What is at the place of a record. */
enum medium_verdict {
	MEDIUM_VALID,
	MEDIUM_ZEROS,		/* no record: zeros, as after the end of a batch */
	MEDIUM_NO_RECORD,	/* no record: neither zeros nor the magic */
	MEDIUM_STALE,		/* a record of an earlier use */
	MEDIUM_NEWER,		/* a record of a later use than that of the head */
	MEDIUM_BAD_LENGTH,	/* longer than declared, or beyond the end of the segment */
	MEDIUM_BAD_CRC,
	MEDIUM_IO,		/* it cannot be read */
};

struct medium_record {
	enum medium_verdict verdict;
	int error;			/* of MEDIUM_IO: a negative errno */
	uint64_t offset;		/* of its place, bytes */
	struct ekr_record_head head;	/* as far as it could be read */
	/* of a valid record: */
	const unsigned char *payload;	/* valid up to the next look */
	uint64_t first;			/* the first sequence that it accounts for: of a gap the first that was lost */
	struct ekr_gap gap;		/* of a gap, otherwise zeros */
	bool cut;			/* the batch before it lacks its end, or is not there */
	bool hole;			/* records of its own batch are not there */
	char why[96];			/* of a doubtful record: what is wrong with it */
};

/* Where the records of a segment end at the latest, bytes: its file may have been truncated. */
uint64_t medium_end(const struct medium_bytes *b, const struct ekr_segment_head *head);

/* What is at @offset. @head gives generation, size, record_size, channel_id and index. */
void medium_look(struct medium_bytes *b, const struct ekr_segment_head *head, uint64_t offset,
		 struct medium_record *r);
/* Why there is no valid record, as a phrase. */
void medium_explain(char *to, size_t room, const struct medium_record *r,
		    const struct ekr_segment_head *head);

/* A walk through the records of one use, in order. To begin, set bytes, head and offset; the rest is 0. */
struct medium_walk {
	struct medium_bytes *bytes;
	const struct ekr_segment_head *head;
	uint64_t offset;	/* of the next record, bytes */
	bool in_batch;		/* there was a record; then: */
	uint64_t batch;		/* its batch */
	bool any;		/* there was a record that is not in doubt; then: */
	uint64_t last;		/* its sequence */
};

enum medium_step {
	MEDIUM_RECORD,		/* a valid record; the walk is after it */
	MEDIUM_DOUBT,		/* a record with a valid CRC that cannot be there; the walk is after it */
	MEDIUM_NONE,		/* no record: see its verdict; the walk stays */
};

enum medium_step medium_next(struct medium_walk *w, struct medium_record *r);

/*
 * The first block from @from on and before @to at which a valid record begins that may follow in this
 * walk: of batch @batch or a later one, with a sequence below @below. 0: there is none.
 * *@written (may be NULL): the first block on the way that this use has not written; 0: none.
 */
uint64_t medium_find(const struct medium_walk *w, uint64_t from, uint64_t to, uint64_t batch,
		     uint64_t below, uint64_t *written);

static inline bool medium_is_restart(const struct medium_record *r)
{
	return r->gap.reason == EKR_GAP_RESTART;
}

#endif
