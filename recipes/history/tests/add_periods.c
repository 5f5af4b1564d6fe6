// SPDX-License-Identifier: Apache-2.0
/*
 * Adds periods for test_rows.py, with the address sanitizer. Each period and each array is a block of memory of its own,
 * so that the sanitizer notices each access beyond its end.
 *
 * Standard input: for each period its length (uint32_t), then the period. Standard output: a line for each period with
 * the bytes and the requests of all its flows, or -1.
 */
#include "history.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIRECTIONS = 2, FLOW = 7 + EK_HISTORY_BUCKETS, STALLS = 3, MIX = 1 + EK_HISTORY_BUCKETS };
enum { BANDS = EK_HISTORY_BUCKETS / EK_HISTORY_BAND };

static void *zeros(size_t count, size_t size)
{
	void *found = calloc(count ? count : 1, size);

	if (!found)
		exit(1);
	return found;
}

static uint64_t *numbers(uint64_t count)
{
	return zeros(count, sizeof(uint64_t));
}

static uint64_t *positions(uint64_t count)
{
	uint64_t *found = numbers(count);

	for (uint64_t i = 0; i < count; i++)
		found[i] = count - 1 - i;
	return found;
}

static bool all_zero(const uint64_t *values, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (values[i])
			return false;
	return true;
}

static void add(const unsigned char *period, uint32_t length)
{
	struct ek_history_sums sums = { 0 };
	struct ek_history_head head;
	struct ek_history_spot spot;
	uint64_t *apps, *devices, flows, size = 0, ios = 0, shown = 0;

	if (ek_history_head(period, length, &head)) {
		puts("-1");
		return;
	}
	sums.apps = head.apps;
	sums.devices = head.devices;
	flows = head.apps * head.devices * DIRECTIONS;
	apps = positions(head.apps);
	devices = positions(head.devices);
	sums.flows = numbers(flows * FLOW);
	sums.blame = numbers(head.apps * head.apps);
	sums.stalls = numbers(head.apps * STALLS);
	sums.mix = numbers(head.apps * MIX);
	spot = (struct ek_history_spot){
		numbers(head.apps),
		numbers(head.apps),
		numbers(BANDS),
		zeros(head.apps, BANDS * sizeof(uint64_t)),
		0,
		0,
		0,
	};
	if (ek_history_add(period, length, apps, devices, &sums)) {
		/* nothing may be left of a part of it */
		if (!all_zero(sums.flows, flows * FLOW) ||
		    !all_zero(sums.blame, head.apps * head.apps) ||
		    !all_zero(sums.stalls, head.apps * STALLS) ||
		    !all_zero(sums.mix, head.apps * MIX))
			exit(1);
		puts("-1");
	} else {
		for (uint64_t i = 0; i < flows; i++) {
			size += sums.flows[i * FLOW + 1];
			ios += sums.flows[i * FLOW + 2];
		}
		ek_history_spot(sums.mix, head.apps, 99, &spot);
		for (uint64_t i = 0; i < head.apps; i++)
			shown += spot.bytes[i];
		if (shown != size || !all_zero(sums.mix, head.apps * MIX))
			exit(1);
		printf("%" PRIu64 " %" PRIu64 "\n", size, ios);
	}
	free(apps);
	free(devices);
	free(sums.flows);
	free(sums.blame);
	free(sums.stalls);
	free(sums.mix);
	free(spot.bytes);
	free(spot.buckets);
	free(spot.whole);
	free(spot.bands);
}

int main(void)
{
	uint32_t length;

	while (fread(&length, sizeof(length), 1, stdin)) {
		unsigned char *period = zeros(length, 1);

		if (fread(period, 1, length, stdin) != length)
			return 1;
		add(period, length);
		free(period);
	}
	return 0;
}
