// SPDX-License-Identifier: Apache-2.0
/* Where a channel's recording ended. */
#include "recover.h"

#include <errno.h>
#include <string.h>

#include "batch.h"
#include "config.h"
#include "segment.h"

/* After a break, how far a later batch is looked for: one begins there, even if one is damaged. */
#define LOOK_AHEAD (2u * EKR_BATCH_MAX)
/* A longer segment is read whole only if nothing near the end of its last use counts: see near_end(). */
#define READ_WHOLE (4u * LOOK_AHEAD)

struct scan {
	struct medium_bytes *bytes;
	const struct medium_use *use;
	uint64_t below; /* sequences from here on are void */
	bool broken;	/* before the last batch */
	bool other;	/* there are records that are no gap of a restart */
	bool any;	/* there is a record that counts; then: */
	uint64_t last_sequence;
	uint64_t end; /* where the last batch ends, bytes */
	uint64_t batches;
};

static void take(struct scan *s, const struct medium_walk *w, const struct medium_record *r)
{
	if (r->head.sequence < s->below) {
		s->any = true;
		s->last_sequence = r->head.sequence;
		s->other |= !medium_is_restart(r);
	}
	s->end = whole_blocks(w->offset);
	s->batches = w->batch + 1;
}

/* The batch in which the walk met a break. Where a batch may have ended, it is the next one. */
static uint64_t broken_batch(const struct medium_walk *w, enum medium_step step)
{
	if (!w->in_batch)
		return 0;
	return step == MEDIUM_NONE && w->offset % EKR_BLOCK == 0 ? w->batch + 1 : w->batch;
}

/* Takes the records that count, from the block at @from on. */
static void scan_from(struct scan *s, uint64_t from)
{
	struct medium_walk w = { .bytes = s->bytes, .head = &s->use->head, .offset = from };
	struct medium_record r;
	bool in_break = false;
	uint64_t batch = 0; /* in which the break is; records of a later one count again */

	s->end = from;
	/* what precedes @from is more than a start leaves */
	s->other = from != EKR_BLOCK;
	for (;;) {
		enum medium_step step = medium_next(&w, &r);
		const bool counts = step == MEDIUM_RECORD && !r.hole;

		if (counts && !(in_break && r.head.batch <= batch)) {
			s->broken |= in_break || r.cut;
			in_break = false;
			take(s, &w, &r);
			continue;
		}
		if (!counts && !in_break) {
			in_break = true;
			batch = broken_batch(&w, step);
		}
		if (step != MEDIUM_NONE)
			continue;
		from = whole_blocks(w.offset);
		w.offset = medium_find(&w, from, from + LOOK_AHEAD, batch + 1, UINT64_MAX, NULL);
		if (!w.offset)
			return;
	}
}

/*
 * Where to begin in a long segment, so that only its end is read: at a record after which at most
 * LOOK_AHEAD of this use follows. Batches are written in order and leave no space between them, so
 * whether one begins in a stretch shows on which side of it the end is. Of 1 GiB at most 96 MiB are
 * read.
 */
static uint64_t near_end(const struct scan *s)
{
	const struct medium_walk w = { .bytes = s->bytes, .head = &s->use->head };
	uint64_t begin = EKR_BLOCK, end = medium_end(s->bytes, &s->use->head);

	if (end <= READ_WHOLE)
		return begin;
	while (end - begin > LOOK_AHEAD) {
		uint64_t middle = begin + whole_blocks((end - begin) / 2);
		uint64_t to = end - middle < LOOK_AHEAD ? end : middle + LOOK_AHEAD;
		uint64_t found = medium_find(&w, middle, to, 0, UINT64_MAX, NULL);

		if (found)
			begin = found;
		else
			end = middle;
	}
	return begin;
}

static struct scan scan_segment(struct medium_bytes *b, const struct medium_use *use,
				uint64_t below)
{
	const struct scan fresh = { .bytes = b, .use = use, .below = below };
	struct scan s = fresh;
	uint64_t from;

	from = near_end(&s);
	scan_from(&s, from);
	if (s.any || from == EKR_BLOCK)
		return s;
	/* all of the end is void: what counts precedes it */
	s = fresh;
	scan_from(&s, EKR_BLOCK);
	return s;
}

static struct medium_bytes *open_segment(void *ctx, const struct medium_use *use)
{
	struct medium_bytes *b = ctx;

	medium_forget(b);
	b->place = use->place;
	b->size = use->size;
	return b;
}

static int read_heads(struct medium_bytes *b, const char *name, struct recovered *r,
		      struct error *e)
{
	for (size_t i = 0; i < r->count; i++) {
		struct medium_use *u = &r->segments[i];

		medium_head(open_segment(b, u), u);
		/* never taken for a damaged one: what it holds would be overwritten */
		if (u->damage && !strcmp(u->damage, SEGMENT_OLD))
			return set_error(e, EINVAL, "segment %s: %s", u->file, u->damage);
		if (u->valid && strcmp(u->head.name, name) != 0)
			return set_error(e, EINVAL, "segment %s belongs to channel '%s'; remove it",
					 u->file, u->head.name);
	}
	return 0;
}

static int judge(struct medium_bytes *b, struct recovered *r, struct error *e)
{
	bool unknown = false;

	medium_judge(r->segments, r->count, r->id, EKR_BLOCK + LOOK_AHEAD, open_segment, b);
	for (size_t i = 0; i < r->count; i++) {
		const struct medium_use *u = &r->segments[i];

		if (u->damage && !strcmp(u->damage, MEDIUM_FOREIGN))
			return set_error(e, EINVAL,
					 "segment %s belongs to another recording; remove it",
					 u->file);
		if (u->used)
			r->newest = u;
		if (u->valid)
			r->valid = u;
		unknown |= !u->valid && !u->used;
	}
	r->generation = r->newest ? r->newest->head.generation : 0;
	/* it may have been the newest, and some of its records may exist nevertheless */
	if (unknown)
		r->generation += SEGMENTS_MAX;
	return 0;
}

int recover(struct medium_bytes *b, const char *name, struct recovered *r, struct error *e)
{
	struct recovered found = { .segments = r->segments, .count = r->count };
	const size_t ahead = b->ahead;
	uint64_t below = UINT64_MAX;
	struct scan s = { 0 };
	int ret;

	memcpy(found.id, r->id, sizeof(found.id));
	*r = found;
	b->ahead = EKR_BLOCK;
	ret = read_heads(b, name, r, e);
	b->ahead = ahead;
	if (!ret)
		ret = judge(b, r, e);
	if (ret || !r->newest)
		return ret;
	/* of a segment perhaps only the head was written: then the one before it has the last record */
	for (size_t i = r->count; i-- > 0 && !s.any;) {
		const struct medium_use *u = &r->segments[i];

		if (!u->used)
			continue;
		open_segment(b, u);
		s = scan_segment(b, u, below);
		below = u->head.first_sequence;
		if (u != r->newest)
			continue;
		r->end = s.end;
		r->batches = s.batches;
		r->damaged = s.broken;
		/* of a segment without a head it is not known what else it held */
		r->only_restarts = !s.other && u->valid;
	}
	r->any = s.any;
	r->last_sequence = s.last_sequence;
	r->next_sequence = r->newest->head.first_sequence;
	if (!r->only_restarts && r->any && r->last_sequence >= r->next_sequence)
		r->next_sequence = r->last_sequence + 1;
	return 0;
}
