// SPDX-License-Identifier: Apache-2.0
/* ek-recorder bench --check: are the records on the medium those that bench submitted? */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "reader.h"

struct check {
	uint64_t runs;
	uint64_t wrong; /* records that bench did not submit, or not at this place */
	bool any;	/* there was a record; of the last one: */
	struct bench_head at;
	uint64_t monotonic_ns;
	bool reported; /* since then a loss was reported */
};

static void take(struct check *c, const struct reader_event *e)
{
	struct bench_head head;
	bool ok;

	if (!bench_holds(e->payload, e->length, &head)) {
		c->wrong++;
		return;
	}
	/* the first retained record may have any index */
	ok = !c->any || c->reported ||
	     (head.run == c->at.run ? head.index == c->at.index + 1 : !head.index);
	/* a lost record is never returned later */
	ok = ok && (!c->any || head.run != c->at.run || head.index > c->at.index);
	c->wrong += !ok;
	c->runs += !c->any || head.run != c->at.run;
	c->any = true;
	c->reported = false;
	c->at = head;
	c->monotonic_ns = e->monotonic_ns;
}

static void print(const struct check *c, const struct reader_counts *n)
{
	printf("{\"records\":%" PRIu64 ",\"runs\":%" PRIu64 ",\"wrong\":%" PRIu64
	       ",\"gaps\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"missing\":%" PRIu64
	       ",\"damage\":%" PRIu64 ",\"torn\":%" PRIu64 ",\"last_run\":%" PRIu64
	       ",\"last_index\":%" PRIu64 ",\"last_monotonic_ns\":%" PRIu64 "}\n",
	       n->of[READER_RECORD], c->runs, c->wrong, n->of[READER_GAP], n->lost, n->missing,
	       n->of[READER_DAMAGE], n->of[READER_TORN], c->at.run, c->at.index, c->monotonic_ns);
}

int bench_check(const struct recorder_config *config, const char *channel)
{
	const struct reader_options options = { .range = READER_ALL };
	struct check check = { 0 };
	struct reader_event e;
	struct reader *r;
	char path[sizeof(config->directory) + EKR_NAME_MAX + 2];
	int err;

	snprintf(path, sizeof(path), "%s/%.*s", config->directory, (int)EKR_NAME_MAX, channel);
	err = reader_open(&r, path, &options);
	while (!err && !(err = reader_next(r, &e)) && e.kind != READER_END) {
		if (e.kind == READER_RECORD)
			take(&check, &e);
		else
			check.reported = true;
	}
	if (err)
		fprintf(stderr, "ek-recorder bench: %s\n",
			r && *reader_error(r) ? reader_error(r) : strerror(-err));
	else
		print(&check, reader_counts(r));
	if (!err)
		err = check.wrong || reader_counts(r)->of[READER_DAMAGE] ||
		      reader_counts(r)->of[READER_MISSING];
	reader_close(r);
	if (fflush(stdout))
		return 2;
	return err < 0 ? 2 : err;
}
