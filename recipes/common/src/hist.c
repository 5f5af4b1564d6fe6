// SPDX-License-Identifier: Apache-2.0
/* Log-linear histogram of times. */
#include "hist.h"

#define SUB (1u << HIST_BITS)

unsigned int hist_bucket(uint64_t value)
{
	unsigned int e;

	if (value < SUB)
		return (unsigned int)value;
	e = 63 - (unsigned int)__builtin_clzll(value);
	return ((e - HIST_BITS + 1) << HIST_BITS) + (unsigned int)(value >> (e - HIST_BITS)) % SUB;
}

uint64_t hist_upper(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < SUB)
		return bucket;
	shift = (bucket >> HIST_BITS) - 1;
	/* for the last bucket, the shifted value wraps to 0, so the result is 2^64 - 1 */
	return ((uint64_t)(SUB + bucket % SUB + 1) << shift) - 1;
}

void hist_add(struct hist *h, uint64_t value)
{
	if (!h->count || value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->count++;
	h->sum += value;
	h->buckets[hist_bucket(value)]++;
}

void hist_merge(struct hist *h, const struct hist *other)
{
	if (!other->count)
		return;
	if (!h->count || other->min < h->min)
		h->min = other->min;
	if (other->max > h->max)
		h->max = other->max;
	h->count += other->count;
	h->sum += other->sum;
	for (unsigned int i = 0; i < HIST_BUCKETS; i++)
		h->buckets[i] += other->buckets[i];
}

uint64_t hist_mean(const struct hist *h)
{
	return h->count ? h->sum / h->count : 0;
}

/* Returns count * per10000 / 10000, rounded up. The product does not overflow. */
static uint64_t rank_of(uint64_t count, unsigned int per10000)
{
	return count / 10000 * per10000 + (count % 10000 * per10000 + 9999) / 10000;
}

uint64_t hist_percentile(const struct hist *h, unsigned int per10000)
{
	uint64_t rank = rank_of(h->count, per10000), seen = 0, value;

	if (!h->count)
		return 0;
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		seen += h->buckets[i];
		if (!seen || seen < rank)
			continue;
		value = hist_upper(i);
		return value < h->max ? value : h->max;
	}
	return h->max;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

void hist_json(FILE *f, const char *name, const struct hist *h)
{
	static const struct {
		const char *name;
		unsigned int per10000;
	} shown[] = { { "p25", 2500 }, { "p50", 5000 },	 { "p75", 7500 },
		      { "p99", 9900 }, { "p999", 9990 }, { "p9999", 9999 } };

	fprintf(f, "\"%s_min_us\":%.1f,\"%s_avg_us\":%.1f", name, us(h->min), name,
		us(hist_mean(h)));
	for (unsigned int i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		fprintf(f, ",\"%s_%s_us\":%.1f", name, shown[i].name,
			us(hist_percentile(h, shown[i].per10000)));
	fprintf(f, ",\"%s_max_us\":%.1f", name, us(h->max));
}

void hist_json_buckets(FILE *f, const char *name, const struct hist *h)
{
	const char *separator = "";

	fprintf(f, ",\"%s_us\":[", name);
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		if (!h->buckets[i])
			continue;
		fprintf(f, "%s[%.3f,%llu]", separator, us(hist_upper(i)),
			(unsigned long long)h->buckets[i]);
		separator = ",";
	}
	fputc(']', f);
}
