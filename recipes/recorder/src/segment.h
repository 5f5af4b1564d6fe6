/* SPDX-License-Identifier: Apache-2.0 */
/* Segment files: their names, their heads, and how they are created (format.h). */
#ifndef EKR_SEGMENT_H
#define EKR_SEGMENT_H

#include <dirent.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "error.h"
#include "format.h"

#define SEGMENT_NAME	16	/* bytes for "00000000.seg" */

void segment_name(char name[SEGMENT_NAME], uint32_t index);
/* The list of directory @path below @directory, with a position of its own; NULL, and errno says why. */
DIR *segment_list(int directory, const char *path);
/* The index in the name of a segment; false: it is no such name. */
bool segment_index(const char *name, uint32_t *index);
/* The same for the temporary name of a segment that is being created, or was when the power was cut. */
bool segment_unfinished(const char *name, uint32_t *index);

/* Adds magic, version and CRC to the head in @block; the rest of the block is zeros. */
void segment_seal_head(unsigned char block[EKR_BLOCK]);

/*
 * NULL if @block is a valid head; otherwise what is wrong. The bytes may be anything. No other function
 * checks a head.
 */
const char *segment_head_problem(const unsigned char block[EKR_BLOCK]);
/* What segment_head_problem() returns for the head of an earlier version. */
#define SEGMENT_OLD "head: of an earlier format version; export it with the ek-recorder that wrote it, and remove it"

/* What the records of a use have in common. @head needs channel_id, index, generation and record_size. */
struct record_use segment_use(const struct ekr_segment_head *head);

/*
 * Creates the file, completely or not at all: allocates it under a temporary name, writes a head of
 * generation 0 and zeros by O_DIRECT, flushes it, renames it, and flushes the directory. So no extent of
 * the file is unwritten, and recording changes no metadata.
 *
 * @head: index, size, and the values of the channel. @zeros: @length bytes, whole blocks, aligned to
 * EKR_BLOCK. Takes long; returns -ECANCELED soon after *@stop is set.
 */
int segment_make(int directory, const struct ekr_segment_head *head, const unsigned char *zeros,
		 size_t length, const atomic_bool *stop, struct error *e);

/* Opens a segment for writing by O_DIRECT; returns the descriptor. */
int segment_open(int directory, uint32_t index, struct error *e);

#endif
