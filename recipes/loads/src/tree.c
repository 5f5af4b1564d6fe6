// SPDX-License-Identifier: Apache-2.0
/* The files of a fake application. */
#include "tree.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/*
 * Version of the rules that make a plan from a seed. The manifest contains it. If you
 * change the rules, change the version, so that trees made by the old rules are refused.
 */
#define TREE_FORMAT "ek-appstart 1"

const char *const tree_folders[TREE_KINDS] = {
	[TREE_LIBRARY] = "lib",
	[TREE_CONFIG] = "etc",
	[TREE_ASSET] = "share",
};

/*
 * Draws the size of a file: 4 KiB × 2^x bytes, with x from 0 to 7. The sum of three
 * uniform random numbers is nearly normal. Its lower half is mapped to x from 0 to 2.6,
 * its upper half to x from 2.6 to 7, so the median size is 24 KiB. Integer arithmetic
 * gives the same result on every machine.
 */
static uint64_t draw_size(uint64_t *noise)
{
	uint64_t x = 0, fraction;

	for (int i = 0; i < 3; i++)
		x += noise_next(noise) >> 46;
	/* x is now from 0 to 2^19, with the middle at 2^18; after the mapping, 2^18 is one octave */
	x = x * 2 / 3;
	if (x < UINT64_C(1) << 18)
		x = x * 26 / 10;
	else
		x = (UINT64_C(26) << 18) / 10 + (x - (UINT64_C(1) << 18)) * 44 / 10;
	fraction = x & 0x3ffff;
	/* linear within an octave */
	return (TREE_MIN_FILE + (TREE_MIN_FILE * fraction >> 18)) << (x >> 18);
}

static uint64_t clamp(uint64_t size)
{
	return size < TREE_MIN_FILE ? TREE_MIN_FILE : size > TREE_MAX_FILE ? TREE_MAX_FILE : size;
}

static uint64_t sum(const struct tree *t)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < t->files; i++)
		bytes += t->file[i].size;
	return bytes;
}

/* scales the sizes so that they add up to total, which the limits of a size must allow */
static void scale(struct tree *t, uint64_t total)
{
	uint64_t have;

	/* clamp() changes the sum again, so scale several times */
	for (int round = 0; round < 8; round++) {
		have = sum(t);
		for (unsigned int i = 0; i < t->files; i++)
			t->file[i].size = clamp(
				(uint64_t)((unsigned __int128)t->file[i].size * total / have));
	}
	have = sum(t);
	/* then add the rest to the first files whose sizes can still change, or take it from them */
	for (unsigned int i = 0; have != total; i++) {
		struct tree_file *f = &t->file[i];
		uint64_t before = f->size;

		f->size = have < total		? clamp(before + total - have) :
			  before > have - total ? clamp(before - (have - total)) :
						  TREE_MIN_FILE;
		have = have - before + f->size;
	}
}

static int by_size(const void *a, const void *b)
{
	const struct tree_file *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* assigns a kind to each file by its size, groups the files by kind, and shuffles each group */
static void arrange(struct tree *t, uint64_t *noise)
{
	unsigned int configs = t->files * 3 / 10, libraries = t->files / 10;
	struct tree_file *sorted = t->file, *to;

	if (t->files >= 3) {
		configs = configs ? configs : 1;
		libraries = libraries ? libraries : 1;
	}
	qsort(sorted, t->files, sizeof(*sorted), by_size);
	for (unsigned int i = 0; i < t->files; i++)
		sorted[i].kind = i < configs		   ? TREE_CONFIG :
				 i >= t->files - libraries ? TREE_LIBRARY :
							     TREE_ASSET;
	to = calloc(t->files, sizeof(*to));
	if (!to)
		die("planning %u files: out of memory", t->files);
	t->file = to;
	for (unsigned int kind = 0, n = 0; kind < TREE_KINDS; kind++) {
		t->first[kind] = n;
		for (unsigned int i = 0; i < t->files; i++)
			if (sorted[i].kind == kind)
				to[n++] = sorted[i];
		/* Fisher-Yates shuffle */
		for (unsigned int i = n - t->first[kind]; i > 1; i--) {
			unsigned int j = (unsigned int)((noise_next(noise) >> 32) * i >> 32);
			struct tree_file swap = to[t->first[kind] + i - 1];

			to[t->first[kind] + i - 1] = to[t->first[kind] + j];
			to[t->first[kind] + j] = swap;
		}
	}
	t->first[TREE_KINDS] = t->files;
	free(sorted);
}

const char *tree_plan(struct tree *t, unsigned int files, uint64_t seed, uint64_t total)
{
	uint64_t noise = noise_seed(seed);

	memset(t, 0, sizeof(*t));
	if (!files || files > TREE_MAX_FILES)
		return "there must be 1 to 100000 files";
	if (total && (total < files * TREE_MIN_FILE || total > files * TREE_MAX_FILE))
		return "files of 4 to 512 KiB cannot add up to that total";
	t->seed = seed;
	t->files = files;
	t->file = calloc(files, sizeof(*t->file));
	if (!t->file)
		return "out of memory";
	for (unsigned int i = 0; i < files; i++) {
		t->file[i].number = i;
		t->file[i].size = clamp(draw_size(&noise));
	}
	if (total)
		scale(t, total);
	t->total = sum(t);
	arrange(t, &noise);
	return NULL;
}

void tree_free(struct tree *t)
{
	free(t->file);
	t->file = NULL;
}

const char *tree_path(const struct tree_file *f, char path[32])
{
	snprintf(path, 32, "%s/%05u", tree_folders[f->kind], f->number);
	return path;
}

void tree_print(const struct tree *t, char *text, unsigned long size)
{
	/* Print the actual total: it gives the same plan again, even if no total was given. */
	snprintf(text, size, TREE_FORMAT " files %u seed %llu total %llu\n", t->files,
		 (unsigned long long)t->seed, (unsigned long long)t->total);
}

const char *tree_parse(struct tree *t, const char *text)
{
	static const char wrong[] = "this is no manifest of ek-appstart prepare";
	unsigned long long seed, total;
	unsigned int files;
	char again[128];
	const char *bad;

	if (sscanf(text, TREE_FORMAT " files %u seed %llu total %llu", &files, &seed, &total) != 3)
		return wrong;
	bad = tree_plan(t, files, seed, total);
	if (bad)
		return bad;
	tree_print(t, again, sizeof(again));
	if (strcmp(again, text) != 0) {
		tree_free(t);
		return wrong;
	}
	return NULL;
}
