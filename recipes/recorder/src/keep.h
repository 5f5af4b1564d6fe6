/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protecting a range of a recording from being overwritten. The segments of the range move to
 * NAME/kept/INCIDENT, and the recorder creates others in their place. Readers find them there as
 * parts of the recording. NAME/kept/INCIDENT/next says where the recording went on, for a start
 * after the newest segment was moved.
 */
#ifndef EKR_KEEP_H
#define EKR_KEEP_H

#include <stdint.h>

#include "channel.h"
#include "error.h"

#define KEEP_NEXT "next"

/*
 * Moves the segments with records from @from_ns to @to_ns (real time, both included). Returns their
 * number. -EEXIST: there is an incident of that name; -ENOENT: no segment has such records; -EDQUOT:
 * more than the channel's `keep` would be kept; -ENOSPC: fewer than two segments would remain.
 * Of the prepare thread; takes long.
 */
int keep_range(struct channel *c, const char *incident, int64_t from_ns, int64_t to_ns,
	       struct error *e);

/* The greatest values in the notes of all incidents of a channel: all below were given already. */
void keep_notes(int directory, uint64_t *generation, uint64_t *next_sequence);

#endif
