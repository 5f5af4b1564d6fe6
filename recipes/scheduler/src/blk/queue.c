// SPDX-License-Identifier: GPL-2.0-only
/*
 * The requests of a group, and which of them is next.
 *
 * The core decides which group is served. Within the group, the order is:
 *  1. urgent requests
 *  2. reads, and synchronous writes as if they had arrived EK_READ_LEAD_NS later, by time
 *  3. asynchronous writes. At most EK_SYNC_STREAK other requests in a row overtake them.
 * Writeback that has waited for EK_WRITEBACK_MAX_NS becomes urgent. The commit of a journal
 * waits for such data of any group, and every fsync() on that file system waits for the
 * commit.
 * Invariant: each request that the core counts as queued is in a fifo, and each that it counts
 * as in flight is in the device. Fifos and the queued counts change together, under
 * ek_data.lock.
 */
#include "ek.h"
#include "trace.h"

/* The most other requests served in a row while an asynchronous write of the group waits. */
#define EK_SYNC_STREAK	4

/*
 * Writeback becomes urgent when it has waited for this time (ns): an fsync() that waits for it
 * should be done within a second. If the share of the group is too small for this, the guard
 * serves the writeback as debt, within its limit. A few groups have their turns meanwhile. So
 * writeback that only waits for its group's turn does not become urgent.
 */
#define EK_WRITEBACK_MAX_NS	(400 * NSEC_PER_MSEC)

/* A hold lasts at most this time (ns), even if the core names none: a device may hang. */
#define EK_HOLD_MAX_NS	(100 * NSEC_PER_MSEC)

void ek_group_init(struct ek_group *g, struct ek_data *ek,
		   struct ek_group *parent, u32 weight)
{
	unsigned long flags;
	int i;

	if (parent)
		ek_group_get(parent);
	for (i = 0; i < EK_CLASSES; i++)
		INIT_LIST_HEAD(&g->fifo[i]);
	INIT_LIST_HEAD(&g->waiters);
	INIT_LIST_HEAD(&g->granted);
	INIT_LIST_HEAD(&g->writers);
	INIT_LIST_HEAD(&g->fixed_node);
	INIT_LIST_HEAD(&g->fixed_ready);
	INIT_LIST_HEAD(&g->fixed_gate);
	spin_lock_irqsave(&ek->lock, flags);
	ek_core_group_init(&ek->core, &g->core, parent ? &parent->core : NULL,
			   weight);
	list_add_tail(&g->node, &ek->groups);
	g->ek = ek;
	spin_unlock_irqrestore(&ek->lock, flags);
}

void ek_group_set_weight(struct ek_group *g, u32 weight)
{
	struct ek_data *ek = g->ek;
	unsigned long flags;

	spin_lock_irqsave(&ek->lock, flags);
	ek_core_set_weight(&ek->core, &g->core, weight);
	if (ek->nr_waiting)
		ek_gate_run(ek);
	spin_unlock_irqrestore(&ek->lock, flags);
}

static struct request *ek_fifo_first(struct ek_group *g, enum ek_class class)
{
	return list_first_entry_or_null(&g->fifo[class], struct request,
					queuelist);
}

/* The core's part of the queued request @rq. */
static struct ek_req ek_rq_queued(struct request *rq)
{
	return (struct ek_req){
		.bytes = blk_rq_bytes(rq),
		.op = ek_rq_op(rq),
		.urgent = ek_rq_state(rq)->urgent,
	};
}

/*
 * Is @rq a synchronous write of a journal's thread? Its commit waits for @rq, and may hold
 * file system locks. Such a thread is a kernel thread with PF_MEMALLOC_NOFS. Threads of
 * dm-crypt and similar drivers lack this flag: they only pass on requests of the group.
 */
static bool ek_is_commit(struct request *rq)
{
	return current->flags & PF_KTHREAD &&
	       current->flags & PF_MEMALLOC_NOFS &&
	       op_is_write(req_op(rq)) && op_is_sync(rq->cmd_flags);
}

/* May a task of another group wait for @rq, which is about to be queued? */
static bool ek_rq_is_urgent(struct request *rq)
{
	return ek_is_urgent(rq->cmd_flags) || ek_rq_awaits_flush(rq) ||
	       unlikely(ek_is_commit(rq));
}

/* Append @rq to the queue of its class. */
static void ek_fifo_add(struct ek_data *ek, struct ek_group *g,
			struct request *rq)
{
	enum ek_class class = ek_rq_class(rq);

	list_add_tail(&rq->queuelist, &g->fifo[class]);
	if (class == EK_WRITE_ASYNC && list_empty(&g->writers))
		list_add_tail(&g->writers, &ek->writers);
}

/* Make writeback urgent that has waited for too long. Called at most once per jiffy. */
static void ek_promote_writeback(struct ek_data *ek, u64 now)
{
	struct ek_group *g, *next;
	struct request *rq;

	ek->tick = jiffies;
	list_for_each_entry_safe(g, next, &ek->writers, writers) {
		/* not for a regulated group: the guard, which limits urgent service, ignores it */
		while (!g->regulated &&
		       (rq = ek_fifo_first(g, EK_WRITE_ASYNC)) &&
		       now > rq->start_time_ns + EK_WRITEBACK_MAX_NS) {
			ek_rq_state(rq)->urgent = true;
			list_move_tail(&rq->queuelist, &g->fifo[EK_URGENT]);
			ek_core_promote(&ek->core, &g->core);
		}
		if (list_empty(&g->fifo[EK_WRITE_ASYNC]))
			list_del_init(&g->writers);
	}
}

/* Queue @rq, a request that was just allocated, in @g. */
void ek_group_add(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	struct ek_rq_state *state = ek_rq_state(rq);

	lockdep_assert_held(&ek->lock);
	*state = (struct ek_rq_state){
		.channel = EK_CHANNEL_NONE,
		.urgent = ek_rq_is_urgent(rq),
	};
	if (!g->queued && unlikely(ek_group_is_fixed(g)))
		ek_fixed_enter(ek, g);
	g->queued++;
	ek_fifo_add(ek, g, rq);
	g->awaiting_flush += ek_rq_awaits_flush(rq);
	ek_channel_note(ek, rq);
	WRITE_ONCE(ek->nr_queued, ek->nr_queued + 1);
	WRITE_ONCE(ek->nr_ready, ek->nr_ready + 1);
	if (unlikely(g->regulated)) {
		if (g->queued == 1)
			list_add_tail(&g->fixed_ready, &ek->fixed.ready);
	} else {
		struct ek_req r = ek_rq_queued(rq);

		ek_core_insert(&ek->core, &g->core, &r,
			       ek->inserted ?: ktime_get_ns());
	}
	if (g->pending)
		ek_gate_inserted(ek, g);
	if (unlikely(ek->inserted))
		ek_blame_queued(ek, g, rq);
	WRITE_ONCE(ek->on_hold, false);
}

/* @rq of @g goes to the device at @now. Account it; @r has the results of the core. */
static void ek_rq_sent(struct ek_data *ek, struct ek_group *g,
		       struct request *rq, struct ek_req *r, u64 now)
{
	struct ek_rq_state *state = ek_rq_state(rq);
	int dir = op_is_write(req_op(rq));

	state->cost = r->cost;
	state->why = r->why;
	state->size = ek_size_class(r->bytes);
	state->flight = true;
	rq->fifo_time = now;
	if (likely(!ek_rq_erases(rq)))
		g->bytes[dir] += r->bytes;
	g->ios[dir]++;
	if (atomic_inc_return(&ek->in_flight) == 1 && unlikely(ek->fixed.nr))
		WRITE_ONCE(ek->fixed.busy_since, now);
	if (unlikely(state->blamed))
		ek_blame_dispatched(ek, rq, now);
	trace_ek_dispatch(ek, g, rq);
}

/*
 * May @rq, a request that was just allocated, go to the device at once, without being queued?
 * True if it goes: see ek_core_quick(). The time of its allocation serves as the present time,
 * which saves a look at the clock.
 */
bool ek_group_quick(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	struct ek_req r = { .bytes = blk_rq_bytes(rq), .op = ek_rq_op(rq) };
	u64 now = rq->start_time_ns;

	lockdep_assert_held(&ek->lock);
	if (ek->fixed.nr || g->regulated || ek->channels > 1 ||
	    !ek_core_quick(&ek->core, &g->core, &r, now))
		return false;
	*ek_rq_state(rq) = (struct ek_rq_state){ .channel = EK_CHANNEL_NONE };
	if (unlikely(ek->inserted))
		ek_blame_queued(ek, g, rq);
	ek_rq_sent(ek, g, rq, &r, now);
	return true;
}

/* @rq leaves its fifo in @g: it goes to the device, or was merged into another request. */
static void ek_group_take(struct ek_data *ek, struct ek_group *g,
			  struct request *rq)
{
	lockdep_assert_held(&ek->lock);
	list_del_init(&rq->queuelist);
	WRITE_ONCE(ek->nr_queued, ek->nr_queued - 1);
	WRITE_ONCE(ek->nr_ready, ek->nr_ready - 1);
	g->queued--;
	g->awaiting_flush -= ek_rq_awaits_flush(rq);
	if (unlikely(g->regulated) && !g->queued)
		list_del_init(&g->fixed_ready);
}

/* @rq of @g was merged into another request. */
void ek_group_remove(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	struct ek_req r = ek_rq_queued(rq);

	ek_group_take(ek, g, rq);
	if (ek_rq_state(rq)->blamed)
		ek_blame_merged(ek, g);
	if (!g->regulated)
		ek_core_remove(&ek->core, &g->core, &r);
}

/*
 * From now on, serve @g by fixed share (@regulated) or by weight. @g must have nothing in the
 * device and no grants. Its queued requests leave or enter the core's counts.
 */
void ek_group_regulate(struct ek_data *ek, struct ek_group *g, bool regulated)
{
	struct request *rq;
	struct ek_req r;
	int class;

	lockdep_assert_held(&ek->lock);
	if (g->regulated == regulated)
		return;
	WRITE_ONCE(g->regulated, regulated);
	ek_gate_sort(ek, g);
	for (class = 0; class < EK_CLASSES; class++) {
		list_for_each_entry(rq, &g->fifo[class], queuelist) {
			r = ek_rq_queued(rq);
			if (regulated)
				ek_core_remove(&ek->core, &g->core, &r);
			else
				ek_core_insert(&ek->core, &g->core, &r,
					       ktime_get_ns());
		}
	}
	if (regulated)
		ek_core_group_exit(&ek->core, &g->core);
	if (regulated && g->queued)
		list_add_tail(&g->fixed_ready, &ek->fixed.ready);
	else
		list_del_init(&g->fixed_ready);
}

/* The request of @g to serve next, by the order at the top of this file. @g must have one. */
static struct request *ek_group_first(struct ek_data *ek, struct ek_group *g)
{
	struct request *urgent = ek_fifo_first(g, EK_URGENT);
	struct request *read = ek_fifo_first(g, EK_READ);
	struct request *write = ek_fifo_first(g, EK_WRITE_SYNC);
	struct request *async = ek_fifo_first(g, EK_WRITE_ASYNC);
	u64 latest = U64_MAX;

	if (urgent)
		return urgent;
	if (async && (g->sync_streak >= EK_SYNC_STREAK || (!read && !write)))
		return async;
	if (write) {
		latest = write->start_time_ns + EK_READ_LEAD_NS;
		if (!read || read->start_time_ns > latest)
			return write;
	}
	if (unlikely(ek->channels > 1) && ek_channel_on(ek))
		return ek_channel_first(ek, g, latest);
	return read;
}

/* @rq of @g goes to the device: count it on its channel. */
static void ek_channel_serve(struct ek_data *ek, struct ek_group *g,
			     struct request *rq)
{
	struct ek_rq_state *state = ek_rq_state(rq);
	u32 channel = ek_rq_channel(ek, rq);

	ek_debug_warn(ek_rq_class(rq) == EK_READ && channel != state->channel);
	state->channel = channel;
	if (channel != EK_CHANNEL_NONE)
		atomic_inc(&ek->channel_flight[channel]);
	g->reordered += ek_rq_class(rq) == EK_READ &&
			!list_is_first(&rq->queuelist, &g->fifo[EK_READ]);
}

/* Dispatch @rq of @g. Either the core picked @g, or @g is regulated. */
static struct request *ek_serve(struct ek_data *ek, struct ek_group *g,
				struct request *rq, u64 now)
{
	struct ek_rq_state *state = ek_rq_state(rq);
	struct ek_req r = ek_rq_queued(rq);

	if (ek_rq_class(rq) == EK_WRITE_ASYNC)
		g->sync_streak = 0;
	else
		g->sync_streak += !list_empty(&g->fifo[EK_WRITE_ASYNC]);
	if (unlikely(ek->channels > 1))
		ek_channel_serve(ek, g, rq);
	ek_group_take(ek, g, rq);
	if (unlikely(g->regulated)) {
		atomic_inc(&g->fixed_flight);
		atomic_inc(&ek->fixed_in_flight);
		state->regulated = true;
		ek_fixed_expect(ek, g, rq);
	} else {
		ek_core_dispatch(&ek->core, &g->core, &r, now);
	}
	ek_rq_sent(ek, g, rq, &r, now);
	return rq;
}

/* @rq of @g left the device at @now. @served: it was completed. Any context, no lock. */
void ek_rq_left_device(struct ek_data *ek, struct ek_group *g,
		       struct request *rq, bool served, u64 now)
{
	struct ek_rq_state *state = ek_rq_state(rq);

	if (!state->flight)
		return;
	state->flight = false;
	if (unlikely(state->blamed))
		ek_blame_left(ek, g, rq, now);
	if (unlikely(state->channel != EK_CHANNEL_NONE))
		atomic_dec(&ek->channel_flight[state->channel]);
	if (unlikely(state->regulated)) {
		atomic_dec(&ek->fixed_in_flight);
		atomic_dec(&g->fixed_flight);
	} else {
		struct ek_req r = {
			.bytes = 512U << state->size,
			.op = ek_rq_op(rq),
			.urgent = state->urgent,
			.why = state->why,
			.cost = state->cost,
			.issued = rq->fifo_time,
		};

		ek_core_complete(&ek->core, &g->core, &r, !served, now);
	}
	atomic_dec(&ek->in_flight);
	/* pairs with ek_hold(): either this sees @on_hold, or ek_hold() sees the new in_flight */
	smp_mb__after_atomic();
	if (READ_ONCE(ek->on_hold)) {
		WRITE_ONCE(ek->on_hold, false);
		blk_mq_run_hw_queues(ek->q, true);
	}
}

/*
 * Let the hold timer expire at @until (ns), unless it expires earlier anyway. One timer is
 * enough: when it expires, dispatch and the gate are both tried again.
 */
void ek_hold_arm(struct ek_data *ek, u64 now, u64 until)
{
	if (hrtimer_is_queued(&ek->hold_timer) &&
	    ktime_to_ns(hrtimer_get_expires(&ek->hold_timer)) <= until)
		return;
	hrtimer_start(&ek->hold_timer, ns_to_ktime(max(until, now + 1)),
		      HRTIMER_MODE_ABS);
}

/*
 * Hold dispatch until a completion, an insertion, or @until (ns). Returns false, without a
 * hold, if a request completed since the caller read in_flight as @flight: then the caller
 * must decide again.
 */
static bool ek_hold(struct ek_data *ek, u32 flight, u64 now, u64 until)
{
	WRITE_ONCE(ek->on_hold, true);
	/* pairs with the barrier in ek_rq_left_device() */
	smp_mb();
	if (atomic_read(&ek->in_flight) != flight) {
		WRITE_ONCE(ek->on_hold, false);
		return false;
	}
	ek->nr_holds++;
	until = min(until, now + EK_HOLD_MAX_NS);
	trace_ek_hold(ek, until);
	ek_hold_arm(ek, now, until);
	return true;
}

/* Dispatch a regulated request that may go now. If none, lower *@until to when one may. */
static struct request *ek_next_fixed(struct ek_data *ek, u64 now, u64 *until)
{
	struct ek_group *g;

	if (time_after(jiffies, ek->fixed.tick))
		ek_fixed_tick(ek);
	if (list_empty(&ek->fixed.ready))
		return NULL;
	g = ek_fixed_first(ek);
	if (g)
		return ek_serve(ek, g, ek_group_first(ek, g), now);
	if (ek->fixed.until)
		*until = min(*until, ek->fixed.until);
	return NULL;
}

/*
 * Must @g, which the core picked, wait because of fixed shares? If it got a fixed share
 * itself, it must wait until its own requests have left the device. Otherwise it must wait
 * while the cap is reached.
 */
static bool ek_fixed_holds(struct ek_data *ek, struct ek_group *g, u32 flight)
{
	if (g->fixed && !g->regulated)
		return atomic_read(&g->core.in_flight);
	return ek_fixed_full(ek, flight);
}

/* The next request for the device; NULL if nothing is queued or dispatch is on hold. */
struct request *ek_next(struct ek_data *ek)
{
	struct ek_core_group *picked;
	struct request *rq;
	struct ek_group *g;
	u64 now, until;
	u32 flight;

	lockdep_assert_held(&ek->lock);
	if (!ek->nr_queued)
		return NULL;
	/* a write to queue/nr_requests may have changed the number of tags */
	ek->core.tags = ek_tags(ek);
	now = ktime_get_ns();
	if (unlikely(!list_empty(&ek->writers)) && time_after(jiffies, ek->tick))
		ek_promote_writeback(ek, now);
	do {
		until = U64_MAX;
		flight = atomic_read_acquire(&ek->in_flight);
		if (unlikely(ek->fixed.nr || !list_empty(&ek->fixed.ready))) {
			rq = ek_next_fixed(ek, now, &until);
			if (rq)
				return rq;
		}
		picked = ek_core_pick(&ek->core, now, &until);
		if (!picked)
			continue;
		g = ek_group_of(picked);
		if (likely(!ek->fixed.nr) || !ek_fixed_holds(ek, g, flight)) {
			if (likely(!g->fixed))
				return ek_serve(ek, g, ek_group_first(ek, g), now);
			ek_fixed_convert(ek, g);
			/* no real value: ek_hold() returns false, and regulated groups are tried */
			flight = U32_MAX;
		}
	} while (!ek_hold(ek, flight, now, until));
	return NULL;
}
