/* SPDX-License-Identifier: Apache-2.0 */
/* Segment files: their names, their heads, and making one (format.h). */
#ifndef EKR_SEGMENT_H
#define EKR_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "error.h"
#include "format.h"

#define SEGMENT_NAME	16	/* room for "00000000.seg" and for the temporary name */

void segment_name(char name[SEGMENT_NAME], uint32_t index);
/* The index in such a name; false: it is none. */
bool segment_index(const char *name, uint32_t *index);
/* The same of one that is being made, or was when the power was cut. */
bool segment_unfinished(const char *name, uint32_t *index);

/* @block begins with its struct, filled but for magic, version and CRC; the rest is zeros. */
void segment_seal_head(unsigned char block[EKR_BLOCK]);

/* NULL if @block, any bytes, is a valid head; otherwise what is wrong. This is the only check of a head. */
const char *segment_head_problem(const unsigned char block[EKR_BLOCK]);
/* What segment_head_problem() returns for the head of an earlier version. */
#define SEGMENT_OLD "head: of an earlier format version; export it with the ek-recorder that wrote it, and remove it"

/* What its records have in common; @head: valid, or made up with channel_id, index, generation, record_size. */
struct record_use segment_use(const struct ekr_segment_head *head);

/*
 * Makes the file, complete or not at all: under a temporary name, allocated,
 * written with zeros by O_DIRECT behind a head of generation 0, flushed, renamed,
 * the directory flushed. So no extent of it is unwritten, and recording changes
 * no metadata. @head: index, size and what is the channel's. @zeros: @length bytes
 * aligned to EKR_BLOCK, whole blocks. Takes long; -ECANCELED soon after *@stop.
 */
int segment_make(int directory, const struct ekr_segment_head *head, const unsigned char *zeros,
		 size_t length, const atomic_bool *stop, struct error *e);

/* Opens it for writing by O_DIRECT. */
int segment_open(int directory, uint32_t index, struct error *e);

#endif
