/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that ek-recorder bench submits and knows again: every word of one
 * follows from the run and the index in it, so that a record that is torn, mixed
 * up or of another run is seen whatever its CRC says.
 */
#ifndef EKR_BENCH_H
#define EKR_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define BENCH_MAGIC	UINT64_C(0x31484e42524b45)	/* "EKRBNH1" */
#define BENCH_RECORD_MIN 64u

/* What a record begins with; then noise. Host byte order: it is read where it was written. */
struct bench_head {
	uint64_t magic;
	uint64_t run;		/* any number that no other run has */
	uint64_t index;		/* in the run, from 0; one more for each record that was lost, too */
};

/* @record: @length bytes, at least BENCH_RECORD_MIN. */
void bench_fill(void *record, size_t length, uint64_t run, uint64_t index);
/* It is a record of bench, whole; then *@head is its. */
bool bench_holds(const void *record, size_t length, struct bench_head *head);

/*
 * Read a channel that bench has written, and print what was found as JSON.
 * 0: all records hold and are in order, 1: not, 2: it cannot be read.
 */
int bench_check(const struct recorder_config *config, const char *channel);

#endif
