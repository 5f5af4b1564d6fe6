// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which group is next: start-time fair queueing over cgroups, with a short
 * wait for a group that is owed service and is about to ask for it.
 *
 * Active groups are in one of two trees by virtual time: @backlogged, those
 * with requests here, and @awaited, those without but with a request in the
 * device, a submitter at the gate, or a habit of coming back at once. When an
 * awaited group is behind the first backlogged one, serving the other would
 * give its turn away: a synchronous reader at depth 1 is in that state between
 * any two reads, and a group whose submitter waits for a tag is in it always.
 */
#include "ek.h"

/* sync requests served in a row while an async one of the same group waits */
#define EK_SYNC_STREAK	4

/* what is added to twice the mean think time, for its spread; us */
#define EK_THINK_SLACK_US	100

void ek_group_init(struct ek_group *g, struct ek_data *ek)
{
	g->ek = ek;
	g->vtime = READ_ONCE(ek->vnow);
	RB_CLEAR_NODE(&g->node);
	INIT_LIST_HEAD(&g->fifo[0]);
	INIT_LIST_HEAD(&g->fifo[1]);
	INIT_LIST_HEAD(&g->turn);
	INIT_LIST_HEAD(&g->waiters);
	INIT_LIST_HEAD(&g->gate);
}

static struct ek_group *ek_node_group(struct rb_node *node)
{
	return rb_entry_safe(node, struct ek_group, node);
}

static bool ek_node_before(struct rb_node *a, const struct rb_node *b)
{
	return ek_before(rb_entry(a, struct ek_group, node)->vtime,
			 rb_entry(b, struct ek_group, node)->vtime);
}

static struct rb_root_cached *ek_tree(struct ek_data *ek, struct ek_group *g)
{
	return g->queued ? &ek->backlogged : &ek->awaited;
}

void ek_group_activate(struct ek_data *ek, struct ek_group *g)
{
	lockdep_assert_held(&ek->lock);
	if (g->active)
		return;
	g->active = true;
	g->vtime = ek_later(g->vtime, ek->vnow);
	ek->nr_active++;
	ek->weight_sum += g->weight;
	rb_add_cached(&g->node, ek_tree(ek, g), ek_node_before);
	ek_group_get(g);
}

/* @g must be in the tree of awaited groups. May free it. */
static void ek_group_deactivate(struct ek_data *ek, struct ek_group *g)
{
	rb_erase_cached(&g->node, &ek->awaited);
	RB_CLEAR_NODE(&g->node);
	g->active = false;
	g->thought = false;
	ek->nr_active--;
	ek->weight_sum -= g->weight;
	ek_group_put(g);
}

void ek_group_set_weight(struct ek_group *g, u32 weight)
{
	struct ek_data *ek = g->ek;
	unsigned long flags;

	spin_lock_irqsave(&ek->lock, flags);
	if (g->active)
		ek->weight_sum += (u64)weight - g->weight;
	g->weight = weight;
	spin_unlock_irqrestore(&ek->lock, flags);
}

/* Put @g back in order after its virtual time grew. */
static void ek_group_reposition(struct ek_data *ek, struct ek_group *g)
{
	struct ek_group *next = ek_node_group(rb_next(&g->node));
	struct rb_root_cached *tree = ek_tree(ek, g);

	if (!next || !ek_before(next->vtime, g->vtime))
		return;
	rb_erase_cached(&g->node, tree);
	rb_add_cached(&g->node, tree, ek_node_before);
}

/* The group's mean think time learns that it took @us this time. */
static void ek_group_learn(struct ek_data *ek, struct ek_group *g, u64 us)
{
	u32 sample = min_t(u64, us, 4 * ek->think_max_us);

	g->think_us = ek_think(g->think_us, sample);
	g->thought = false;
}

/* The next request of @g is here at @now: how long did it think? */
void ek_group_arrive(struct ek_data *ek, struct ek_group *g, u64 now)
{
	if (!g->queued && !g->pending && list_empty(&g->waiters) &&
	    !atomic_read(&g->in_flight) && g->last_done && now > g->last_done)
		ek_group_learn(ek, g, div_u64(now - g->last_done, 1000));
}

void ek_group_add(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	u32 cost = ek_rq_cost_kb(ek, rq);

	lockdep_assert_held(&ek->lock);
	if (!g->queued) {
		/* one that came through the gate was noted there */
		ek_group_arrive(ek, g, rq->start_time_ns);
		if (g->active)
			rb_erase_cached(&g->node, &ek->awaited);
		g->queued = 1;
		if (g->active)
			rb_add_cached(&g->node, &ek->backlogged, ek_node_before);
		else
			ek_group_activate(ek, g);
		list_add_tail(&g->turn, &ek->turns);
		g->served = jiffies;
		g->queued_kb = 0;
	} else {
		g->queued++;
	}
	list_add_tail(&rq->queuelist, &g->fifo[op_is_sync(rq->cmd_flags)]);
	ek->nr_queued++;
	g->queued_kb += cost;
	/* merges change the request's size, not what was added */
	rq->fifo_time = cost;
	g->request_kb = cost;
	g->pending = 0;
	WRITE_ONCE(ek->on_hold, false);
}

/* Take @rq out of its group's queue. */
void ek_group_remove(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	lockdep_assert_held(&ek->lock);
	list_del_init(&rq->queuelist);
	ek->nr_queued--;
	g->queued_kb -= rq->fifo_time;
	if (g->queued > 1) {
		g->queued--;
		return;
	}
	rb_erase_cached(&g->node, &ek->backlogged);
	g->queued = 0;
	g->queued_kb = 0;
	rb_add_cached(&g->node, &ek->awaited, ek_node_before);
	list_del_init(&g->turn);
}

/*
 * Will @g, which has nothing queued, ask soon? @until gets the time in ns at
 * which to give up, or 0 when a completion is certain to end the wait.
 */
static bool ek_group_expected(struct ek_data *ek, struct ek_group *g, u64 now,
			      u64 *until)
{
	u64 window;

	*until = 0;
	if (atomic_read(&g->in_flight))
		return true;
	/* somebody else's completion frees the tag that it waits for */
	if (!list_empty(&g->waiters) && atomic_read(&ek->in_flight))
		return true;
	if (g->pending) {
		*until = g->pending_since + ek->think_max_us * NSEC_PER_USEC;
		if (now < *until)
			return true;
		g->pending = 0;
	}
	/* it cannot come without a tag, and none is about to be freed */
	if (!list_empty(&g->waiters))
		return false;
	if (g->think_us > ek->think_max_us)
		return false;
	window = min_t(u64, 2 * g->think_us + EK_THINK_SLACK_US,
		       ek->think_max_us);
	*until = READ_ONCE(g->last_done) + window * NSEC_PER_USEC;
	if (now < *until)
		return true;
	if (g->thought) {
		ek->nr_hold_expired++;
		ek_group_learn(ek, g, U64_MAX);
	}
	return false;
}

/*
 * The awaited group with the least virtual time, or NULL. Those that do not
 * come back leave the tree here, which keeps the sum of weights true.
 */
struct ek_group *ek_group_awaited(struct ek_data *ek, u64 now, u64 *until)
{
	struct ek_group *g;

	lockdep_assert_held(&ek->lock);
	while ((g = ek_node_group(rb_first_cached(&ek->awaited)))) {
		if (ek_group_expected(ek, g, now, until))
			return g;
		if (!list_empty(&g->waiters)) {
			/* stays active, but nothing can be gained by waiting */
			return NULL;
		}
		ek_group_deactivate(ek, g);
	}
	return NULL;
}

static struct request *ek_group_first(struct ek_group *g)
{
	bool sync = !list_empty(&g->fifo[1]);

	if (sync && !list_empty(&g->fifo[0]) &&
	    g->sync_streak >= EK_SYNC_STREAK)
		sync = false;
	return list_first_entry(&g->fifo[sync], struct request, queuelist);
}

static struct request *ek_serve(struct ek_data *ek, struct ek_group *g)
{
	struct request *rq = ek_group_first(g);
	u32 cost = ek_rq_cost_kb(ek, rq);

	if (op_is_sync(rq->cmd_flags))
		g->sync_streak += !list_empty(&g->fifo[0]);
	else
		g->sync_streak = 0;

	/* before it leaves the queue: the group must not look idle between */
	atomic_inc(&g->in_flight);
	atomic_inc(&ek->in_flight);
	atomic_add(cost, &ek->in_flight_kb);
	ek_rq_set_flight_kb(rq, cost);

	ek_group_remove(ek, g, rq);
	ek->vnow = ek_later(ek->vnow, g->vtime);
	g->vtime += ek_vtime(cost, g->weight);
	ek_group_reposition(ek, g);
	g->served = jiffies;
	if (g->queued)
		list_move_tail(&g->turn, &ek->turns);
	return rq;
}

/* The earliest wins: all that waits is looked at again when it fires. */
void ek_hold_arm(struct ek_data *ek, u64 now, u64 until)
{
	if (hrtimer_is_queued(&ek->hold_timer) &&
	    ktime_to_ns(hrtimer_get_expires(&ek->hold_timer)) <= until)
		return;
	hrtimer_start(&ek->hold_timer, ns_to_ktime(until > now ? until - now : 1),
		      HRTIMER_MODE_REL);
}

/*
 * The next request for the device, or NULL, either because there is none or
 * because holding back serves the weights: then a completion, an insertion or
 * the timer clears @on_hold and runs the queue again.
 *
 * Beside other active groups at most @window_kb are in the device, for what is
 * in it is out of the scheduler's hands. A group may run ahead of an awaited
 * one that it should wait for only as far as @ahead_kb fill the device: small
 * requests must not idle a parallel device for the sake of one reader.
 */
struct request *ek_next(struct ek_data *ek, u64 now)
{
	struct ek_group *g, *lead;
	u32 flight, kb, cost, room;
	struct request *rq;
	u64 until, vnow;

	lockdep_assert_held(&ek->lock);
	g = list_first_entry_or_null(&ek->turns, struct ek_group, turn);
	if (!g)
		return NULL;
	if (time_after(jiffies, g->served + msecs_to_jiffies(ek->starve_ms))) {
		/* out of turn: its virtual time is not the system's */
		vnow = ek->vnow;
		rq = ek_serve(ek, g);
		ek->vnow = vnow;
		ek->nr_starved++;
		return rq;
	}
again:
	flight = atomic_read(&ek->in_flight);
	kb = atomic_read(&ek->in_flight_kb);
	until = 0;
	g = ek_node_group(rb_first_cached(&ek->backlogged));
	if (ek->nr_active == 1)
		return ek_serve(ek, g);

	cost = ek_rq_cost_kb(ek, ek_group_first(g));
	lead = ek_group_awaited(ek, now, &until);
	if (lead && !ek_before(lead->vtime, g->vtime))
		lead = NULL;
	if (!lead) {
		until = 0;
		room = ek->nr_active > 1 ? ek->window_kb : U32_MAX;
	} else {
		room = flight ? ek->ahead_kb : 0;
	}
	if (kb + cost <= room)
		return ek_serve(ek, g);
	/* nothing would end a hold */
	if (!flight && !until)
		return ek_serve(ek, g);

	WRITE_ONCE(ek->on_hold, true);
	/* pairs with the barrier in ek_completed_request() */
	smp_mb();
	if (atomic_read(&ek->in_flight) != flight) {
		WRITE_ONCE(ek->on_hold, false);
		goto again;
	}
	ek->nr_holds++;
	/* a device that does not answer must not stop the starvation guard */
	if (until)
		lead->thought = true;
	else
		until = now + (ek->starve_ms + 10) * (u64)NSEC_PER_MSEC;
	ek_hold_arm(ek, now, until);
	return NULL;
}

/* All groups leave the trees; the queue is frozen and empty. */
void ek_groups_clear(struct ek_data *ek)
{
	struct ek_group *g;

	spin_lock_irq(&ek->lock);
	WARN_ON_ONCE(!RB_EMPTY_ROOT(&ek->backlogged.rb_root));
	while ((g = ek_node_group(rb_first_cached(&ek->awaited))))
		ek_group_deactivate(ek, g);
	spin_unlock_irq(&ek->lock);
}
