/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-linear histogram of times: 32 buckets per power of two, so that a
 * percentile is at most 1/32 above the true value and never below it. Least,
 * greatest, count and sum are exact. Two histograms add up to that of both.
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

/* A hist of zeros is empty and ready. */
void hist_add(struct hist *h, uint64_t value);
void hist_merge(struct hist *h, const struct hist *other);

unsigned int hist_bucket(uint64_t value);
/* largest value that falls into the bucket */
uint64_t hist_upper(unsigned int bucket);

/*
 * The least value that at least per10000 / 10000 of the values do not exceed,
 * rounded up to its bucket's end, within [min, max]; 0 if empty.
 */
uint64_t hist_percentile(const struct hist *h, unsigned int per10000);
uint64_t hist_mean(const struct hist *h);

/*
 * Members of a JSON object, without braces, of times in ns, as NAME_min_us, _avg_us,
 * _p25_us, _p50_us, _p75_us, _p99_us, _p999_us, _p9999_us and _max_us.
 */
void hist_json(FILE *f, const char *name, const struct hist *h);
/* ,"NAME_us":[[upper end in us, count], ...] of buckets that are not empty */
void hist_json_buckets(FILE *f, const char *name, const struct hist *h);

#endif
