// SPDX-License-Identifier: Apache-2.0
/* Histogram of latencies. */
#include "hist.h"

unsigned int hist_bucket(uint64_t us)
{
	unsigned int e, bucket;

	if (us < 8)
		return (unsigned int)us;
	e = 63 - (unsigned int)__builtin_clzll(us);
	bucket = (e - 2) * 8 + (unsigned int)(us >> (e - 3) & 7);
	return bucket < HIST_BUCKETS ? bucket : HIST_BUCKETS - 1;
}

uint64_t hist_upper(unsigned int bucket)
{
	unsigned int e;

	if (bucket < 8)
		return bucket;
	if (bucket >= HIST_BUCKETS - 1)
		return UINT64_MAX;
	e = bucket / 8 + 2;
	return ((uint64_t)(8 + bucket % 8 + 1) << (e - 3)) - 1;
}

void hist_add(struct hist *h, uint64_t ns)
{
	uint64_t us = ns / 1000;

	h->count++;
	if (us > h->max_us)
		h->max_us = us;
	h->buckets[hist_bucket(us)]++;
}

uint64_t hist_percentile(const struct hist *h, unsigned int per10000)
{
	uint64_t rank = h->count / 10000 * per10000 + (h->count % 10000 * per10000 + 9999) / 10000;
	uint64_t seen = 0;

	for (unsigned int i = 0; i < HIST_BUCKETS && h->count; i++) {
		uint64_t upper = hist_upper(i);

		seen += h->buckets[i];
		if (h->buckets[i] && seen >= rank)
			return upper < h->max_us ? upper : h->max_us;
	}
	return h->max_us;
}
