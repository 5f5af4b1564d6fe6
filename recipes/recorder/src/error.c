// SPDX-License-Identifier: Apache-2.0
/* Errors as sentences, and messages to the journal or a terminal. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

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

static void say(const char *level, const char *fmt, va_list ap)
{
	char words[480], line[512];
	int length;

	vsnprintf(words, sizeof(words), fmt, ap);
	if (getenv("JOURNAL_STREAM"))
		length = snprintf(line, sizeof(line), "%s%s\n", level, words);
	else
		length = snprintf(line, sizeof(line), "%s: %s\n", program_invocation_short_name,
				  words);
	if (length >= (int)sizeof(line))
		length = sizeof(line) - 1;
	/*
	 * One call, so that lines of several threads do not mix. send() does not wait for the journal: its
	 * medium may hang while the recorder goes on.
	 */
	if (send(STDERR_FILENO, line, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	    errno == ENOTSOCK)
		(void)!write(STDERR_FILENO, line, (size_t)length);
}

#define LOG(name, level)                \
	void name(const char *fmt, ...) \
	{                               \
		va_list ap;             \
                                        \
		va_start(ap, fmt);      \
		say(level, fmt, ap);    \
		va_end(ap);             \
	}
LOG(log_error, SD_ERR)
LOG(log_warning, SD_WARNING)
LOG(log_info, SD_INFO)
#undef LOG
