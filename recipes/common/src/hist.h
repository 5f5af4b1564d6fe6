/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-linear histogram of times: 32 buckets per power of two. So a percentile is
 * never below the true value, and at most 1/32 above it. Minimum, maximum, count
 * and sum are exact. Two histograms can be added.
 */
#ifndef EK_HIST_H
#define EK_HIST_H

#include <stdint.h>
#include <stdio.h>

#define HIST_BITS	5
/* values below 2^BITS have a bucket each, then 2^BITS buckets per power of two */
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
void hist_merge(struct hist *h, const struct hist *other);

unsigned int hist_bucket(uint64_t value);
/* the largest value that belongs to the bucket */
uint64_t hist_upper(unsigned int bucket);

/*
 * The smallest value that at least per10000 / 10000 of all values do not exceed,
 * rounded up to the end of its bucket, but at most max. 0 if the histogram is empty.
 */
uint64_t hist_percentile(const struct hist *h, unsigned int per10000);
uint64_t hist_mean(const struct hist *h);

/*
 * Prints members of a JSON object, without braces: NAME_min_us, _avg_us, _p25_us,
 * _p50_us, _p75_us, _p99_us, _p999_us, _p9999_us and _max_us. Values of h are in ns.
 */
void hist_json(FILE *f, const char *name, const struct hist *h);
/* prints ,"NAME_us":[[upper end in us, count], ...] without empty buckets */
void hist_json_buckets(FILE *f, const char *name, const struct hist *h);

#endif
