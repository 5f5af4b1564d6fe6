// SPDX-License-Identifier: Apache-2.0
/* libek-reader: the public form of reader.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "ek_reader.h"
#include "reader.h"

_Static_assert((int)EK_RECORD == READER_RECORD && (int)EK_GAP == READER_GAP &&
		       (int)EK_MISSING == READER_MISSING && (int)EK_DAMAGE == READER_DAMAGE &&
		       (int)EK_TORN == READER_TORN && (int)EK_OVERWRITTEN == READER_OVERWRITTEN,
	       "the kinds are the same");

struct ek_reader {
	struct reader *reader;
	const char *name; /* of the channel, for messages */
	char *directory;
	char text[512]; /* of the last event */
	char error[256];
};

static int invalid(struct ek_reader *r, const char *what, const char *value, const char *why)
{
	snprintf(r->error, sizeof(r->error), "%s = '%.80s': %s", what, value, why);
	return -EINVAL;
}

static int take_options(struct ek_reader *r, const struct ek_reader_options *from,
			struct reader_options *to)
{
	struct ek_reader_options o = { 0 };
	const char *why;

	if (!from)
		return 0;
	if (from->size < sizeof(size_t)) {
		snprintf(r->error, sizeof(r->error),
			 "size of the options must be sizeof(struct ek_reader_options)");
		return -EINVAL;
	}
	memcpy(&o, from, from->size < sizeof(o) ? from->size : sizeof(o));
	why = o.from ? reader_parse_time(o.from, realtime_ns(), &to->range.from) : NULL;
	if (why)
		return invalid(r, "from", o.from, why);
	why = o.to ? reader_parse_time(o.to, realtime_ns(), &to->range.to) : NULL;
	if (why)
		return invalid(r, "to", o.to, why);
	why = o.sequences ? reader_parse_sequences(o.sequences, &to->range) : NULL;
	if (why)
		return invalid(r, "sequences", o.sequences, why);
	to->rate = o.rate;
	to->follow = o.follow;
	to->from_end = o.follow && o.from_end;
	return 0;
}

int ek_reader_open(struct ek_reader **reader, const char *directory,
		   const struct ek_reader_options *options)
{
	struct reader_options o = { .range = READER_ALL, .again_ns = READER_AGAIN };
	struct ek_reader *r = calloc(1, sizeof(*r));
	const char *slash;
	int ret;

	*reader = r;
	if (!r)
		return -ENOMEM;
	r->directory = strdup(directory);
	if (!r->directory)
		return -ENOMEM;
	slash = strrchr(r->directory, '/');
	r->name = slash && slash[1] ? slash + 1 : r->directory;
	ret = take_options(r, options, &o);
	if (ret)
		return ret;
	ret = reader_open(&r->reader, directory, &o);
	if (!ret && !reader_uses(r->reader)->count) {
		snprintf(r->error, sizeof(r->error), "%.200s: there are no segments of a recording",
			 directory);
		return -ENODATA;
	}
	if (ret)
		snprintf(r->error, sizeof(r->error), "%s", reader_error(r->reader));
	return ret;
}

int ek_reader_next(struct ek_reader *r, struct ek_event *e)
{
	struct reader_event event;
	int ret = r->reader ? reader_next(r->reader, &event) : -EINVAL;

	if (ret) {
		snprintf(r->error, sizeof(r->error), "%s",
			 r->reader && *reader_error(r->reader) ? reader_error(r->reader) :
								 strerror(-ret));
		return ret;
	}
	if (event.kind == READER_END)
		return 0;
	*e = (struct ek_event){
		.kind = (enum ek_event_kind)event.kind,
		.gap_reason = event.gap.reason,
		.lost = event.gap.count_lost,
		.sequence = event.sequence,
		.first = event.kind == READER_RECORD ? event.sequence : event.first,
		.monotonic_ns = event.monotonic_ns,
		.realtime_ns = event.realtime_ns,
		.acquired_ns = event.acquired_ns,
		.message = "",
	};
	if (event.kind == READER_RECORD) {
		e->payload = event.payload;
		e->length = event.length;
		return 1;
	}
	reader_sentence(r->text, sizeof(r->text), r->name, &event);
	e->message = r->text;
	return 1;
}

int ek_reader_wait(struct ek_reader *r, int timeout_ms)
{
	if (!r->reader)
		return -EINVAL;
	return reader_over(r->reader) ? -ESTALE : reader_wait(r->reader, timeout_ms, -1);
}

const char *ek_reader_gap_name(uint32_t reason)
{
	return reader_gap_name(reason);
}

const char *ek_reader_error(const struct ek_reader *r)
{
	return r ? r->error : "out of memory";
}

void ek_reader_close(struct ek_reader *r)
{
	if (!r)
		return;
	reader_close(r->reader);
	free(r->directory);
	free(r);
}
