// SPDX-License-Identifier: Apache-2.0
/* Which uses and records are in the range that a reader was asked for. */
#include <string.h>

#include "clock.h"
#include "reader_state.h"

/* Records and ends of batches at the start of a use that are looked at, for the first record that is no gap. */
#define OPENING 8
/* Clocks that differ by less between two heads were not set meanwhile, but slewed. */
#define SLEW_NS ((int64_t)(2 * NSEC_PER_SEC))

bool scope_same_boot(const struct medium_use *a, const struct medium_use *b)
{
	return a->valid && b->valid &&
	       !memcmp(a->head.boot_id, b->head.boot_id, sizeof(a->head.boot_id));
}

static bool is_slewed(__int128 jump)
{
	return jump < SLEW_NS && -jump < SLEW_NS;
}

/* realtime minus monotonic: what setting the clock changes */
static __int128 clock_offset(const struct medium_use *u)
{
	return (__int128)u->head.realtime_ns - (__int128)u->head.monotonic_ns;
}

/* from the beginning of @a to that of @b the real-time clock was not set */
static bool steady(const struct medium_use *a, const struct medium_use *b)
{
	return scope_same_boot(a, b) && is_slewed(clock_offset(b) - clock_offset(a));
}

/* nor was it set from the use's first record to its head, which may have been written long after that */
static bool steady_since(const struct ekr_record_head *first, const struct medium_use *u)
{
	return is_slewed((__int128)first->realtime_ns - (__int128)first->monotonic_ns -
			 clock_offset(u));
}

static bool of_newest_boot(const struct reader *r, const struct medium_use *u)
{
	return !u->valid || !memcmp(u->head.boot_id, r->boot, sizeof(r->boot));
}

static const struct medium_use *next_use(const struct reader *r, size_t i)
{
	const struct medium_use *u = i + 1 < r->uses.count ? &r->uses.use[i + 1] : NULL;

	return u && u->used && u->valid ? u : NULL;
}

/*
 * A gap has the time when it was recorded, and the record after it may have been submitted before.
 * So the first record that is no gap gives the time of a use. False: it is not found at once.
 */
bool scope_first_record(struct reader *r, const struct medium_use *u, struct ekr_record_head *h,
			uint64_t *first)
{
	struct medium_walk w = { .bytes = &r->heads.bytes, .head = &u->head, .offset = EKR_BLOCK };
	struct medium_record record;
	bool found = false;

	if (reader_file_open(&r->heads, r->dir, u->file))
		return false;
	r->heads.bytes.ahead = EKR_BLOCK;
	for (int i = 0; i < OPENING && !found; i++) {
		if (medium_next(&w, &record) != MEDIUM_RECORD)
			break;
		if (!i)
			*first = record.first;
		found = !(record.head.flags & EKR_RECORD_GAP);
		*h = record.head;
	}
	reader_file_close(&r->heads);
	return found;
}

/* All records of a use were submitted before the next use began. */
static bool all_before(struct reader *r, const struct medium_use *u, const struct medium_use *next)
{
	const struct reader_time *from = &r->options.range.from;
	struct ekr_record_head h;
	uint64_t first;

	if (!next || !from->set)
		return false;
	if (from->monotonic)
		return scope_same_boot(u, next) && (__int128)next->head.monotonic_ns < from->ns;
	return steady(u, next) && (__int128)next->head.realtime_ns + SLEW_NS < from->ns &&
	       scope_first_record(r, u, &h, &first) && steady_since(&h, u);
}

/*
 * The head does not tell: after a pause of the medium, the records of several uses may be older than
 * the heads of all of them. But the recorder gives times in the order of sequences, so no later
 * record is older than the first.
 */
static bool all_after(struct reader *r, const struct medium_use *u, const struct medium_use *next)
{
	const struct reader_time *to = &r->options.range.to;
	const struct ekr_segment_head *head = &u->head;
	struct ekr_record_head h;
	uint64_t first;

	/* most uses are not after the range: their first record need not be read */
	if (!to->set || !u->valid ||
	    (to->monotonic ? (__int128)head->monotonic_ns : head->realtime_ns) <= to->ns)
		return false;
	if (!to->monotonic && !(next && steady(u, next)))
		return false;
	if (!scope_first_record(r, u, &h, &first))
		return false;
	if (to->monotonic) {
		if ((__int128)h.monotonic_ns <= to->ns)
			return false;
	} else {
		if (!steady_since(&h, u) || (__int128)h.realtime_ns - SLEW_NS <= to->ns)
			return false;
	}
	/* records that are missing before it may be in the range: they are reported with it */
	return !r->any || r->after || first <= r->last || first - r->last == 1;
}

bool scope_outside(struct reader *r, size_t i)
{
	const struct medium_use *u = &r->uses.use[i], *next = next_use(r, i);
	const struct reader_range *range = &r->options.range;

	if (next && next->head.first_sequence <= range->first &&
	    next->head.first_sequence > u->head.first_sequence)
		return true;
	if (((range->from.set && range->from.monotonic) ||
	     (range->to.set && range->to.monotonic)) &&
	    !of_newest_boot(r, u))
		return true;
	return all_before(r, u, next);
}

bool scope_behind(struct reader *r, size_t i)
{
	const struct medium_use *u = &r->uses.use[i];
	const struct reader_range *range = &r->options.range;

	/* records that are missing before it may be in the range: its first record shows that */
	if (u->valid && u->head.first_sequence > range->last)
		return !r->any || r->last >= range->last;
	return all_after(r, u, next_use(r, i));
}

static bool in_time(const struct reader_time *t, const struct ekr_record_head *h, bool from)
{
	__int128 ns = t->monotonic ? (__int128)h->monotonic_ns : (__int128)h->realtime_ns;

	return !t->set || (from ? ns >= t->ns : ns <= t->ns);
}

bool scope_too_old(const struct reader *r, const struct ekr_record_head *h)
{
	const struct reader_time *from = &r->options.range.from;

	return !in_time(from, h, true) ||
	       (from->set && from->monotonic && !of_newest_boot(r, &r->use));
}

bool scope_too_young(const struct reader *r, const struct ekr_record_head *h)
{
	return !in_time(&r->options.range.to, h, false);
}

bool scope_inside(const struct reader *r, const struct medium_record *record)
{
	const struct reader_range *range = &r->options.range;

	return record->head.sequence >= range->first && record->first <= range->last &&
	       !scope_too_old(r, &record->head) && !scope_too_young(r, &record->head);
}

bool scope_missing(const struct reader *r, const struct medium_record *record, uint64_t *from,
		   uint64_t *to)
{
	const struct reader_range *range = &r->options.range;
	const uint64_t first = record->first;

	/* a gap that is full may cover them */
	if (record->gap.count_lost == UINT32_MAX || !r->any || first <= r->last ||
	    (r->before && scope_too_old(r, &record->head)) ||
	    (r->after && scope_too_young(r, &record->head)))
		return false;
	*from = r->last + 1 > range->first ? r->last + 1 : range->first;
	*to = first - 1 < range->last ? first - 1 : range->last;
	return *from <= *to;
}
