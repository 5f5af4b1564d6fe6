/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-linear histogram of times: 32 buckets per power of two. A percentile is
 * reported as the upper end of its bucket. So it is never below the true value,
 * and at most 1/32 above it. Minimum, maximum, count and sum are exact.
 */
#ifndef EK_HIST_H
#define EK_HIST_H

#include <stdint.h>
#include <stdio.h>

#define HIST_BITS	5	/* there are 2^HIST_BITS buckets per power of two */
/* one bucket for each value below 2^HIST_BITS, and 2^HIST_BITS for each power of two above */
#define HIST_BUCKETS	((64 - HIST_BITS + 1) << HIST_BITS)

struct hist {
	uint64_t count;
	uint64_t sum;
	uint64_t min;
	uint64_t max;
	uint64_t buckets[HIST_BUCKETS];
};

/* A struct hist of zeros is an empty histogram. */
void hist_add(struct hist *h, uint64_t value);
/* adds all values of other to h */
void hist_merge(struct hist *h, const struct hist *other);

unsigned int hist_bucket(uint64_t value);
/* the largest value that belongs to the bucket */
uint64_t hist_upper(unsigned int bucket);

/*
 * Returns a percentile (nearest rank): the smallest value such that at least
 * per10000 / 10000 of all values are not larger. It is rounded up to the end of its
 * bucket, but not above max. Returns 0 if the histogram is empty.
 */
uint64_t hist_percentile(const struct hist *h, unsigned int per10000);
/* 0 if the histogram is empty */
uint64_t hist_mean(const struct hist *h);

/*
 * Prints members of a JSON object, without braces: NAME_min_us, NAME_avg_us, and so on
 * with p25, p50, p75, p99, p999 (99.9 %), p9999 (99.99 %) and max. The values of h
 * must be in ns; the printed values are in us.
 */
void hist_json(FILE *f, const char *name, const struct hist *h);
/* Prints ,"NAME_us":[[upper end of bucket in us, count], ...] without empty buckets. */
void hist_json_buckets(FILE *f, const char *name, const struct hist *h);

#endif
