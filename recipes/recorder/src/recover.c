// SPDX-License-Identifier: Apache-2.0
/* What a channel's segments hold. */
#include "recover.h"

#include <errno.h>
#include <string.h>

#include "batch.h"
#include "config.h"
#include "segment.h"

/* how far behind a break a later batch is looked for: there is one begun in it, even if one is damaged */
#define LOOK_AHEAD (2u * EKR_BATCH_MAX)
/* of a longer segment only the end is read */
#define READ_WHOLE (4u * LOOK_AHEAD)
/* read at a time where something is looked for: room for any record */
#define PROBE (EKR_RECORD_MAX + EKR_BLOCK)

_Static_assert(PROBE <= RECOVER_BUFFER, "a probe fits");

/* a look through one segment */
struct scan {
	const struct medium *medium;
	const struct recovered_segment *segment;
	struct record_use use; /* of the segment */
	uint64_t below;	       /* sequences from here on are void */
	unsigned char *buffer;
	uint64_t at;   /* where the buffer begins in the segment */
	size_t length; /* bytes in it */

	uint64_t expected;	 /* number of the next batch */
	bool any, broken, other; /* other: records that are no gap of a restart */
	uint64_t last_sequence;
	int64_t last_realtime_ns;
	uint64_t end;
	uint64_t next; /* sequence that follows, whether it counts or not; 0: any */
};

/* blocks that cannot be read are zeros: no record; behind the end of the file there is nothing */
static void read_blocks(struct scan *s, uint64_t at, size_t most)
{
	uint64_t size = s->segment->head.size;
	size_t length = size - at < most ? (size_t)(size - at) : most;
	const struct medium *m = s->medium;
	ssize_t n = m->read(m->ctx, s->segment->index, s->buffer, length, at);

	s->at = at;
	s->length = n ? length : 0;
	if (!n || n == (ssize_t)length)
		return;
	for (size_t i = 0; i < length; i += EKR_BLOCK)
		if (m->read(m->ctx, s->segment->index, s->buffer + i, EKR_BLOCK, at + i) !=
		    EKR_BLOCK)
			memset(s->buffer + i, 0, EKR_BLOCK);
}

static const struct ekr_record_head *record_in(const struct scan *s, size_t at)
{
	return record_at(s->buffer + at, s->length - at, &s->use);
}

static bool is_restart(const struct ekr_record_head *head)
{
	const struct ekr_gap *gap = record_gap(head);

	return gap && gap->reason == EKR_GAP_RESTART;
}

/* the records from @at on that are of one batch; returns where they end */
static size_t take_batch(struct scan *s, size_t at)
{
	const struct ekr_record_head *head = record_in(s, at);
	uint64_t number = head->batch;

	while (head && head->batch == number) {
		if (head->sequence < s->below) {
			s->any = true;
			s->last_sequence = head->sequence;
			s->last_realtime_ns = head->realtime_ns;
			s->other |= !is_restart(head);
		}
		s->next = head->sequence + 1;
		at += record_bytes(head->length);
		if (at >= s->length)
			break;
		head = record_in(s, at);
	}
	s->expected = number + 1;
	return at;
}

/*
 * The first block from @from on and before @to at which a record of this use
 * begins whose batch is no earlier than @batch; then the buffer begins there. A
 * block that lies in a record may look like one only if the writer wants it to,
 * and it harms nothing but its own recording.
 */
static bool find_record(struct scan *s, uint64_t from, uint64_t to, uint64_t batch, size_t piece)
{
	const struct ekr_segment_head *segment = &s->segment->head;

	for (uint64_t pos = from; pos < to && pos < segment->size; pos += EKR_BLOCK) {
		const struct ekr_record_head *head;

		if (pos < s->at || pos + EKR_BLOCK > s->at + s->length)
			read_blocks(s, pos, piece);
		if (!s->length)
			return false;
		head = (const struct ekr_record_head *)(s->buffer + (pos - s->at));
		if (head->magic != EKR_RECORD_MAGIC || head->generation != segment->generation ||
		    head->batch < batch)
			continue;
		/* whole in the buffer, for its CRC */
		if (s->at != pos)
			read_blocks(s, pos, piece);
		if (record_in(s, 0))
			return true;
	}
	return false;
}

/*
 * Where a look at the end of a long segment begins: at a record behind which no
 * more than LOOK_AHEAD of this use follows. Batches are written in order and leave
 * no room between them, so whether one begins in a stretch says on which side of
 * it the end is: of 1 GiB at most 96 MiB are read.
 */
static uint64_t near_end(struct scan *s)
{
	uint64_t begin = EKR_BLOCK, end = s->segment->head.size;

	if (end <= READ_WHOLE)
		return begin;
	while (end - begin > LOOK_AHEAD) {
		uint64_t middle = begin + whole_blocks((end - begin) / 2);
		uint64_t to = end - middle < LOOK_AHEAD ? end : middle + LOOK_AHEAD;

		if (find_record(s, middle, to, 0, PROBE))
			begin = s->at;
		else
			end = middle;
	}
	return begin;
}

static void scan_from(struct scan *s, uint64_t from)
{
	size_t at = 0;

	s->end = from;
	if (s->segment->head.size <= from)
		return;
	read_blocks(s, from, RECOVER_BUFFER);
	if (from != EKR_BLOCK && record_in(s, 0)) {
		s->expected = record_in(s, 0)->batch;
		/* what was not read is more than a start leaves */
		s->other = true;
	}
	for (;;) {
		size_t begin = at;
		const struct ekr_record_head *head = at < s->length ? record_in(s, at) : NULL;

		/* a batch that was cut short may look as if it were whole; the next one tells */
		if (head && head->batch == s->expected && s->next && record_first(head) != s->next)
			s->broken = true;
		if (head && head->batch == s->expected) {
			at = take_batch(s, at);
			/* does the batch end here, or only the buffer? */
			if (s->length - at < record_bytes(EKR_RECORD_MAX) && begin &&
			    s->at + s->length < s->segment->head.size) {
				read_blocks(s, s->at + begin, RECOVER_BUFFER);
				s->expected--;
				s->next = 0;
				at = 0;
				continue;
			}
			at = whole_blocks(at);
			s->end = s->at + at;
			continue;
		}
		if (begin && s->at + s->length < s->segment->head.size &&
		    s->length - begin < record_bytes(EKR_RECORD_MAX)) {
			read_blocks(s, s->at + begin, RECOVER_BUFFER);
			at = 0;
			continue;
		}
		if (!find_record(s, s->at + at, s->at + at + LOOK_AHEAD, s->expected + 1,
				 RECOVER_BUFFER))
			return;
		at = 0;
		s->broken = true;
		s->expected = record_in(s, at)->batch;
	}
}

static void scan_segment(struct scan *s)
{
	const struct scan fresh = *s;
	uint64_t from = near_end(s);

	scan_from(s, from);
	if (s->any || from == EKR_BLOCK)
		return;
	/* all of the end is void: what counts is before it */
	*s = fresh;
	scan_from(s, EKR_BLOCK);
}

/*
 * What the records of a segment tell of its use, where its head is none. An earlier use
 * has left lower generations; of the cached backend ahead of those of this use, too.
 */
static void rescue(const struct medium *m, struct recovered_segment *segment, const uint8_t id[16],
		   unsigned char *buffer)
{
	struct recovered_segment guess = {
		.head = { .size = segment->size / EKR_BLOCK * EKR_BLOCK,
			  .index = segment->index,
			  .record_size = EKR_RECORD_MAX },
		.index = segment->index,
	};
	struct scan s = { .medium = m, .segment = &guess, .buffer = buffer };

	if (id)
		memcpy(guess.head.channel_id, id, sizeof(guess.head.channel_id));
	s.use = segment_use(&guess.head);

	for (uint64_t pos = EKR_BLOCK; pos < guess.head.size && pos < EKR_BLOCK + LOOK_AHEAD;
	     pos += EKR_BLOCK) {
		const struct ekr_record_head *head;

		if (pos < s.at || pos + EKR_BLOCK > s.at + s.length)
			read_blocks(&s, pos, PROBE);
		if (!s.length)
			return;
		head = (const struct ekr_record_head *)(buffer + (pos - s.at));
		if (head->magic != EKR_RECORD_MAGIC || head->generation <= segment->head.generation)
			continue;
		if (s.at != pos)
			read_blocks(&s, pos, PROBE);
		head = (const struct ekr_record_head *)buffer;
		guess.head.generation = s.use.generation = head->generation;
		if (!s.length || !record_in(&s, 0))
			continue;
		guess.head.first_sequence = record_first(head);
		guess.head.realtime_ns = head->realtime_ns;
		guess.head.monotonic_ns = head->monotonic_ns;
		segment->head = guess.head;
	}
}

/* those that have none of their own: when it is known that the others are ours */
static void rescue_heads(const struct medium *m, struct recovered *r, unsigned char *buffer)
{
	bool unknown = false;

	for (size_t i = 0; i < r->count; i++) {
		struct recovered_segment *s = &r->segments[i];

		if (!s->problem)
			continue;
		rescue(m, s, r->valid ? r->valid->head.channel_id : r->id, buffer);
		unknown |= !s->head.generation;
		if (s->head.generation &&
		    (!r->newest || s->head.generation > r->newest->head.generation))
			r->newest = s;
	}
	r->generation = r->newest ? r->newest->head.generation : 0;
	/* it may have been the newest, and some of its records may be there all the same */
	if (unknown)
		r->generation += SEGMENTS_MAX;
}

static int read_heads(const struct medium *m, const char *name, struct recovered *r,
		      unsigned char *buffer, struct error *e)
{
	for (size_t i = 0; i < r->count; i++) {
		struct recovered_segment *s = &r->segments[i];
		ssize_t n = m->read(m->ctx, s->index, buffer, EKR_BLOCK, 0);

		s->problem = n < 0	    ? "head: cannot be read" :
			     n != EKR_BLOCK ? "head: the file is shorter than a block" :
					      segment_head_problem(buffer);
		/* never taken for a damaged one: what it holds would be overwritten */
		if (s->problem && !strcmp(s->problem, SEGMENT_OLD))
			return set_error(e, EINVAL, "segment %08u.seg: %s", s->index, s->problem);
		memcpy(&s->head, buffer, sizeof(s->head));
		if (!s->problem && s->head.index != s->index)
			s->problem = "head: its index does not match the name of the file";
		if (s->problem) {
			s->head = (struct ekr_segment_head){ 0 };
			continue;
		}
		if (strcmp(s->head.name, name) != 0)
			return set_error(e, EINVAL,
					 "segment %08u.seg belongs to channel '%s'; remove it",
					 s->index, s->head.name);
		if (s->head.generation &&
		    (!r->newest || s->head.generation > r->newest->head.generation))
			r->newest = s;
	}
	r->valid = r->newest;
	for (size_t i = 0; i < r->count; i++) {
		const struct recovered_segment *s = &r->segments[i];

		if (!s->problem && r->newest &&
		    memcmp(s->head.channel_id, r->newest->head.channel_id,
			   sizeof(s->head.channel_id)) != 0)
			return set_error(e, EINVAL,
					 "segment %08u.seg belongs to another recording; remove it",
					 s->index);
		/* never used: it tells what a channel is whose used ones are all damaged */
		if (!s->problem && !r->valid)
			r->valid = s;
	}
	rescue_heads(m, r, buffer);
	return 0;
}

/* the one that was used before; NULL: none */
static const struct recovered_segment *before(const struct recovered *r,
					      const struct recovered_segment *than)
{
	const struct recovered_segment *found = NULL;

	for (size_t i = 0; i < r->count; i++) {
		const struct recovered_segment *s = &r->segments[i];

		if (s->head.generation && s->head.generation < than->head.generation &&
		    (!found || s->head.generation > found->head.generation))
			found = s;
	}
	return found;
}

int recover(const struct medium *medium, const char *name, struct recovered *r,
	    unsigned char *buffer, struct error *e)
{
	struct scan scan = { 0 };
	uint64_t below = UINT64_MAX;
	int ret;

	*r = (struct recovered){ .segments = r->segments, .count = r->count, .id = r->id };
	ret = read_heads(medium, name, r, buffer, e);
	if (ret || !r->newest)
		return ret;
	/* a head may have been all that was written of a segment */
	for (const struct recovered_segment *s = r->newest; s && !scan.any; s = before(r, s)) {
		scan = (struct scan){
			.medium = medium,
			.segment = s,
			.buffer = buffer,
			.below = below,
			.use = segment_use(&s->head),
		};
		scan_segment(&scan);
		below = s->head.first_sequence;
		if (s != r->newest)
			continue;
		r->end = scan.end;
		r->batches = scan.expected;
		r->damaged = scan.broken;
		/* of one without a head it is not known what else there was */
		r->only_restarts = !scan.other && !s->problem;
	}
	r->any = scan.any;
	r->last_sequence = scan.last_sequence;
	r->last_realtime_ns = scan.last_realtime_ns;
	r->next_sequence = r->newest->head.first_sequence;
	if (!r->only_restarts && r->any && r->last_sequence >= r->next_sequence)
		r->next_sequence = r->last_sequence + 1;
	return 0;
}
