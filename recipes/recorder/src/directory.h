/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a channel, in the directory of all channels. */
#ifndef EKR_DIRECTORY_H
#define EKR_DIRECTORY_H

#include <stdbool.h>
#include <sys/stat.h>

#include "channel.h"
#include "config.h"
#include "error.h"

bool directory_same(const struct stat *a, const struct stat *b);
/*
 * Opens and locks the directory of a channel; with @create, what is missing is created. -ENODEV: nothing is
 * mounted where a mount point is demanded; -EBUSY: another recorder uses it.
 */
int directory_open(const struct recorder_config *config, struct channel *c, bool create, struct error *e);
/* Also of a channel whose directory is not open. */
void directory_close(struct channel *c);
/* -EROFS: what can be read but not written is left as it is, and tried again. */
int directory_writable(const struct channel *c, struct error *e);
/* The channel's name leads to another directory than c->directory, or to none. */
bool directory_moved(const struct recorder_config *config, const struct channel *c);

#endif
