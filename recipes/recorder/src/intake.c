// SPDX-License-Identifier: Apache-2.0
/* Where the records of a channel arrive. */
#include "intake.h"

#include <errno.h>

#include "clock.h"

#define GAP_BYTES (sizeof(struct ekr_record_head) + sizeof(struct ekr_gap))
/* a writer reads a clock for each record that it loses, ns: it cannot count faster */
#define LOSS_TIME 10
/* no channel has more records; a writer cannot wrap the sequences */
#define SEQUENCE_MOST (UINT64_C(1) << 62)

void intake_open(struct intake *in, struct buffer *buffer, uint32_t record_size, uint64_t window_ns,
		 uint64_t next_sequence)
{
	in->buffer = buffer;
	in->early_ns = window_ns / 4;
	in->record_size = record_size;
	in->next_sequence = next_sequence;
	in->claimed = 0;
	/* no record is older than this, whatever a writer says */
	in->last_ns = monotonic_ns();
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void intake_lose(struct intake *in, enum ekr_gap_reason reason, uint64_t lost)
{
	if (!in->gap) {
		in->gap = true;
		in->gap_reason = reason;
		in->gap_first = in->next_sequence;
		in->gap_unknown = !lost;
	} else if (lost) {
		/* a loss of unknown length took one sequence: together with this one the number is a lower bound */
		in->gap_unknown = false;
	}
	/* a loss of unknown length takes one sequence, so that sequences always grow */
	in->next_sequence += lost ? lost : 1;
	count(reason == EKR_GAP_OVERRUN ? &in->overrun :
	      reason == EKR_GAP_ABSENT	? &in->absent :
	      reason == EKR_GAP_RESTART ? &in->restarts :
					  &in->broken,
	      lost ? lost : 1);
}

/*
 * All reports together are limited to what one writer can lose since the boot. Otherwise writers could use up the
 * sequence numbers of the channel. A loss beyond that is recorded without its number: the writer may be honest, and
 * another one not.
 */
static void lose_reported(struct intake *in, enum ekr_gap_reason reason, uint64_t lost,
			  uint64_t now)
{
	const bool known = lost <= now / LOSS_TIME - in->claimed &&
			   in->next_sequence <= SEQUENCE_MOST &&
			   lost <= SEQUENCE_MOST - in->next_sequence;

	if (!lost)
		return;
	if (known)
		in->claimed += lost;
	intake_lose(in, reason, known ? lost : 0);
}

int intake_expect(struct intake *in, struct intake_writer *w, uint64_t sequence)
{
	const uint64_t now = monotonic_ns(), lost = sequence - w->next;

	if (sequence < w->next || lost > (now - w->since_ns) / LOSS_TIME)
		return -EPROTO;
	/* before the first record of a connection the writer was waiting for it */
	lose_reported(in, w->records ? EKR_GAP_OVERRUN : EKR_GAP_ABSENT, lost, now);
	if (w->records)
		w->lost += lost;
	w->next = sequence;
	return 0;
}

int intake_absent(struct intake *in, uint64_t lost)
{
	const uint64_t now = monotonic_ns();

	if (lost > now / LOSS_TIME)
		return -EPROTO;
	lose_reported(in, EKR_GAP_ABSENT, lost, now);
	return 0;
}

static bool put_gap(struct intake *in)
{
	uint64_t lost = in->next_sequence - in->gap_first;
	const struct ekr_gap gap = {
		.reason = in->gap_reason,
		.count_lost = in->gap_unknown && lost == 1 ? 0 :
			      lost > UINT32_MAX		   ? UINT32_MAX :
							     (uint32_t)lost,
	};
	const struct record record = {
		.sequence = in->next_sequence - 1,
		.monotonic_ns = monotonic_ns(),
		.realtime_ns = realtime_ns(),
		.payload = &gap,
		.length = sizeof(gap),
		.flags = EKR_RECORD_GAP,
	};

	if (buffer_put(in->buffer, &record, in->gap_first, &in->wake))
		return false;
	in->gap = false;
	return true;
}

/* a gap is recorded together with the next record: otherwise one overrun would become many gaps */
static bool room_for(struct intake *in, uint32_t length)
{
	return buffer_has_room(in->buffer, length + (in->gap ? (uint32_t)GAP_BYTES : 0));
}

bool intake_has_room(struct intake *in)
{
	return buffer_has_room(in->buffer, in->record_size + (uint32_t)GAP_BYTES);
}

bool intake_tell(struct intake *in)
{
	return !in->gap || (intake_has_room(in) && put_gap(in));
}

/*
 * Times never decrease with the sequence, and no time is in the future. So if a later record of another writer was
 * taken first, this record gets the time of that one. acquired_ns is not raised.
 */
static void correct_times(const struct intake *in, struct record *r, uint64_t now)
{
	int64_t raised = 0;

	if (r->monotonic_ns > now)
		r->monotonic_ns = now;
	if (!r->acquired_ns || r->acquired_ns > r->monotonic_ns)
		r->acquired_ns = r->monotonic_ns;
	if (r->monotonic_ns < in->last_ns) {
		raised = (int64_t)(in->last_ns - r->monotonic_ns);
		r->monotonic_ns = in->last_ns;
	}
	/* both clocks of a record are of the same moment; what a writer says may be any number */
	if (__builtin_add_overflow(r->realtime_ns, raised, &r->realtime_ns))
		r->realtime_ns = INT64_MAX;
	r->window_ns = now - r->monotonic_ns > in->early_ns ? now - in->early_ns : r->monotonic_ns;
}

int intake_take(struct intake *in, struct intake_writer *w, const struct record *r, bool drop)
{
	const uint64_t now = monotonic_ns();
	const uint64_t submitted = r->monotonic_ns < now ? r->monotonic_ns : now;
	struct record record = *r;

	if (r->length > in->record_size || intake_expect(in, w, r->sequence))
		return -EPROTO;
	correct_times(in, &record, now);
	record.sequence = in->next_sequence;
	record.flags = 0;
	if (!room_for(in, record.length) || (in->gap && !put_gap(in)) ||
	    buffer_put(in->buffer, &record, record.sequence, &in->wake)) {
		if (drop) {
			intake_lose(in, EKR_GAP_OVERRUN, 1);
			w->next++;
			w->lost++;
			w->records = true;
		}
		return -ENOBUFS;
	}
	w->next++;
	w->records = true;
	/* when it was submitted: the recorder may take later submissions of other writers first */
	if (w->since_ns < submitted)
		w->since_ns = submitted;
	in->last_ns = record.monotonic_ns;
	in->next_sequence = record.sequence + 1;
	count(&in->records, 1);
	count(&in->bytes, record.length);
	return 0;
}
