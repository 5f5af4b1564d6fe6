/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: DIR/recorder.conf, and one DIR/channels.d/NAME.conf for each
 * channel. Lines of KEY = VALUE, with blanks before them or not; '#' begins a
 * comment line. README.md has the reference. An error names file, key, value and why.
 */
#ifndef EKR_CONFIG_H
#define EKR_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "format.h"

#define CONFIG_DIR	"/etc/ek-recorder"
#define CHANNELS_MAX	64u
#define SEGMENTS_MAX	4096u	/* of a channel: each costs an open file */
#define CACHED_SEGMENT_MAX (UINT64_C(128) << 20)	/* bytes; see recover.h */
#define CONFIG_PATH	108u	/* as long as the address of a Unix socket */

struct recorder_config {
	char directory[CONFIG_PATH];	/* of all channels */
	char socket[CONFIG_PATH];
	char group[32];			/* that may write; "": only the user of the recorder */
	char statistics[CONFIG_PATH];	/* file; "": none */
	uint64_t priority;		/* SCHED_FIFO, 0: none */
	bool mountpoint;		/* directory must be one */
};

struct channel_config {
	char name[EKR_NAME_MAX + 1];
	uint64_t record_size;		/* largest payload, bytes */
	uint64_t period_ns;		/* 0: none */
	uint64_t window_ns;		/* durability */
	uint64_t retain;		/* bytes of the medium */
	uint64_t retain_ns;		/* 0: no limit but that of bytes */
	uint64_t segment;		/* bytes, whole blocks */
	uint64_t writeout;		/* bytes of a batch, whole blocks, room for a gap and a record */
	uint64_t buffer;		/* bytes */
	uint64_t segments;		/* files that make up retain, and one more */
	char fifo[CONFIG_PATH];		/* "": none */
	bool fifo_lines;		/* its records are lines, else of record_size bytes */
	bool cached;			/* by the page cache, else direct */
	bool ring;			/* writers may use one */
};

/* Makes DIR/NAME; -ENAMETOOLONG. */
int config_file(char path[PATH_MAX], const char *dir, const char *name, struct error *e);
/* -ENOENT: no such file, then it has the defaults; -EINVAL, and errors of open() and read(). */
int config_recorder(const char *path, struct recorder_config *c, struct error *e);
/* -EINVAL, and errors of open() and read(). The name is that of the file. */
int config_channel(const char *path, struct channel_config *c, struct error *e);
bool config_name_ok(const char *name);

#endif
