// SPDX-License-Identifier: Apache-2.0
/* Events of a reader as text. */
#include "reader.h"

#include <inttypes.h>
#include <string.h>

#include "text.h"

void reader_tell(FILE *to, const char *channel, const struct reader_event *e)
{
	char when[READER_RFC3339];

	fprintf(to, "%s: %s: ", channel, reader_kind_name(e->kind));
	switch (e->kind) {
	case READER_GAP:
		reader_format_time(e->realtime_ns, when);
		if (e->gap.count_lost)
			fprintf(to, "%" PRIu32 "%s records lost, %" PRIu64 "..%" PRIu64,
				e->gap.count_lost,
				e->gap.count_lost == UINT32_MAX ? " or more" : "", e->first,
				e->sequence);
		else
			fprintf(to, "an unknown number of records lost, at %" PRIu64, e->sequence);
		fprintf(to, " (%s), recorded at %s\n", reader_gap_name(e->gap.reason), when);
		return;
	case READER_MISSING:
		fprintf(to, "records %" PRIu64 "..%" PRIu64 "%s%s\n", e->first, e->sequence,
			*e->reason ? ": " : ", for an unknown reason", e->reason);
		return;
	default:
		fprintf(to, "%s at %" PRIu64, e->file, e->offset);
		if (e->extent)
			fprintf(to, ", %" PRIu64 " bytes", e->extent);
		fprintf(to, ": %s\n", e->reason);
	}
}

void reader_tell_json(FILE *to, const struct reader_event *e)
{
	char when[READER_RFC3339];

	fprintf(to, "{\"kind\":\"%s\"", reader_kind_name(e->kind));
	switch (e->kind) {
	case READER_GAP:
		reader_format_time(e->realtime_ns, when);
		fprintf(to, ",\"reason\":\"%s\",\"lost\":", reader_gap_name(e->gap.reason));
		if (e->gap.count_lost)
			fprintf(to, "%" PRIu32, e->gap.count_lost);
		else
			fputs("null", to);
		fprintf(to,
			",\"first\":%" PRIu64 ",\"last\":%" PRIu64
			",\"realtime\":\"%s\",\"monotonic_ns\":%" PRIu64,
			e->first, e->sequence, when, e->monotonic_ns);
		break;
	case READER_MISSING:
		fprintf(to, ",\"first\":%" PRIu64 ",\"last\":%" PRIu64 ",\"reason\":", e->first,
			e->sequence);
		text_json(to, e->reason);
		break;
	default:
		fputs(",\"reason\":", to);
		text_json(to, e->reason);
	}
	fprintf(to,
		",\"file\":\"%s\",\"generation\":%" PRIu64 ",\"offset\":%" PRIu64
		",\"extent\":%" PRIu64 "}",
		e->file, e->generation, e->offset, e->extent);
}

void reader_sentence(char *to, size_t room, const char *channel, const struct reader_event *e)
{
	FILE *text = fmemopen(to, room, "w");

	*to = '\0';
	if (!text)
		return;
	reader_tell(text, channel, e);
	fclose(text);
	to[room - 1] = '\0';
	to[strcspn(to, "\n")] = '\0';
}
