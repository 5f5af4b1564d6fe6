/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a fake application: its files, their sizes, and the order in which the
 * application reads them when it starts. The number of files, their total size and a seed
 * determine the plan. So the same application can be made on any board, and the manifest
 * stores only these three numbers.
 */
#ifndef EK_TREE_H
#define EK_TREE_H

#include <stdint.h>

#define TREE_MIN_FILE	UINT64_C(4096)
#define TREE_MAX_FILE	(UINT64_C(512) << 10)
#define TREE_MAX_FILES	100000

enum tree_kind {
	TREE_LIBRARY,	/* the largest tenth of the files: mapped, one after the other */
	TREE_CONFIG,	/* the smallest three tenths: read, one after the other */
	TREE_ASSET,	/* all others: read by several threads at the same time */
	TREE_KINDS,
};

struct tree_file {
	enum tree_kind kind;
	unsigned int number;	/* part of its name, and seed of its content */
	uint64_t size;		/* bytes */
};

struct tree {
	uint64_t seed;
	uint64_t total;		/* sum of the sizes of all files, bytes */
	unsigned int files;
	struct tree_file *file;	/* in reading order, kind by kind */
	unsigned int first[TREE_KINDS + 1];	/* index of the first file of each kind; last: files */
};

/*
 * Plans `files` files. Their sizes are close to log-normal, from 4 to 512 KiB with a
 * median of 24 KiB. If total is not 0, the sizes are then scaled to add up to total bytes
 * exactly. Returns NULL, or a message that says what is wrong. tree_free() releases the
 * memory of *t.
 */
const char *tree_plan(struct tree *t, unsigned int files, uint64_t seed, uint64_t total);
void tree_free(struct tree *t);

/* Writes a file's path below the application's folder, such as "lib/00017". Returns `path`. */
const char *tree_path(const struct tree_file *f, char path[32]);
extern const char *const tree_folders[TREE_KINDS];

/*
 * tree_print() writes the plan as one line of text, the manifest. tree_parse() makes the
 * plan from a manifest, and returns NULL, or a message that says what is wrong.
 */
void tree_print(const struct tree *t, char *text, unsigned long size);
const char *tree_parse(struct tree *t, const char *text);

#endif
