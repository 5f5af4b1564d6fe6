/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: writes a program's counters to a file, once a second. */
#ifndef EK_REPORT_H
#define EK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct report {
	const char *path;	/* NULL: no report is wanted */
	uint64_t tick;		/* when the next report is due */
	bool failed;		/* the last report could not be written */
};

/* Writes the first report. If this fails, the program ends. */
void report_begin(struct report *r, const char *path, const char *text, uint64_t now);
/*
 * Whether a report is due at now. If it is, the next one becomes due at the next whole second
 * after report_begin().
 */
bool report_due(struct report *r, uint64_t now);
/*
 * Writes a report. A failure, such as a full disk, does not end the program. It prints
 * a warning, but only one for several failures in a row.
 */
void report_write(struct report *r, const char *text);

/*
 * Replaces the contents of path with text by a rename, so that readers see either
 * the old text or the new one. Returns 0 or -errno.
 */
int replace_file(const char *path, const char *text);

#endif
