/* SPDX-License-Identifier: Apache-2.0 */
/* The running recorder: its channels and its threads. Of the main thread. */
#ifndef EKR_RECORDER_H
#define EKR_RECORDER_H

#include <stdbool.h>

#include "channel.h"
#include "config.h"
#include "error.h"
#include "ingest.h"
#include "prepare.h"
#include "storage.h"

struct recorder {
	const char *dir;		/* of the configuration */
	struct recorder_config config;
	struct error outdated;		/* why the files, as they are now, are not in force; code 0: they are */
	struct channel channels[CHANNELS_MAX];	/* places; a channel stays in its own */
	struct prepare prepare;
	struct storage storage;
	struct ingest ingest;
	int listener;
	bool own_socket;		/* the listener was created here, and is removed */
};

#endif
