// SPDX-License-Identifier: Apache-2.0
/* Records as CSV. */
#include "csv.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "text.h"

/* Bytes of the UTF-8 character at @c (RFC 3629); 0: it is not valid UTF-8. */
static size_t utf8(const unsigned char *c, size_t left)
{
	size_t length = *c < 0x80 ? 1 :
			*c < 0xc2 ? 0 :
			*c < 0xe0 ? 2 :
			*c < 0xf0 ? 3 :
			*c < 0xf5 ? 4 :
				    0;

	if (!length || length > left)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	/* no overlong forms, no surrogates, nothing above U+10FFFF */
	if ((*c == 0xe0 && c[1] < 0xa0) || (*c == 0xed && c[1] > 0x9f) ||
	    (*c == 0xf0 && c[1] < 0x90) || (*c == 0xf4 && c[1] > 0x8f))
		return 0;
	return length;
}

static void text(FILE *to, const unsigned char *from, size_t length)
{
	putc('"', to);
	while (length) {
		size_t n = utf8(from, length);

		if (n == 1 && (*from == '"' || *from == '\\'))
			fprintf(to, "%c%c", *from, *from);
		else if (!n || (*from < ' ' && *from != '\t' && *from != '\n') || *from == 0x7f)
			fprintf(to, "\\x%02x", *from);
		else
			fwrite(from, 1, n, to);
		n = n ? n : 1;
		from += n;
		length -= n;
	}
	putc('"', to);
}

static int state(FILE *to)
{
	return ferror(to) ? -(errno ? errno : EIO) : 0;
}

int csv_begin(FILE *to)
{
	errno = 0;
	fputs("kind,sequence,realtime,monotonic_ns,acquired_ns,length,payload\n", to);
	return state(to);
}

int csv_event(FILE *to, enum csv_payload payload, const struct reader_event *e)
{
	char when[READER_RFC3339], why[sizeof(e->reason) + 64];

	errno = 0;
	fprintf(to, "%s,", reader_kind_name(e->kind));
	if (e->kind == READER_RECORD || e->kind == READER_GAP) {
		reader_format_time(e->realtime_ns, when);
		fprintf(to, "%" PRIu64 ",%s,%" PRIu64 ",", e->sequence, when, e->monotonic_ns);
	}
	switch (e->kind) {
	case READER_RECORD:
		fprintf(to, "%" PRIu64 ",%" PRIu32 ",", e->acquired_ns, e->length);
		if (payload == CSV_HEX)
			text_hex(to, e->payload, e->length);
		else if (payload == CSV_TEXT)
			text(to, e->payload, e->length);
		break;
	case READER_GAP:
		putc(',', to);
		if (e->gap.count_lost)
			fprintf(to, "%" PRIu32, e->gap.count_lost);
		fprintf(to, ",%s", reader_gap_name(e->gap.reason));
		break;
	case READER_MISSING:
		fprintf(to, "%" PRIu64 ",,,,%" PRIu64 ",", e->sequence, e->sequence - e->first + 1);
		text(to, (const unsigned char *)e->reason, strlen(e->reason));
		break;
	default:
		snprintf(why, sizeof(why), "%s at %" PRIu64 ": %s", e->file, e->offset, e->reason);
		fputs(",,,,,", to);
		text(to, (const unsigned char *)why, strlen(why));
	}
	putc('\n', to);
	return state(to);
}
