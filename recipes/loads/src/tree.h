/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a fake application: their number, their sizes, and the order in
 * which the application reads them when it starts. A seed decides everything. So the
 * same application can be made on any board, and only the seed is stored.
 */
#ifndef EK_TREE_H
#define EK_TREE_H

#include <stdint.h>

#define TREE_MIN_FILE	UINT64_C(4096)
#define TREE_MAX_FILE	(UINT64_C(512) << 10)
#define TREE_MAX_FILES	100000

enum tree_kind {
	TREE_LIBRARY,	/* mapped, one after the other: the largest tenth */
	TREE_CONFIG,	/* read one after the other: the smallest three tenths */
	TREE_ASSET,	/* read by several threads at once: the rest */
	TREE_KINDS,
};

struct tree_file {
	enum tree_kind kind;
	unsigned int number;	/* part of its name, and seed of its content */
	uint64_t size;		/* bytes */
};

struct tree {
	uint64_t seed;
	uint64_t total;		/* bytes; the actual sum */
	unsigned int files;
	struct tree_file *file;	/* in reading order, kind by kind */
	unsigned int first[TREE_KINDS + 1];	/* index of the first file of each kind; last: files */
};

/*
 * Plans `files` files. Sizes are close to log-normal, from 4 to 512 KiB with a
 * median of 24 KiB. If total is not 0, they are scaled to add up to it exactly.
 * Returns NULL, or what is wrong. tree_free() releases *t.
 */
const char *tree_plan(struct tree *t, unsigned int files, uint64_t seed, uint64_t total);
void tree_free(struct tree *t);

/* Writes the path below the application's folder, such as "lib/00017", and returns it. */
const char *tree_path(const struct tree_file *f, char path[32]);
extern const char *const tree_folders[TREE_KINDS];

/*
 * The plan as one line of text (a manifest), and back. tree_parse() returns NULL, or
 * what is wrong.
 */
void tree_print(const struct tree *t, char *text, unsigned long size);
const char *tree_parse(struct tree *t, const char *text);

#endif
