/* SPDX-License-Identifier: Apache-2.0 */
/* All channels of a configuration directory. */
#ifndef EKR_LOAD_H
#define EKR_LOAD_H

#include "channel.h"
#include "config.h"
#include "error.h"

/*
 * Reads DIR/recorder.conf, which may be missing, and DIR/channels.d in the order
 * of names. A bad channel is logged and keeps its error in @broken; -EINVAL and
 * others are of recorder.conf or of the directory. Returns the number of channels.
 */
int load_config(const char *dir, struct recorder_config *config, struct channel channels[CHANNELS_MAX],
		struct error *e);

#endif
