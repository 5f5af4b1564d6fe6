/* SPDX-License-Identifier: Apache-2.0 */
/* Text as JSON, and bytes as hexadecimal digits. Errors stay in the stream. */
#ifndef EKR_TEXT_H
#define EKR_TEXT_H

#include <stddef.h>
#include <stdio.h>

/*
 * @text in quotes. Bytes that are not ASCII are taken for Latin-1: the name of a file may be no UTF-8,
 * and would make all of the output invalid.
 */
static inline void text_json(FILE *to, const char *text)
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

/* In lower case. */
static inline void text_hex(FILE *to, const void *bytes, size_t length)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *from = bytes;

	for (size_t i = 0; i < length; i++) {
		putc_unlocked(digits[from[i] >> 4], to);
		putc_unlocked(digits[from[i] & 15], to);
	}
}

#endif
