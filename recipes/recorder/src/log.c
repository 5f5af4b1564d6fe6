// SPDX-License-Identifier: Apache-2.0
/* Messages to the journal or a terminal. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <systemd/sd-daemon.h>

static void say(const char *level, const char *fmt, va_list ap)
{
	char line[512];

	vsnprintf(line, sizeof(line), fmt, ap);
	/* one call, so that lines of several threads do not mix */
	if (getenv("JOURNAL_STREAM"))
		fprintf(stderr, "%s%s\n", level, line);
	else
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
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
