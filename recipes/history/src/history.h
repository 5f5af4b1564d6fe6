/* SPDX-License-Identifier: Apache-2.0 */
/* The part of evenkeel-history that is in C. Only the Python package evenkeel_history calls it. */
#ifndef HISTORY_H
#define HISTORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * By how much the I/O in TEXT has grown since the text OLD, which was accepted before or is empty. If counters of a
 * device have started again at 0, its new values are the growth.
 *
 * VALUES gets a record for each device and direction that has grown:
 *   offset of the device's name in TEXT, its length, direction (0: read, 1: write), bytes, requests, waiting time and
 *   time at the gate (us), number of requests that waited at the gate, time in the device (us), number n of used
 *   latency buckets, then the n buckets, then the n counts in them
 * Returns how many values that are. If there are more than ROOM, only the first ROOM are written: call again with more
 * room. Returns -1 if TEXT has a wrong format, or a number of 2^64 or more.
 */
int64_t ek_history_grow(const char *old, size_t old_length, const char *text, size_t length, uint64_t *values,
			size_t room);

/*
 * Divide the waiting time of each app among the COUNT apps. WAITED and SERVED: waiting time and device time of each
 * app; ELAPSED_US: the length of the interval. All are in us. Row i of the matrix PARTS gets the parts of WAITED[i].
 * If two apps have the same right to 1 us more, the first one gets it.
 *
 * Returns 0, or -1 if there is no memory, or if a time or the sum of SERVED is 2^42 us (50 days) or more.
 */
int ek_history_attribute(const uint64_t *waited, const uint64_t *served, size_t count, uint64_t elapsed_us,
			 uint64_t *parts);

#endif /* HISTORY_H */
