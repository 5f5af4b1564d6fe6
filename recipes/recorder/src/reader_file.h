/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment's file, read in aligned blocks past the page cache: what the
 * recorder wrote by O_DIRECT is seen, and nothing of other programs is evicted.
 * Where a file system refuses O_DIRECT, the pages are given back at once.
 *
 * One thread at a time. Functions return 0 or a negative errno.
 */
#ifndef EKR_READER_FILE_H
#define EKR_READER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

/* The largest record with its head, from anywhere in a block, and what is read ahead. */
#define READER_AHEAD	(256u << 10)
#define READER_BUFFER	(EKR_RECORD_MAX + 2 * EKR_BLOCK + READER_AHEAD)

/* How fast it may read; shared by all files of a reader. */
struct reader_pace {
	uint64_t rate;		/* bytes per second; 0: no limit */
	uint64_t due_ns;	/* when the next read may begin, CLOCK_MONOTONIC */
	uint64_t bytes;		/* read so far */
	uint64_t again_ns;	/* between two looks at what may be in the middle of being written; 0: look once */
};

struct reader_file {
	int fd;			/* -1: none is open */
	bool direct;		/* past the page cache */
	uint64_t size;		/* bytes, when it was opened */
	unsigned char *buffer;	/* READER_BUFFER bytes, aligned to a block */
	uint64_t begin;		/* offset of what the buffer holds, a multiple of EKR_BLOCK */
	size_t held;		/* bytes that it holds */
	size_t ahead;		/* bytes to read at least, a multiple of EKR_BLOCK */
	struct reader_pace *pace;
};

int reader_file_init(struct reader_file *f, struct reader_pace *pace);
void reader_file_free(struct reader_file *f);

/* @dir: a descriptor. Regular files only, -EINVAL for others; symbolic links are not followed (-ELOOP). */
int reader_file_open(struct reader_file *f, int dir, const char *name);
void reader_file_close(struct reader_file *f);

/*
 * @length bytes, at most EKR_RECORD_MAX + EKR_BLOCK, from @offset on, valid up
 * to the next call. -ENODATA: they reach beyond the end of the file.
 */
int reader_file_bytes(struct reader_file *f, uint64_t offset, size_t length,
		      const unsigned char **bytes);

/* Wait for the next look at the same place. False: look no more. */
bool reader_file_again(const struct reader_file *f);

/* Forget what was read: the next look sees what is on the medium then. */
void reader_file_drop(struct reader_file *f);

#endif /* EKR_READER_FILE_H */
