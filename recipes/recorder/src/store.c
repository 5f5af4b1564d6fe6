// SPDX-License-Identifier: Apache-2.0
/* Which chunk of a channel is written next, where and when. */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch.h"
#include "clock.h"
#include "scope.h"
#include "segment.h"
#include "thread.h"

#define BACKOFF_LEAST (100 * NSEC_PER_MSEC)
#define BACKOFF_MOST  (10 * NSEC_PER_SEC)
/* attempts in a segment before the next one is tried: 10 min */
#define STAY 64
/* uptime from which the real time counts: a clock that is wrong at a boot is usually corrected by then */
#define CLOCK_SETTLES (600 * NSEC_PER_SEC)

int store_open(struct store *s, const struct channel_config *config, struct buffer *buffer,
	       struct error *e)
{
	*s = (struct store){ .config = config, .buffer = buffer };
	s->segments = calloc(SEGMENTS_MAX, sizeof(*s->segments));
	s->head = aligned_alloc(EKR_BLOCK, 2 * EKR_BLOCK);
	if (!s->segments || !s->head) {
		free(s->segments);
		free(s->head);
		return set_error(e, ENOMEM, "allocating memory for segments: out of memory");
	}
	memset(s->head, 0, 2 * EKR_BLOCK);
	s->gap.data = s->head + EKR_BLOCK;
	s->again_end = &s->again;
	thread_mutex(&s->lock);
	return 0;
}

void store_close(struct store *s)
{
	if (!s->segments)
		return;
	for (unsigned int i = 0; i < s->count; i++)
		close(s->segments[i].fd);
	free(s->segments);
	free(s->head);
	pthread_mutex_destroy(&s->lock);
	s->segments = NULL;
}

void store_set(struct store *s, uint64_t generation, uint64_t next_sequence,
	       const uint8_t channel_id[16], const uint8_t boot_id[16])
{
	HOLD(&s->lock);

	s->generation = generation;
	atomic_store(&s->durable_to, next_sequence);
	s->lost_first = s->lost_next = next_sequence;
	memcpy(s->channel_id, channel_id, sizeof(s->channel_id));
	memcpy(s->boot_id, boot_id, sizeof(s->boot_id));
	s->state = STORE_PREPARING;
	s->reason.code = 0;
}

int store_add(struct store *s, const struct segment *segment)
{
	HOLD(&s->lock);

	if (s->count == SEGMENTS_MAX)
		return -ENOSPC;
	/* current == count stays: there is no current segment */
	s->current += s->current == s->count;
	s->segments[s->count++] = *segment;
	/* also after STORE_FAILED, if that was for lack of segments and not because the medium fails */
	if (s->count >= 2 && !s->failures)
		s->state = STORE_RECORDING;
	return 0;
}

struct ekr_segment_head store_head(const struct store *s, uint32_t index)
{
	struct ekr_segment_head head = {
		.size = s->config->segment,
		.index = index,
		.record_size = (uint32_t)s->config->record_size,
		.period_ns = s->config->period_ns,
		.window_ns = s->config->window_ns,
	};

	memcpy(head.channel_id, s->channel_id, sizeof(head.channel_id));
	memcpy(head.name, s->config->name, strlen(s->config->name));
	return head;
}

void store_continue(struct store *s, uint32_t index, uint64_t offset, uint64_t batch)
{
	struct ekr_segment_head head = store_head(s, index);
	HOLD(&s->lock);

	for (unsigned int i = 0; i < s->count; i++) {
		if (s->segments[i].index != index)
			continue;
		head.generation = s->segments[i].generation;
		s->use = segment_use(&head);
		s->current = i;
		s->offset = offset;
		s->batch = batch;
	}
}

void store_pass(struct store *s, uint64_t generation)
{
	HOLD(&s->lock);

	if (s->generation < generation)
		s->generation = generation;
}

void store_fail(struct store *s, const struct error *why)
{
	HOLD(&s->lock);

	/* a new segment does not end a failure that the storage thread has seen */
	if (why->code || !s->failures)
		s->reason = *why;
	/* with two segments it records, but less than configured */
	if (s->count < 2 && why->code)
		s->state = STORE_FAILED;
}

/* The segment with the oldest use that another use has followed; count: there is none. */
static unsigned int oldest_use(const struct store *s)
{
	unsigned int oldest = s->count;

	for (unsigned int i = 0; i < s->count; i++)
		if (s->segments[i].generation &&
		    (oldest == s->count ||
		     s->segments[i].generation < s->segments[oldest].generation))
			oldest = i;
	return oldest == s->current ? s->count : oldest;
}

/* the earlier of two uses; @a may be NULL */
static const struct segment *earlier(const struct segment *a, const struct segment *b)
{
	return !a || b->generation < a->generation ? b : a;
}

/*
 * All records of the oldest use, @at, are older than the start of any later use. The first use of this boot
 * has a start on a clock that does not jump. The real times of earlier boots may have any value. So a
 * time after now does not count, nor does a time before that of @at, whose clock was not set: the next use
 * decides. Thus a clock that was wrong for a while makes a use look younger, and no use older.
 */
static bool is_expired(const struct store *s, unsigned int at, uint64_t now, int64_t now_realtime)
{
	const struct segment *timed = NULL, *dated = NULL, *old = &s->segments[at];
	const uint64_t most = s->config->retain_ns;

	for (unsigned int i = 0; i < s->count; i++) {
		const struct segment *n = &s->segments[i];
		int64_t opened = n->opened_realtime_ns;

		if (n->generation <= old->generation)
			continue;
		if (n->opened_ns)
			timed = earlier(timed, n);
		else if (opened <= now_realtime && (opened >= old->opened_realtime_ns ||
						    old->opened_realtime_ns > now_realtime))
			dated = earlier(dated, n);
	}
	/* @now may have been read before a use began */
	if (timed && now > timed->opened_ns && now - timed->opened_ns > most)
		return true;
	return dated && (!timed || dated->generation < timed->generation) && now >= CLOCK_SETTLES &&
	       (uint64_t)now_realtime - (uint64_t)dated->opened_realtime_ns > most;
}

/* removes a segment; the last one gets its place */
static void take_out(struct store *s, unsigned int i)
{
	s->segments[i] = s->segments[--s->count];
	if (s->current == s->count)
		s->current = i;
	else if (s->current > s->count)
		s->current = s->count;
}

bool store_expire(struct store *s, uint64_t now, int64_t now_realtime, struct segment *gone)
{
	unsigned int i;
	HOLD(&s->lock);

	/* two segments always remain to record in */
	if (!s->config->retain_ns || s->count <= 2)
		return false;
	i = oldest_use(s);
	if (i == s->count || !is_expired(s, i, now, now_realtime))
		return false;
	*gone = s->segments[i];
	take_out(s, i);
	return true;
}

bool store_segment(struct store *s, unsigned int i, struct segment *segment)
{
	HOLD(&s->lock);

	if (i >= s->count)
		return false;
	*segment = s->segments[i];
	return true;
}

bool store_drop(struct store *s, uint32_t index)
{
	unsigned int i = 0;
	HOLD(&s->lock);

	while (i < s->count && s->segments[i].index != index)
		i++;
	if (i == s->count)
		return false;
	if (i == s->current) {
		/* as if it were full: the next batch begins another segment */
		s->offset = s->config->segment;
		if (s->busy)
			return false;
		s->current = s->count;
		s->offset = 0;
		s->batch = 0;
	}
	take_out(s, i);
	if (s->count < 2 && s->state == STORE_RECORDING)
		s->state = STORE_PREPARING;
	return true;
}

static struct chunk *pop(struct chunk **list, struct chunk ***end)
{
	struct chunk *c = *list;

	*list = c->next;
	if (!*list)
		*end = list;
	c->next = NULL;
	return c;
}

/* puts a chunk first in the list of chunks to write again */
static void put_back(struct store *s, struct chunk *c)
{
	c->next = s->again;
	if (!s->again)
		s->again_end = &c->next;
	s->again = c;
}

static void release(struct store *s, struct chunk *c)
{
	if (c == &s->gap)
		c->used = 0;
	else
		buffer_release(s->buffer, c);
}

/* makes a chunk of its own with the gap that reports what was given up */
static struct chunk *make_gap(struct store *s, uint64_t now)
{
	uint64_t count = s->lost_next - s->lost_first;
	const struct ekr_gap gap = {
		.reason = EKR_GAP_FAILED,
		.count_lost = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count,
	};
	const struct record record = {
		.sequence = s->lost_next - 1,
		.monotonic_ns = now,
		.realtime_ns = realtime_ns(),
		.flags = EKR_RECORD_GAP,
		.length = sizeof(gap),
		.payload = &gap,
	};

	s->gap.used = batch_append(s->gap.data, &record);
	s->gap.first = s->lost_first;
	s->gap.next_sequence = s->lost_next;
	s->gap.oldest_ns = now;
	s->gap.records = 0;
	return &s->gap;
}

/*
 * When a batch must begin whose oldest record has this time: half a period before half the window has
 * passed. A window is often a multiple of the period. Then the timer and the start of the writes would
 * interrupt the submission of a record, batch after batch.
 */
static uint64_t write_by(const struct store *s, uint64_t oldest)
{
	const uint64_t half = s->config->window_ns / 2, early = s->config->period_ns / 2;

	return oldest + half - (early < half / 8 ? early : 0);
}

/* a sync waits for records that are not durable yet */
static bool is_wanted(const struct store *s)
{
	return atomic_load(&s->wanted_to) > atomic_load(&s->durable_to);
}

static bool in_haste(const struct store *s, uint64_t now)
{
	return atomic_load(&s->stopping) || (is_wanted(s) && now >= s->haste_ns);
}

static struct chunk *choose(struct store *s, uint64_t now, bool alone)
{
	uint64_t oldest;
	bool full;

	if (s->again)
		return pop(&s->again, &s->again_end);
	if (s->lost_first != s->lost_next)
		return make_gap(s, now);
	oldest = buffer_oldest(s->buffer, &full);
	if (!oldest)
		return NULL;
	if (atomic_load(&s->stopping) || (full ? alone : now >= write_by(s, oldest)))
		return buffer_take(s->buffer, true);
	if (full || !alone || !in_haste(s, now))
		return NULL;
	s->hasty = true;
	return buffer_take(s->buffer, true);
}

static bool is_older(const struct segment *a, const struct segment *b)
{
	return a->generation != b->generation ? a->generation < b->generation : a->index < b->index;
}

/* takes the segment with the oldest use; unused segments have generation 0 and are taken by index */
static void next_segment(struct store *s)
{
	unsigned int oldest = s->count;

	for (unsigned int i = 0; i < s->count; i++)
		if (i != s->current &&
		    (oldest == s->count || is_older(&s->segments[i], &s->segments[oldest])))
			oldest = i;
	s->current = oldest;
}

static void begin_segment(struct store *s, uint64_t first_sequence, uint64_t now)
{
	struct ekr_segment_head *head = (struct ekr_segment_head *)s->head;
	struct segment *segment = &s->segments[s->current];

	segment->generation = ++s->generation;
	segment->opened_ns = now;
	segment->opened_realtime_ns = realtime_ns();
	memset(s->head, 0, EKR_BLOCK);
	*head = store_head(s, segment->index);
	head->generation = segment->generation;
	head->first_sequence = first_sequence;
	head->realtime_ns = segment->opened_realtime_ns;
	head->monotonic_ns = now;
	memcpy(head->boot_id, s->boot_id, sizeof(head->boot_id));
	segment_seal_head(s->head);
	s->use = segment_use(head);
	s->offset = EKR_BLOCK;
	s->batch = 0;
	s->fresh = true;
}

bool store_next(struct store *s, uint64_t now, bool alone, struct store_write *w)
{
	struct chunk *c = NULL;
	size_t length;
	HOLD(&s->lock);

	s->hasty = s->busy && s->hasty;
	if (!s->busy && s->count >= 2 && now >= s->retry_ns)
		c = choose(s, now, alone);
	if (!c)
		return false;
	s->fresh = false;
	length = whole_blocks(c->used);
	/*
	 * A failed batch goes to the next segment, and further attempts stay there for long: otherwise a
	 * faulty medium would overwrite the heads of all segments, and so the whole recording.
	 */
	if (s->current == s->count || s->failures == 1 || s->failures % STAY == STAY - 1 ||
	    (!s->failures && s->offset + length > s->config->segment))
		next_segment(s);
	if (s->failures || s->offset + length > s->config->segment || !s->offset ||
	    !s->segments[s->current].generation)
		begin_segment(s, c->first, now);
	s->writing = c;
	s->busy = true;
	s->began_ns = now;
	*w = (struct store_write){
		.fd = s->segments[s->current].fd,
		.head = s->fresh ? s->head : NULL,
		.data = c->data,
		.length = length,
		.offset = s->offset,
		.chunk = c,
		.use = s->use,
		.batch = s->batch,
	};
	return true;
}

void store_seal(const struct store_write *w)
{
	batch_seal(w->chunk->data, w->chunk->used, &w->use, w->batch);
}

/* counts the latencies of all records in a chunk that has become durable */
static void count_durable(struct store *s, const struct chunk *c, uint64_t now)
{
	const unsigned char *at = c->data, *end = c->data + c->used;

	while (at < end) {
		const struct ekr_record_head *head = (const struct ekr_record_head *)at;
		uint64_t took = now > head->monotonic_ns ? now - head->monotonic_ns : 0;

		if (!(head->flags & EKR_RECORD_GAP)) {
			hist_add(&s->counts.record, took / 1000);
			s->counts.late += took > s->config->window_ns;
			s->counts.durable++;
		}
		at += record_bytes(head->length);
	}
}

static void succeeded(struct store *s, uint64_t now)
{
	struct chunk *c = s->writing;

	if (s->failures) {
		log_info("channel %s: the medium accepts records again", s->config->name);
		s->reason.code = 0;
		s->state = STORE_RECORDING;
	}
	s->failures = 0;
	s->retry_ns = 0;
	s->counts.bytes += s->fresh ? EKR_BLOCK : 0;
	s->counts.synced_ns = now;
	s->offset += whole_blocks(c->used);
	s->batch++;
	s->counts.batches++;
	s->counts.bytes += whole_blocks(c->used);
	if (c == &s->gap)
		s->lost_first = s->lost_next;
	count_durable(s, c, now);
	atomic_store(&s->durable_to, c->next_sequence);
	release(s, c);
}

/* the batch failed twice: all chunks to write again are lost, and a gap must report that */
static void give_up(struct store *s)
{
	while (s->again) {
		struct chunk *c = pop(&s->again, &s->again_end);

		if (c != &s->gap) {
			if (s->lost_first == s->lost_next)
				s->lost_first = c->first;
			s->lost_next = c->next_sequence;
			s->counts.failed += c->records;
			atomic_store(&s->durable_to, c->next_sequence);
		}
		release(s, c);
	}
}

static void failed(struct store *s, uint64_t now, int code)
{
	uint64_t wait = BACKOFF_LEAST;

	s->counts.errors++;
	put_back(s, s->writing);
	set_errno(&s->reason, code, "writing segment %08u.seg",
		  s->current < s->count ? s->segments[s->current].index : 0);
	if (s->failures < UINT32_MAX)
		s->failures++;
	if (s->failures == 1) {
		log_warning("channel %s: %s; trying the next segment", s->config->name,
			    s->reason.text);
		return;
	}
	give_up(s);
	if (s->failures == 2)
		log_error("channel %s: %s, twice in a row; records are lost until a write succeeds",
			  s->config->name, s->reason.text);
	s->state = STORE_FAILED;
	for (unsigned int i = 2; i < s->failures && wait < BACKOFF_MOST; i++)
		wait *= 2;
	s->retry_ns = now + (wait < BACKOFF_MOST ? wait : BACKOFF_MOST);
}

void store_watch(struct store *s, uint64_t now)
{
	HOLD(&s->lock);

	/* @now may be older than the start of the chain */
	if (!s->busy || s->hangs || now <= s->began_ns || now - s->began_ns < STORE_HANGS)
		return;
	s->hangs = true;
	log_error(
		"channel %s: writing segment %08u.seg has taken more than %u s: the medium does not respond",
		s->config->name, s->segments[s->current].index,
		(unsigned int)(STORE_HANGS / NSEC_PER_SEC));
}

enum store_state store_state(struct store *s, struct error *reason)
{
	HOLD(&s->lock);

	*reason = s->reason;
	/* the reason has no time that grows, so that it stays the same from second to second */
	if (s->state == STORE_CLOSED && !reason->code)
		set_error(reason, EAGAIN, "it is not open yet");
	if (s->hangs)
		set_error(reason, ETIMEDOUT,
			  "writing segment %08u.seg does not finish: the medium does not respond",
			  s->segments[s->current].index);
	return s->hangs ? STORE_FAILED : s->state;
}

bool store_done(struct store *s, uint64_t now, int result)
{
	HOLD(&s->lock);

	if (s->hangs)
		log_info("channel %s: the medium responds again after %u s", s->config->name,
			 (unsigned int)((now - s->began_ns) / NSEC_PER_SEC));
	s->hangs = false;
	hist_add(&s->counts.write, (now - s->began_ns) / 1000);
	if (s->hasty)
		s->haste_ns = now + STORE_SYNC_REST * (now - s->began_ns);
	if (result)
		failed(s, now, -result);
	else
		succeeded(s, now);
	s->writing = NULL;
	s->busy = false;
	return true;
}

uint64_t store_due(struct store *s, uint64_t now, bool alone)
{
	uint64_t due = UINT64_MAX, oldest;
	bool full;
	HOLD(&s->lock);

	if (s->busy || s->count < 2)
		return due;
	oldest = buffer_oldest(s->buffer, &full);
	if (oldest)
		due = atomic_load(&s->stopping) || (alone && (full || in_haste(s, now))) ? now :
		      full ? UINT64_MAX :
			     write_by(s, oldest);
	/* a sync that has to wait */
	if (oldest && alone && is_wanted(s) && s->haste_ns < due)
		due = s->haste_ns > now ? s->haste_ns : now;
	if (s->again || s->lost_first != s->lost_next)
		due = now;
	return due < s->retry_ns ? s->retry_ns : due;
}

bool store_idle(struct store *s)
{
	bool full;
	HOLD(&s->lock);

	return !s->busy && !s->again && s->lost_first == s->lost_next &&
	       !buffer_oldest(s->buffer, &full);
}

bool store_rest(struct store *s)
{
	HOLD(&s->lock);

	s->retry_ns = UINT64_MAX;
	return !s->busy;
}
