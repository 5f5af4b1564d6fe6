/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histogram of latencies in µs, log-linear with 8 buckets per power of two, as in
 * docs/reference/scheduler.md#histograms. The caller keeps two threads from using one at a time.
 */
#ifndef EKR_HIST_H
#define EKR_HIST_H

#include <stdint.h>

#define HIST_BUCKETS	200u

struct hist {
	uint64_t count;
	uint64_t max_us;
	uint64_t buckets[HIST_BUCKETS];
};

unsigned int hist_bucket(uint64_t us);
uint64_t hist_upper(unsigned int bucket);	/* greatest µs that the bucket takes; of the last, UINT64_MAX */
void hist_add(struct hist *h, uint64_t ns);
/* Upper bound in µs of what @per10000 of all stay below; 0 if there are none. */
uint64_t hist_percentile(const struct hist *h, unsigned int per10000);

#endif
