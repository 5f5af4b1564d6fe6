/* SPDX-License-Identifier: Apache-2.0 */
/* All channels of a configuration directory. */
#ifndef EKR_LOAD_H
#define EKR_LOAD_H

#include "channel.h"
#include "config.h"
#include "error.h"

/*
 * Reads DIR/recorder.conf, which may be missing, and the files in DIR/channels.d in the order of their
 * names. Returns the number of channels. An invalid channel is logged and has its error in `broken`. A
 * negative errno: recorder.conf is invalid, or the directory cannot be read.
 */
int load_config(const char *dir, struct recorder_config *config, struct channel channels[CHANNELS_MAX],
		struct error *e);

#endif
