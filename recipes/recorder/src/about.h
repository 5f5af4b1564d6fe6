/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NAME/channel: what a channel is, as lines of KEY VALUE. Readers of a recording have no
 * configuration, so the recorder leaves here what they need:
 *
 *	id HEX			channel_id of the segments; for segments whose head is damaged
 *	encoding NAME		of the payloads, for an export
 *	schema_name NAME	of the schema NAME/schema, for an export
 *	schema_encoding NAME
 *
 * Everything but the id is optional. The recorder writes the file when it opens the channel, if
 * it differs. The bytes are not trusted: a value that is too long or has control characters is
 * ignored.
 */
#ifndef EKR_ABOUT_H
#define EKR_ABOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

#define ABOUT_VALUE 64u		/* bytes of a value, with the zero */
#define ABOUT_FILE "channel"
#define ABOUT_SCHEMA "schema"
#define ABOUT_SCHEMA_MAX (1u << 20)

struct about {
	bool known;		/* the file has an id */
	uint8_t id[16];
	char encoding[ABOUT_VALUE];
	char schema_name[ABOUT_VALUE];
	char schema_encoding[ABOUT_VALUE];
};

/* A name that a channel or an incident may have (format.h). */
bool about_name_ok(const char *name);
/* From the bytes of a file, which may be anything; @text ends with a zero. */
void about_parse(struct about *about, const char *text);
/* From the file in @directory; what it does not have is empty, and the id is zeros. */
void about_read(int directory, struct about *about);
/*
 * Durably, unless the files have it already. @schema: path of the schema's file, which is copied;
 * "": none.
 */
int about_write(int directory, const struct about *about, const char *schema, struct error *e);

#endif
