/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A medium in memory for tests of store and recovery: segments of one channel,
 * with a volatile cache in front of each sector, that can lose its power, and can
 * be told to fail.
 */
#ifndef TEST_MEDIUM_H
#define TEST_MEDIUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recover.h"
#include "store.h"

#define MEDIUM_SEGMENTS	6u
#define MEDIUM_SIZE	(12u * EKR_BLOCK)
#define SECTOR		512u

struct test_medium {
	unsigned char cache[MEDIUM_SEGMENTS][MEDIUM_SIZE];	/* what a read gives */
	unsigned char flash[MEDIUM_SEGMENTS][MEDIUM_SIZE];	/* what is there after a power cut */
	unsigned int fail;		/* of 100 steps, those that fail */
	bool unreadable[MEDIUM_SEGMENTS];
};

/* Does a chain, or of it @steps steps: then the power is cut. Returns its result. */
int test_medium_write(struct test_medium *m, const struct store_write *w, unsigned int steps);
/* Of what was not flushed, each sector is there or not. */
void test_medium_cut(struct test_medium *m);
struct medium test_medium_read(struct test_medium *m);
/* Heads of segments that were never used. */
void test_medium_make(struct test_medium *m, const char *name, const uint8_t id[16]);

#endif
