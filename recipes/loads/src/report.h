/* SPDX-License-Identifier: Apache-2.0 */
/* A file with a program's counters, replaced each second while it runs. */
#ifndef EK_REPORT_H
#define EK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct report {
	const char *path;	/* NULL: nobody asked for one */
	uint64_t tick;		/* when the next one is due */
	bool failed;		/* the last one could not be written */
};

/* Writes the first one; if that fails, the program ends. */
void report_begin(struct report *r, const char *path, const char *text, uint64_t now);
/* Is one due? Asks for the next a second later. */
bool report_due(struct report *r, uint64_t now);
/* Writes one; a failure (the disk is full) is said once and does not end the program. */
void report_write(struct report *r, const char *text);

/*
 * Replaces path by text with one rename, so that a reader sees the old or the
 * new text whole. Returns 0 or -errno.
 */
int replace_file(const char *path, const char *text);

#endif
