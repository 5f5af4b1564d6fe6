/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of segments: what a channel's directory holds, in the order in which
 * it was written. Nothing that is read is believed before its CRC holds.
 */
#ifndef EKR_READER_HEAD_H
#define EKR_READER_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "reader_file.h"

/* "00000000.seg" or "kept/INCIDENT/00000000.seg" */
#define READER_NAME	(13 + sizeof(READER_KEPT) + EKR_NAME_MAX + 1)
#define READER_KEPT	"kept"

/* A use of a segment: what its head said. */
struct reader_use {
	char file[READER_NAME];		/* name in the directory */
	bool rescued;			/* the head is damaged: made up from the first record that holds */
	bool used;			/* it was in use at least once */
	const char *damage;		/* what is wrong with the head, or NULL */
	struct ekr_segment_head head;
};

struct reader_uses {
	struct reader_use *use;		/* by generation; those never used come first, by index */
	size_t count;
	uint8_t id[16];			/* of the channel */
};

/* What became of a record's place. */
enum reader_verdict {
	READER_VALID,
	READER_ZEROS,		/* no record: zeros, as after the end of a batch */
	READER_NO_RECORD,	/* no record: neither zeros nor the magic */
	READER_STALE,		/* of an earlier use */
	READER_NEWER,		/* of a later use than that of the head */
	READER_BAD_LENGTH,	/* longer than declared, or beyond the end of the segment */
	READER_BAD_CRC,
	READER_IO,		/* it cannot be read; *@error is the negative errno */
};

/* Whether a file of that name is a segment. */
bool reader_is_segment(const char *name);

/*
 * The record at @offset of the open file: its head goes to @record, *@payload
 * is valid up to the next look. @head says size, generation and record_size.
 */
enum reader_verdict reader_look(struct reader_file *f, const struct ekr_segment_head *head, uint64_t offset,
				struct ekr_record_head *record, const unsigned char **payload, int *error);

/*
 * The head of one segment, which is open in @f. A damaged one is made up from the segment's records if
 * @id, the channel's, is not NULL. 0, or a negative errno if it cannot be read.
 */
int reader_head_read(struct reader_file *f, const char *name, const uint8_t *id, struct reader_use *use);

/*
 * All segments in directory @dir. Heads that cannot be read or are doubtful
 * have `damage`. 0 or a negative errno; @uses is to be freed in any case.
 *
 * Heads are read one by one while the recorder goes on. Its generations are
 * consecutive: if one after @seen is left out (0: after the oldest that a full
 * channel has), all are read once more. What has begun behind one that is left out still counts as never
 * used: another reading shows both.
 */
int reader_uses_read(struct reader_uses *uses, int dir, struct reader_file *f, uint64_t seen);
void reader_uses_free(struct reader_uses *uses);

#endif /* EKR_READER_HEAD_H */
