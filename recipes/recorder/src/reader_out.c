// SPDX-License-Identifier: Apache-2.0
/* Records as `cat` and `follow` print them. */
#include "reader_out.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "text.h"

static void frame(FILE *to, const char *channel, const struct reader_event *e)
{
	struct reader_frame f = {
		.kind = e->kind,
		.sequence = e->sequence,
		.first = e->kind == READER_RECORD ? e->sequence : e->first,
		.monotonic_ns = e->monotonic_ns,
		.realtime_ns = e->realtime_ns,
	};
	char words[512];

	if (e->kind == READER_RECORD) {
		f.length = e->length;
		fwrite(&f, sizeof(f), 1, to);
		fwrite(e->payload, 1, e->length, to);
		return;
	}
	reader_sentence(words, sizeof(words), channel, e);
	f.length = (uint32_t)strlen(words);
	fwrite(&f, sizeof(f), 1, to);
	fwrite(words, 1, f.length, to);
}

int reader_out(FILE *to, enum reader_form form, const char *channel, const struct reader_event *e)
{
	char when[READER_RFC3339];

	errno = 0;
	if (e->kind != READER_RECORD && form != READER_FRAMED)
		reader_tell(stderr, channel, e);
	if (form == READER_FRAMED) {
		frame(to, channel, e);
	} else if (e->kind == READER_RECORD) {
		if (form == READER_HEX) {
			reader_format_time(e->realtime_ns, when);
			fprintf(to, "%" PRIu64 " %s ", e->sequence, when);
			text_hex(to, e->payload, e->length);
		} else {
			fwrite(e->payload, 1, e->length, to);
		}
		if (form != READER_PAYLOAD)
			fputc('\n', to);
	}
	return ferror(to) ? -(errno ? errno : EIO) : 0;
}
