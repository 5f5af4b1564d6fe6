// SPDX-License-Identifier: Apache-2.0
/* Errors as sentences. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int set_error(struct error *e, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	e->code = code;
	return -code;
}

int set_errno(struct error *e, int code, const char *fmt, ...)
{
	char words[64];
	size_t used;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	used = strlen(e->text);
	/* GNU's strerror_r() returns the text, which need not be in the buffer */
	snprintf(e->text + used, sizeof(e->text) - used, ": %s",
		 strerror_r(code, words, sizeof(words)));
	e->code = code;
	return -code;
}
