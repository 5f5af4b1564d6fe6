/* SPDX-License-Identifier: Apache-2.0 */
/* How a recording continues where an earlier one ended. */
#ifndef EKR_OPENING_H
#define EKR_OPENING_H

#include "channel.h"
#include "error.h"
#include "found.h"

/*
 * At a start: recording continues where it ended, with a gap `restart` if it was not shut down
 * cleanly. Sets up the channel's intake and store.
 */
int opening_begin(struct channel *c, struct found *f, struct error *e);
/*
 * While recording, if the channel's name leads to another directory: it is used if it holds this
 * recording, such as a medium that was mounted again, or nothing. -EINVAL: another recording,
 * which is not touched.
 */
int opening_return(struct channel *c, struct found *f, struct error *e);
/* Puts the clean-shutdown marker back, if there was one: nothing has been recorded. */
int opening_leave(struct channel *c, struct error *e);

#endif
