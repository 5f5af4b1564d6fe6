// SPDX-License-Identifier: Apache-2.0
/* Events of a reader as text; times and sequences as people write them. */
#include "reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "../../common/src/units.h"
#include "clock.h"
#include "text.h"

#define SECOND ((int64_t)NSEC_PER_SEC)

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

/* --- times and sequences ----------------------------------------------------- */

static bool digits(const char **text, int count, int *value)
{
	*value = 0;
	for (; count; count--, (*text)++) {
		if (!isdigit((unsigned char)**text))
			return false;
		*value = *value * 10 + (**text - '0');
	}
	return true;
}

static bool sign(const char **text, const char *which)
{
	if (!**text || !strchr(which, **text))
		return false;
	(*text)++;
	return true;
}

static bool parse_rfc3339(const char *c, int64_t *ns)
{
	int year, month, day, hour, minute, second, zone_hour = 0, zone_minute = 0;
	int64_t fraction = 0, scale = SECOND, seconds;
	struct tm tm = { 0 };
	bool west = false;
	__int128 sum;

	if (!digits(&c, 4, &year) || !sign(&c, "-") || !digits(&c, 2, &month) || !sign(&c, "-") ||
	    !digits(&c, 2, &day) || !sign(&c, "Tt ") || !digits(&c, 2, &hour) || !sign(&c, ":") ||
	    !digits(&c, 2, &minute) || !sign(&c, ":") || !digits(&c, 2, &second))
		return false;
	if (sign(&c, ".")) {
		if (!isdigit((unsigned char)*c))
			return false;
		for (; isdigit((unsigned char)*c); c++) {
			scale /= 10;
			fraction += scale * (*c - '0');
		}
	}
	if (!sign(&c, "Zz")) {
		west = *c == '-';
		if (!sign(&c, "+-") || !digits(&c, 2, &zone_hour) || !sign(&c, ":") ||
		    !digits(&c, 2, &zone_minute) || zone_hour > 23 || zone_minute > 59)
			return false;
	}
	if (*c || month < 1 || month > 12 || hour > 23 || minute > 59 || second > 60)
		return false;
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	tm.tm_mday = day;
	seconds = timegm(&tm);
	/* timegm() makes a day that the month does not have one of the next month */
	if (tm.tm_mon != month - 1 || tm.tm_mday != day)
		return false;
	seconds += hour * 3600 + minute * 60 + second;
	seconds -= (west ? -1 : 1) * (zone_hour * 3600 + zone_minute * 60);
	sum = (__int128)seconds * SECOND + fraction;
	if (sum < INT64_MIN || sum > INT64_MAX)
		return false;
	*ns = (int64_t)sum;
	return true;
}

const char *reader_parse_time(const char *text, int64_t now, struct reader_time *time)
{
	uint64_t span;

	*time = (struct reader_time){ .set = true, .ns = now };
	if (!strcmp(text, "now"))
		return NULL;
	if (*text == '-' && parse_duration(text + 1, &span)) {
		if (__builtin_sub_overflow(now, (int64_t)span, &time->ns))
			return "is too long ago";
		return NULL;
	}
	if (!strncmp(text, "boot+", 5) && parse_duration(text + 5, &span)) {
		time->monotonic = true;
		time->ns = (int64_t)span;
		return NULL;
	}
	if (parse_rfc3339(text, &time->ns))
		return NULL;
	return "is not a time such as 2026-11-21T10:00:00Z, -5min, boot+90s or now";
}

/* without digits, the value stays as it is */
static bool take_digits(const char **text, uint64_t *value)
{
	uint64_t n = 0;

	if (!isdigit((unsigned char)**text))
		return true;
	for (; isdigit((unsigned char)**text); (*text)++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, **text - '0', &n))
			return false;
	*value = n;
	return true;
}

const char *reader_parse_sequences(const char *text, struct reader_range *range)
{
	static const char why[] = "is not a range: use A..B, A.., ..B or A";
	const char *c = text;

	range->first = 0;
	range->last = UINT64_MAX;
	if (!take_digits(&c, &range->first))
		return why;
	if (!*c && c != text) {
		range->last = range->first;
		return NULL;
	}
	if (strncmp(c, "..", 2) != 0 || strlen(text) == 2)
		return why;
	c += 2;
	if (!take_digits(&c, &range->last) || *c)
		return why;
	return range->first > range->last ? "ends before it begins" : NULL;
}

void reader_format_time(int64_t ns, char text[READER_RFC3339])
{
	int64_t seconds = ns / SECOND, rest = ns % SECOND;
	time_t t;
	struct tm tm;

	if (rest < 0) {
		rest += SECOND;
		seconds--;
	}
	t = (time_t)seconds;
	gmtime_r(&t, &tm);
	snprintf(text, READER_RFC3339, "%04u-%02u-%02uT%02u:%02u:%02u.%09uZ",
		 (unsigned int)(tm.tm_year + 1900) % 10000, (unsigned int)(tm.tm_mon + 1) % 100,
		 (unsigned int)tm.tm_mday % 100, (unsigned int)tm.tm_hour % 100,
		 (unsigned int)tm.tm_min % 100, (unsigned int)tm.tm_sec % 100, (unsigned int)rest);
}
