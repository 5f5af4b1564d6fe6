/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake medium in memory for tests of store and recovery. It holds the segments of one
 * channel and has a volatile cache. It can lose its power, and it can be made to fail.
 */
#ifndef TEST_FAKE_MEDIUM_H
#define TEST_FAKE_MEDIUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recover.h"
#include "store.h"

#define MEDIUM_SEGMENTS	6u
#define MEDIUM_SIZE	(12u * EKR_BLOCK)
#define SECTOR		512u

struct test_medium {
	unsigned char cache[MEDIUM_SEGMENTS][MEDIUM_SIZE];	/* what a read returns */
	unsigned char flash[MEDIUM_SEGMENTS][MEDIUM_SIZE];	/* what remains after a power cut */
	unsigned int fail;		/* percentage of steps that fail */
	bool unreadable[MEDIUM_SEGMENTS];
};

/* Performs a chain of I/O, at most @steps steps of it. Returns its result; -ECANCELED after @steps. */
int test_medium_write(struct test_medium *m, const struct store_write *w, unsigned int steps);
/* Cuts the power: each sector that was not flushed is kept or lost at random. */
void test_medium_cut(struct test_medium *m);
/* The reader of @m to pass to recover(). All readers share one buffer. */
struct medium_bytes test_medium_bytes(struct test_medium *m);
/* Fills in what recover() needs of each segment: file, index, place and size. */
void test_medium_list(struct medium_use segments[MEDIUM_SEGMENTS]);
/* The segment with this index in a sorted list. */
const struct medium_use *test_medium_at(const struct medium_use *segments, uint32_t index);
/* Creates segments that were never used. */
void test_medium_make(struct test_medium *m, const char *name, const uint8_t id[16]);

#endif
