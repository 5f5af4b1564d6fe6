/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that `ek-recorder bench` submits and recognizes. Every word of a record follows from its run
 * and its index. So `bench --check` detects a record that is torn, mixed up or of another run, also if its
 * CRC is valid.
 */
#ifndef EKR_BENCH_H
#define EKR_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define BENCH_MAGIC	UINT64_C(0x31484e42524b45)	/* "EKRBNH1" */
#define BENCH_RECORD_MIN 64u

/* The start of a record; noise follows. Host byte order: it is read where it was written. */
struct bench_head {
	uint64_t magic;
	uint64_t run;		/* a number that no other run has */
	uint64_t index;		/* in the run, from 0; lost records have one as well */
};

/* @record: @length bytes, at least BENCH_RECORD_MIN. */
void bench_fill(void *record, size_t length, uint64_t run, uint64_t index);
/* It is a complete record of bench; then *@head is its start. */
bool bench_holds(const void *record, size_t length, struct bench_head *head);

/*
 * Reads a channel that bench has written, and prints a report as JSON. 0: all records are valid and in
 * order; 1: some are not; 2: the channel cannot be read.
 */
int bench_check(const struct recorder_config *config, const char *channel);

#endif
