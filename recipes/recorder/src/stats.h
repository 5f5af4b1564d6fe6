/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of all channels as JSON; docs/reference/recorder.md has the fields. */
#ifndef EKR_STATS_H
#define EKR_STATS_H

#include <stdint.h>
#include <stdio.h>

#include "channel.h"
#include "error.h"

/*
 * The histograms' buckets in the statistics: 8 per power of two
 * (docs/reference/scheduler.md#histograms). The last one has no upper end.
 */
#define STATS_BUCKETS	200u
unsigned int stats_bucket(uint64_t us);

/* @outdated: why the configuration in the files is not in force; "": it is. */
void stats_print(FILE *to, struct channel *channels, unsigned int count, const char *outdated);
/* To @path, by way of a temporary file: a reader sees the old statistics or the new ones. */
int stats_write(const char *path, struct channel *channels, unsigned int count,
		const char *outdated, struct error *e);
/* "recording", "preparing" or "failed"; *@reason: why not, or what is missing; code 0: nothing. */
const char *stats_state(struct channel *c, struct error *reason);

#endif
