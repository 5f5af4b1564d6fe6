/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NAME/stopped: a line that an orderly stop leaves, and that the next start takes
 * before it records. It says where the recording ended, so that it counts only for
 * exactly that recording.
 *
 * Between a start and a stop its file is there as NAME/started, one block that has
 * been written: a stop overwrites and renames it, and needs no room for that on a
 * partition that is full. Behind the line are zeros.
 */
#ifndef EKR_MARKER_H
#define EKR_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct marker {
	uint64_t generation;	/* of the segment in use */
	uint64_t end;		/* in it, bytes */
	uint64_t batches;	/* in it */
	uint64_t next_sequence;
};

/* The room for it. */
int marker_make(int directory, struct error *e);
int marker_write(int directory, const struct marker *m, struct error *e);
/* The line of the file; returns its length. */
int marker_print(char *to, size_t room, const struct marker *m);
/* From the bytes of the file, which may be anything; @text ends with a zero. */
bool marker_parse(const char *text, struct marker *m);
/* Reads it, and durably it is none any more. -ENOENT: there is none, or it is not one. */
int marker_take(int directory, struct marker *m, struct error *e);

#endif
