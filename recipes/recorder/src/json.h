/* SPDX-License-Identifier: Apache-2.0 */
/* Text as JSON. */
#ifndef EKR_JSON_H
#define EKR_JSON_H

#include <stdio.h>

/*
 * @text in quotes. Bytes that are not ASCII are taken for Latin-1: the name of a file may be no UTF-8,
 * and would make all of the output invalid.
 */
static inline void json_string(FILE *to, const char *text)
{
	fputc('"', to);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(to, "\\%c", *c);
		else if (*c < ' ' || *c > '~')
			fprintf(to, "\\u%04x", *c);
		else
			fputc(*c, to);
	}
	fputc('"', to);
}

#endif
