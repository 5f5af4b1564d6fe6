// SPDX-License-Identifier: Apache-2.0
/* The parser of a medium. */
#include "medium.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "segment.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the parser takes the bytes as they are");

/* How far after a record of an earlier use one of the last use is looked for: it has two batches there. */
#define RESCUE_AHEAD (2 * EKR_BATCH_MAX)

/* --- the bytes of a segment ---------------------------------------------------------- */

void medium_forget(struct medium_bytes *b)
{
	b->held = 0;
}

static uint64_t block_of(uint64_t offset)
{
	return offset / EKR_BLOCK * EKR_BLOCK;
}

/* Bytes that the next read asks for, of which @least are needed. */
static size_t read_length(const struct medium_bytes *b, size_t least, bool careful)
{
	size_t want = careful || least > b->ahead ? least : b->ahead;

	return want < b->room - b->held ? want : b->room - b->held;
}

static int fill(struct medium_bytes *b, size_t needed)
{
	bool careful = false;

	while (b->held < needed) {
		const size_t least = whole_blocks(needed - b->held);
		const size_t want = read_length(b, least, careful);
		ssize_t n =
			b->read(b->ctx, b->place, b->buffer + b->held, want, b->begin + b->held);

		/* perhaps for a bad block after the bytes that are needed */
		if (n < 0 && want > least && !careful) {
			careful = true;
			continue;
		}
		if (n < 0)
			return (int)n;
		careful = false;
		b->held += (size_t)n;
		/* the file was truncated since its size was read */
		if (((size_t)n % EKR_BLOCK || !n) && b->held < needed) {
			b->held = 0;
			return -ENODATA;
		}
	}
	return 0;
}

int medium_bytes_at(struct medium_bytes *b, uint64_t offset, size_t length,
		    const unsigned char **bytes)
{
	const uint64_t begin = block_of(offset);
	int err;

	if (length > EKR_RECORD_MAX + EKR_BLOCK)
		return -EINVAL;
	if (offset > b->size || length > b->size - offset)
		return -ENODATA;
	if (!b->held || begin < b->begin || begin >= b->begin + b->held) {
		b->begin = begin;
		b->held = 0;
	} else if (offset + length > b->begin + b->held) {
		/* keeps the blocks from here on, and reads what comes after them */
		const size_t gone = (size_t)(begin - b->begin);

		b->held -= gone;
		memmove(b->buffer, b->buffer + gone, b->held);
		b->begin = begin;
	}
	err = fill(b, (size_t)(offset - b->begin) + length);
	*bytes = b->buffer + (offset - b->begin);
	return err;
}

/* --- heads ------------------------------------------------------------------------------ */

int medium_head(struct medium_bytes *b, struct medium_use *use)
{
	const unsigned char *block;
	int err = medium_bytes_at(b, 0, EKR_BLOCK, &block);

	use->size = b->size;
	use->head = (struct ekr_segment_head){ 0 };
	use->valid = use->used = false;
	use->damage = err == -ENODATA ? "head: the file is shorter than a block" :
		      err	      ? "head: cannot be read" :
					segment_head_problem(block);
	if (use->damage)
		return err == -ENODATA ? 0 : err;
	memcpy(&use->head, block, sizeof(use->head));
	if (use->head.index != use->index) {
		/* a copy: its records are those of the other file */
		use->damage = "head: its index does not match the name of the file";
		return 0;
	}
	use->valid = true;
	use->used = use->head.generation > 0;
	if (use->head.size != use->size)
		use->damage = use->head.size > use->size ?
				      "the file is shorter than its head says" :
				      "the file is longer than its head says";
	return 0;
}

/*
 * Without a head the records still tell their generation. The last use is the one with the greatest
 * generation. Records of an earlier use may precede it if its first blocks were lost.
 */
static void rescue(struct medium_bytes *b, struct medium_use *use, const uint8_t id[16],
		   uint64_t most)
{
	struct ekr_segment_head *h = &use->head;
	uint64_t until = most < use->size ? most : use->size;
	struct medium_record r;

	*h = (struct ekr_segment_head){ .index = use->index,
					.size = block_of(use->size),
					.record_size = EKR_RECORD_MAX };
	memcpy(h->channel_id, id, sizeof(h->channel_id));
	for (uint64_t at = EKR_BLOCK; at < until && !(b->stop && *b->stop); at += EKR_BLOCK) {
		medium_look(b, h, at, &r);
		/* by this head each valid record is newer until one was found */
		if (r.verdict != MEDIUM_NEWER)
			continue;
		if (!use->used)
			until = use->size - at > RESCUE_AHEAD ? at + RESCUE_AHEAD : use->size;
		use->used = true;
		h->generation = r.head.generation;
		h->first_sequence = r.first;
		h->realtime_ns = r.head.realtime_ns;
		h->monotonic_ns = r.head.monotonic_ns;
	}
	if (!use->used)
		*h = (struct ekr_segment_head){ 0 };
}

static int by_generation(const void *a, const void *b)
{
	const struct medium_use *x = a, *y = b;

	if (x->head.generation != y->head.generation)
		return x->head.generation < y->head.generation ? -1 : 1;
	/* a head that is valid before one that was made up */
	if (x->valid != y->valid)
		return x->valid ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

void medium_sort(struct medium_use *uses, size_t count)
{
	if (count)
		qsort(uses, count, sizeof(*uses), by_generation);
}

/* the valid head of the greatest generation */
static const struct medium_use *newest_valid(const struct medium_use *uses, size_t count)
{
	const struct medium_use *newest = NULL;

	for (size_t i = 0; i < count; i++)
		if (uses[i].valid &&
		    (!newest || uses[i].head.generation >= newest->head.generation))
			newest = &uses[i];
	return newest;
}

/* segments of another channel, and copies */
static void doubt(struct medium_use *uses, size_t count)
{
	const struct medium_use *newest = newest_valid(uses, count), *before = NULL;

	for (size_t i = 0; i < count; i++) {
		struct medium_use *u = &uses[i];

		if (u->valid && memcmp(u->head.channel_id, newest->head.channel_id,
				       sizeof(u->head.channel_id)) != 0) {
			u->damage = MEDIUM_FOREIGN;
			u->used = false;
		} else if (before && u->used && before->head.generation == u->head.generation) {
			u->damage = "head: another segment has the same generation";
			u->used = false;
		} else if (before && u->used &&
			   u->head.first_sequence < before->head.first_sequence) {
			u->damage =
				"head: its first sequence is lower than that of the previous use";
		}
		if (u->used)
			before = u;
	}
}

void medium_judge(struct medium_use *uses, size_t count, const uint8_t id[16], uint64_t most,
		  medium_open *opener, void *ctx)
{
	const struct medium_use *newest = newest_valid(uses, count);

	for (size_t i = 0; i < count; i++) {
		struct medium_use *u = &uses[i];
		struct medium_bytes *b;

		if (u->valid || u->head.magic == EKR_SEGMENT_MAGIC ||
		    !strcmp(u->damage, SEGMENT_OLD))
			continue;
		b = opener(ctx, u);
		if (b)
			rescue(b, u, newest ? newest->head.channel_id : id, most);
	}
	medium_sort(uses, count);
	doubt(uses, count);
}

/* --- records ---------------------------------------------------------------------------- */

static bool all_zeros(const unsigned char *bytes, size_t length)
{
	return !length || (!*bytes && !memcmp(bytes, bytes + 1, length - 1));
}

uint64_t medium_end(const struct medium_bytes *b, const struct ekr_segment_head *head)
{
	const uint64_t there = block_of(b->size);

	return head->size < there ? head->size : there;
}

static enum medium_verdict look(struct medium_bytes *b, const struct ekr_segment_head *head,
				uint64_t offset, struct medium_record *r)
{
	const uint64_t end = medium_end(b, head);
	const size_t fixed = sizeof(r->head);
	const struct ekr_record_head *record;
	struct record_use use;
	const unsigned char *bytes;
	uint32_t length;

	r->error = offset > end || fixed > end - offset ? -ENODATA :
							  medium_bytes_at(b, offset, fixed, &bytes);
	if (r->error)
		return MEDIUM_IO;
	memcpy(&r->head, bytes, fixed);
	if (r->head.magic != EKR_RECORD_MAGIC) {
		/* what is in the next block is of the next batch */
		const size_t rest = EKR_BLOCK - (size_t)(offset % EKR_BLOCK);

		return all_zeros(bytes, rest < fixed ? rest : fixed) ? MEDIUM_ZEROS :
								       MEDIUM_NO_RECORD;
	}
	/* the CRC covers the generation, but what an earlier use left need not be read */
	if (r->head.generation < head->generation)
		return MEDIUM_STALE;
	length = r->head.length;
	/* a gap may be larger than the records of a channel */
	if ((length > head->record_size && length != sizeof(struct ekr_gap)) ||
	    length > end - offset - fixed)
		return MEDIUM_BAD_LENGTH;
	r->error = medium_bytes_at(b, offset, fixed + length, &bytes);
	if (r->error)
		return MEDIUM_IO;
	/* these bytes count: they may have been read again from the medium, with the payload */
	memcpy(&r->head, bytes, fixed);
	use = segment_use(head);
	use.generation = r->head.generation;
	record = r->head.length == length ? record_at(bytes, record_bytes(length), &use) : NULL;
	if (!record)
		return MEDIUM_BAD_CRC;
	r->payload = bytes + fixed;
	r->first = record_first(record);
	if (record_gap(record))
		r->gap = *record_gap(record);
	return r->head.generation > head->generation ? MEDIUM_NEWER : MEDIUM_VALID;
}

void medium_look(struct medium_bytes *b, const struct ekr_segment_head *head, uint64_t offset,
		 struct medium_record *r)
{
	*r = (struct medium_record){ .offset = offset };
	r->verdict = look(b, head, offset, r);
}

void medium_explain(char *to, size_t room, const struct medium_record *r,
		    const struct ekr_segment_head *head)
{
	switch (r->verdict) {
	case MEDIUM_ZEROS:
		snprintf(to, room, "zeros where a record should be");
		return;
	case MEDIUM_NO_RECORD:
		snprintf(to, room, "bad magic %08" PRIx32, r->head.magic);
		return;
	case MEDIUM_STALE:
	case MEDIUM_NEWER:
		snprintf(to, room, "generation %" PRIu64 " in a segment of generation %" PRIu64,
			 r->head.generation, head->generation);
		return;
	case MEDIUM_BAD_LENGTH:
		snprintf(to, room, "length %" PRIu32 " exceeds the %s", r->head.length,
			 r->head.length > head->record_size ? "largest record of the channel" :
							      "end of the segment");
		return;
	case MEDIUM_IO:
		snprintf(to, room, "cannot be read: %s", strerror(-r->error));
		return;
	case MEDIUM_BAD_CRC:
	case MEDIUM_VALID:
		snprintf(to, room, "bad CRC");
		return;
	}
}

/* after the last record of a batch: zeros up to the end of the block */
static bool batch_ends(struct medium_walk *w, const struct medium_record *r)
{
	const size_t rest = EKR_BLOCK - (size_t)(w->offset % EKR_BLOCK);
	const unsigned char *bytes;

	return r->verdict == MEDIUM_ZEROS && w->offset % EKR_BLOCK &&
	       !medium_bytes_at(w->bytes, w->offset, rest, &bytes) && all_zeros(bytes, rest);
}

/* A record with a valid CRC that cannot be there; *@why stays empty if it can. */
static void check_place(struct medium_walk *w, struct medium_record *r)
{
	const struct ekr_record_head *h = &r->head;
	const bool is_gap = h->flags & EKR_RECORD_GAP;

	if (w->in_batch && h->batch != w->batch && (w->offset % EKR_BLOCK || h->batch < w->batch)) {
		snprintf(r->why, sizeof(r->why),
			 "batch %" PRIu64 " in the middle of batch %" PRIu64, h->batch, w->batch);
		return;
	}
	/*
	 * Within a use no number is left out. So where a batch begins, a jump is the only sign of a
	 * batch before it whose end did not reach the medium: what was there, zeros or blocks of an
	 * earlier use, looks like the end of a batch.
	 */
	if (!w->in_batch)
		r->cut = w->offset == EKR_BLOCK && h->batch;
	else if (h->batch != w->batch)
		r->cut = h->batch - w->batch > 1 || (w->any && r->first > w->last + 1);
	else
		r->hole = w->any && r->first > w->last + 1;
	w->batch = h->batch;
	w->in_batch = true;
	if (h->flags & ~(uint32_t)EKR_RECORD_GAP)
		snprintf(r->why, sizeof(r->why), "unknown flags %" PRIx32, h->flags);
	else if (is_gap ? h->length != sizeof(r->gap) : h->length > w->head->record_size)
		snprintf(r->why, sizeof(r->why), "a %s with an invalid length of %" PRIu32 " bytes",
			 is_gap ? "gap" : "record", h->length);
	else if (w->any && h->sequence <= w->last)
		snprintf(r->why, sizeof(r->why), "sequence %" PRIu64 " after %" PRIu64, h->sequence,
			 w->last);
}

enum medium_step medium_next(struct medium_walk *w, struct medium_record *r)
{
	medium_look(w->bytes, w->head, w->offset, r);
	if (batch_ends(w, r)) {
		w->offset = block_of(w->offset) + EKR_BLOCK;
		medium_look(w->bytes, w->head, w->offset, r);
	}
	if (r->verdict != MEDIUM_VALID)
		return MEDIUM_NONE;
	check_place(w, r);
	w->offset += record_bytes(r->head.length);
	if (*r->why)
		return MEDIUM_DOUBT;
	w->any = true;
	w->last = r->head.sequence;
	return MEDIUM_RECORD;
}

uint64_t medium_find(const struct medium_walk *w, uint64_t from, uint64_t to, uint64_t batch,
		     uint64_t below, uint64_t *written)
{
	const volatile sig_atomic_t *stop = w->bytes->stop;
	const uint64_t end = medium_end(w->bytes, w->head);
	struct medium_record r;

	if (written)
		*written = 0;
	if (to > end)
		to = end;
	for (uint64_t at = from; at < to && !(stop && *stop); at += EKR_BLOCK) {
		medium_look(w->bytes, w->head, at, &r);
		if ((r.verdict == MEDIUM_ZEROS || r.verdict == MEDIUM_STALE) && written &&
		    !*written)
			*written = at;
		if (r.verdict == MEDIUM_VALID && r.head.batch >= batch &&
		    (!w->any || r.head.sequence > w->last) && r.head.sequence < below)
			return at;
	}
	return 0;
}
