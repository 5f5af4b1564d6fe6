/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment's file as bytes for the parser (medium.h). It is read past the page cache: the reader
 * sees what the recorder wrote by O_DIRECT, and evicts nothing of other programs. Where a file system
 * refuses O_DIRECT, the reader drops the pages at once.
 *
 * One thread at a time. Functions return 0 or a negative errno.
 */
#ifndef EKR_READER_FILE_H
#define EKR_READER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "medium.h"

/* Bytes that are read at a time. */
#define READER_AHEAD	(256u << 10)

/* How fast all files of a reader together may be read. */
struct reader_pace {
	uint64_t rate;		/* bytes per second; 0: no limit */
	uint64_t due_ns;	/* when the next read may begin, CLOCK_MONOTONIC */
	uint64_t again_ns;	/* between two looks at what may be in the middle of being written; 0: look once */
};

struct reader_file {
	struct medium_bytes bytes;
	int fd;			/* -1: none is open */
	bool direct;		/* past the page cache */
	struct reader_pace *pace;
};

int reader_file_init(struct reader_file *f, struct reader_pace *pace,
		     const volatile sig_atomic_t *stop);
void reader_file_free(struct reader_file *f);

/* @dir: a descriptor. Regular files only, -EINVAL for others; symbolic links are not followed (-ELOOP). */
int reader_file_open(struct reader_file *f, int dir, const char *name);
void reader_file_close(struct reader_file *f);

/* Waits for the next look at the same place, and forgets what was read. False: look no more. */
bool reader_file_again(struct reader_file *f);

#endif /* EKR_READER_FILE_H */
