// SPDX-License-Identifier: Apache-2.0
/* Messages to the journal or a terminal. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

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
