/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: DIR/recorder.conf, and one DIR/channels.d/NAME.conf for each channel. Lines of
 * KEY = VALUE, with or without whitespace before them; '#' begins a comment line.
 * docs/reference/recorder.md lists the keys. An error names file, key, value and reason.
 */
#ifndef EKR_CONFIG_H
#define EKR_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "about.h"
#include "error.h"
#include "format.h"

#define CONFIG_DIR	"/etc/ek-recorder"
#define CHANNELS_MAX	64u
#define SEGMENTS_MAX	4096u	/* of a channel; each is an open file */
#define CONFIG_PATH	108u	/* as long as the address of a Unix socket */
#define CONFIG_WRITERS	16u	/* of a channel, at a time */
#define CONFIG_GROUP	32u
#define CONFIG_UNSET	"/"	/* a group that is not configured: no group has this name */
#define CONFIG_NO_GROUP	((gid_t)-1)

struct recorder_config {
	char directory[CONFIG_PATH];	/* that has the directories of all channels */
	char socket[CONFIG_PATH];
	char group[CONFIG_GROUP];	/* of channels that name none; "": only the user of the recorder */
	char statistics[CONFIG_PATH];	/* file; "": none */
	uint64_t priority;		/* SCHED_FIFO, 0: none */
	bool mountpoint;		/* the directory must be a mount point */
};

struct channel_config {
	char name[EKR_NAME_MAX + 1];
	uint64_t record_size;		/* largest payload, bytes */
	uint64_t period_ns;		/* 0: none */
	uint64_t window_ns;		/* durability window */
	uint64_t retain;		/* bytes on the medium */
	uint64_t retain_ns;		/* 0: no limit of time */
	uint64_t keep;			/* bytes that incidents may keep in addition to retain */
	uint64_t segment;		/* bytes, whole blocks */
	uint64_t writeout;		/* bytes of a batch: whole blocks, with space for a gap and a record */
	uint64_t buffer;		/* bytes */
	uint64_t segments;		/* files that make up retain, plus one */
	bool ring;			/* writers may use a ring */
	uint64_t writers;		/* at a time */
	char write_group[CONFIG_GROUP];	/* CONFIG_UNSET; "": only the recorder's own user */
	char read_group[CONFIG_GROUP];
	bool write_all, read_all;	/* every user may write, read */
	struct about about;		/* of payloads, for exports; without an id */
	char schema[CONFIG_PATH];	/* file of their schema; "": none */
	gid_t write_gid, read_gid;	/* CONFIG_NO_GROUP: none; set by access_resolve() */
};

/* Joins DIR/NAME; -ENAMETOOLONG. */
int config_file(char path[PATH_MAX], const char *dir, const char *name, struct error *e);
/* -ENOENT: there is no such file, and *@c has the defaults; -EINVAL, and errors of open() and read(). */
int config_recorder(const char *path, struct recorder_config *c, struct error *e);
/*
 * -EINVAL, and errors of open() and read(). The file's name is that of the channel. Sets every byte, so that two
 * configurations can be compared.
 */
int config_channel(const char *path, struct channel_config *c, struct error *e);

#endif
