// SPDX-License-Identifier: Apache-2.0
/* The records of ek-recorder bench. */
#include <string.h>

#include "bench.h"

/* SplitMix64: neighbours have nothing in common, and a medium that compresses finds nothing to do */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

void bench_fill(void *record, size_t length, uint64_t run, uint64_t index)
{
	const struct bench_head head = { BENCH_MAGIC, run, index };
	const uint64_t seed = mix(run) ^ mix(index);
	unsigned char *to = record;

	memcpy(to, &head, sizeof(head));
	for (size_t at = sizeof(head); at < length; at += sizeof(uint64_t)) {
		uint64_t word = mix(seed + at);
		size_t left = length - at;

		memcpy(to + at, &word, left < sizeof(word) ? left : sizeof(word));
	}
}

bool bench_holds(const void *record, size_t length, struct bench_head *head)
{
	const unsigned char *from = record;
	uint64_t seed;

	if (length < BENCH_RECORD_MIN)
		return false;
	memcpy(head, from, sizeof(*head));
	if (head->magic != BENCH_MAGIC)
		return false;
	seed = mix(head->run) ^ mix(head->index);
	for (size_t at = sizeof(*head); at < length; at += sizeof(uint64_t)) {
		uint64_t word = mix(seed + at);
		size_t left = length - at;

		if (memcmp(from + at, &word, left < sizeof(word) ? left : sizeof(word)) != 0)
			return false;
	}
	return true;
}
