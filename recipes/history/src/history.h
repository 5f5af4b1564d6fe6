/* SPDX-License-Identifier: Apache-2.0 */
/* The part of evenkeel-history that is in C. Only the Python package evenkeel_history calls it. */
#ifndef HISTORY_H
#define HISTORY_H

#include <stddef.h>
#include <stdint.h>

/* buckets of a histogram of latencies, as in evenkeel_common/iostat.py */
#define EK_HISTORY_BUCKETS 200
/* the most parts of a waiting time in a line, as in evenkeel_common/iostat.py */
#define EK_HISTORY_PARTS 128
/* what ek_history_grow() compares */
#define EK_HISTORY_FLOWS 1
#define EK_HISTORY_WAITS 2
/* buckets per band of a heat map, as in evenkeel_history/lanes.py */
#define EK_HISTORY_BAND 4

/*
 * By how much the I/O in TEXT has grown since the text OLD, which was accepted before or is empty. If counters of a
 * device have started again at 0, its new values are the growth.
 *
 * WHAT: EK_HISTORY_FLOWS, EK_HISTORY_WAITS, or both. The format of other values is not checked.
 *
 * With EK_HISTORY_FLOWS, VALUES gets a record for each device and direction that has grown:
 *   offset of the device's name in TEXT, its length, direction (0: read, 1: write), bytes, requests, waiting time and
 *   time at the gate (us), number of requests that waited at the gate, time in the device (us), number n of used
 *   latency buckets, then the n buckets, then the n counts in them
 * With EK_HISTORY_WAITS, a device for which the cgroup has waited gets another record:
 *   offset of the device's name in TEXT, its length, 2, waiting time (us), number n of cgroups for which it has waited,
 *   then the n cgroups, then the n times (us)
 * Returns how many values that are. If there are more than ROOM, only the first ROOM are written: call again with more
 * room. Returns -1 if TEXT has a wrong format, or a number of 2^64 or more.
 */
int64_t ek_history_grow(const char *old, size_t old_length, const char *text, size_t length, unsigned int what,
			uint64_t *values, size_t room);

/*
 * Functions for a stored period: the msgpack form of Period in evenkeel_history/period.py. PERIOD may have any bytes.
 */

/* what a period begins with */
struct ek_history_head {
	uint64_t ms;
	/* offsets of the lists of apps and devices, and of what follows them */
	uint64_t names, flows;
	/* number of apps and devices */
	uint64_t apps, devices;
};

/* Returns 0, or -1 if PERIOD has a wrong format. Then HEAD is undefined. */
int ek_history_head(const void *period, size_t size, struct ek_history_head *head);

/*
 * The sums to which periods are added. The arrays have room for APPS apps and DEVICES devices, and begin with zeros.
 * An app or device is its position in the sums.
 */
struct ek_history_sums {
	uint64_t apps, devices;
	/* for each app, device and direction: number of periods that have it, the six scalars, the buckets */
	uint64_t *flows;
	/* for each app that waited, the time in us for each app that used the device */
	uint64_t *blame;
	/* for each app: number of periods that have it, stalls, their duration in ms */
	uint64_t *stalls;
	/* for each app, all devices and directions together: bytes, the buckets */
	uint64_t *mix;
};

/*
 * Add PERIOD to SUMS. APPS and DEVICES have the position of each app and device of PERIOD. Returns 0. Returns -1 if
 * PERIOD has a wrong format, or a position is too large; then SUMS has not changed.
 */
int ek_history_add(const void *period, size_t size, const uint64_t *apps, const uint64_t *devices,
		   const struct ek_history_sums *sums);

/* what a chart shows of the COUNT apps of a mix */
struct ek_history_spot {
	/* for each app: bytes; bucket of the percentile of its latencies, or EK_HISTORY_BUCKETS without requests */
	uint64_t *bytes, *buckets;
	/* for each band: the requests of all apps */
	uint64_t *whole;
	/* for each app: its requests by band, from the band FIRST on, in LENGTH bytes. There is room for all bands. */
	unsigned char *bands;
	/* a count has WIDTH bytes: 4, or 8 if all apps together have 2^32 requests or more; least significant first */
	uint64_t first, width, length;
};

/* Fill SPOT from MIX, and set MIX to zeros. PERCENT: 1 to 100. Without requests, `length` is 0. */
void ek_history_spot(uint64_t *mix, size_t count, unsigned int percent, struct ek_history_spot *spot);

#endif /* HISTORY_H */
