// SPDX-License-Identifier: Apache-2.0
/*
 * Who slows whom: divides the waiting time of each app among the apps that used the device meanwhile.
 *
 * evenkeel_history/attribution.py has the reasons and the guarantees.
 */
#include "history.h"

#include <stdlib.h>
#include <string.h>

/* A product of three times is less than 2^126. */
#define MOST_US (UINT64_C(1) << 42)

__extension__ typedef unsigned __int128 u128;

/* Divide the waiting time TIME of the app VICTIM into PARTS. TOTAL: the sum of SERVED. RESTS: work space. */
static void divide(size_t victim, uint64_t time, const uint64_t *served, size_t count,
		   uint64_t total, uint64_t elapsed_us, uint64_t *parts, u128 *rests)
{
	uint64_t own = served[victim], busy = total < elapsed_us ? total : elapsed_us;
	/* device times have an error of up to 1/16 */
	uint64_t less = busy + (total > elapsed_us ? own / 16 : 0);
	/* the waiting time in which the app had more than one request */
	uint64_t excess = time + own > less ? time + own - less : 0;
	uint64_t left = time;
	u128 others, whole;
	size_t i, most;

	if (own == total) {
		parts[victim] = time;
		return;
	}
	if (excess > time)
		excess = time;
	/* each part is a fraction with the denominator WHOLE */
	others = (u128)time * total - (u128)excess * own;
	whole = (u128)total * (total - own);
	for (i = 0; i < count; i++) {
		u128 part = i == victim ? (u128)excess * own * (total - own) : others * served[i];

		parts[i] = (uint64_t)(part / whole);
		rests[i] = part % whole;
		left -= parts[i];
	}
	/* The sum of the rests is left * whole, so more than LEFT of them are not 0. */
	for (; left; left--) {
		for (most = 0, i = 1; i < count; i++)
			if (rests[i] > rests[most])
				most = i;
		parts[most]++;
		rests[most] = 0;
	}
}

int ek_history_attribute(const uint64_t *waited, const uint64_t *served, size_t count,
			 uint64_t elapsed_us, uint64_t *parts)
{
	uint64_t total = 0;
	u128 *rests;
	size_t i;

	if (!count)
		return 0;
	for (i = 0; i < count; i++) {
		if (waited[i] >= MOST_US || served[i] >= MOST_US - total)
			return -1;
		total += served[i];
	}
	rests = calloc(count, sizeof(*rests));
	if (!rests)
		return -1;
	memset(parts, 0, count * count * sizeof(*parts));
	for (i = 0; i < count; i++)
		if (waited[i])
			divide(i, waited[i], served, count, total, elapsed_us, parts + i * count,
			       rests);
	free(rests);
	return 0;
}
