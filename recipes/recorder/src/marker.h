/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clean-shutdown marker, NAME/stopped: one line that a clean shutdown leaves. The next start removes
 * it before it records. The line says where the recording ended, so it is valid for exactly that recording.
 *
 * While the recorder runs, the file is NAME/started, one block that is written already. A shutdown
 * overwrites and renames it, and so needs no space on a full partition. Zeros follow the line.
 */
#ifndef EKR_MARKER_H
#define EKR_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct marker {
	uint64_t generation;	/* of the segment in use */
	uint64_t end;		/* of the last batch in it, bytes; 0: that use is not in the directory any more, or there was none */
	uint64_t batches;	/* number of batches in it */
	uint64_t next_sequence;
};

/* Creates the file that a shutdown overwrites, if it is missing. */
int marker_make(int directory, struct error *e);
/* That file exists: a recorder has begun here. */
bool marker_started(int directory);
int marker_write(int directory, const struct marker *m, struct error *e);
/* Prints the line; returns its length. */
int marker_print(char *to, size_t room, const struct marker *m);
/* Parses the bytes of the file, which may be anything; @text ends with a zero. */
bool marker_parse(const char *text, struct marker *m);
/* Reads the marker, and durably removes it. -ENOENT: there is none, or it is invalid. */
int marker_take(int directory, struct marker *m, struct error *e);

#endif
