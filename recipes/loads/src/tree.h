/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a made-up application: which there are, how large, and in which
 * order it reads them when it starts. All of it follows from a seed, so that
 * the same application can be made on any board, and only the seed is stored.
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
	unsigned int number;	/* names it and seeds its content */
	uint64_t size;		/* bytes */
};

struct tree {
	uint64_t seed;
	uint64_t total;		/* bytes; as made, not as asked for */
	unsigned int files;
	struct tree_file *file;	/* in the order in which they are read, kind by kind */
	unsigned int first[TREE_KINDS + 1];	/* where a kind begins; the last: files */
};

/*
 * Plans `files` files. Sizes are close to log-normal between 4 and 512 KiB,
 * the median at 24 KiB; with a total (0: as they come) they are scaled to add
 * up to it exactly. Returns NULL or what is wrong; tree_free() releases *t.
 */
const char *tree_plan(struct tree *t, unsigned int files, uint64_t seed, uint64_t total);
void tree_free(struct tree *t);

/* Path below the application's folder, e.g. "lib/00017"; in a static buffer. */
const char *tree_path(const struct tree_file *f, char path[32]);
extern const char *const tree_folders[TREE_KINDS];

/* The whole plan as one line of text (a manifest), and back; NULL or what is wrong. */
void tree_print(const struct tree *t, char *text, unsigned long size);
const char *tree_parse(struct tree *t, const char *text);

#endif
