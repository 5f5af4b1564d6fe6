// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gate: who gets the next scheduler tag.
 *
 * A request needs a tag before the scheduler sees it. 100 MB of direct I/O are
 * 200 requests of 512 KB; with 128 tags one group holds them all, another can
 * insert nothing, looks idle and loses its share: that is why weights fail for
 * large I/O. So admission is scheduled as well: a group may hold its share of
 * the tags by weight (ek_may_hold()), and when tags are short, submitters wait
 * here and are let in by the virtual time that their group will have reached,
 * not in the order in which they fell asleep. Regulated groups, whose queues do
 * not move by weight, may hold a number of their own (ek_fixed_may_hold()) and,
 * as long as they hold no more, are let in before the others.
 *
 * limit_depth may sleep: it runs where the block layer itself sleeps for a tag,
 * in the submitter's context with the queue entered.
 */
#include "ek.h"
#include "ek_trace.h"

#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>

/*
 * A waiter looks by itself after this long, should a wake-up be lost; and who
 * frees a tag has this long to say so: it may wait for the lock.
 */
#define EK_GATE_BACKSTOP	(HZ / 4)
#define EK_GATE_GRACE		(HZ / 50 + 1)

/* an admitted submitter takes its tag within this; else it went elsewhere */
#define EK_GRANT_STALE_NS	(20 * NSEC_PER_MSEC)

struct ek_waiter {
	struct list_head node;
	struct ek_group *g;
	struct task_struct *task;
	unsigned long since;	/* jiffies */
	u64 turn;		/* ns: its place among those of its group */
	bool async;
	bool admitted;
};

static u32 ek_tags(struct ek_data *ek)
{
	return READ_ONCE(ek->q->nr_requests) - ek->q->tag_set->reserved_tags;
}

/* Is there room in the share of @g, which has @held tags, for one more? */
static bool ek_gate_has_share(struct ek_data *ek, struct ek_group *g, u32 held,
			      u32 tags, bool async)
{
	if (unlikely(ek_group_is_fixed(g)))
		return ek_fixed_may_hold(held, atomic_read(&ek->fixed_tags),
					tags);
	/* of one that is not active the last known, or its weight */
	return ek_may_hold(held, tags, READ_ONCE(g->share),
			   READ_ONCE(ek->top.sum) << EK_SHARE_SHIFT, async);
}

/*
 * Tags are plentiful and @g holds less than its share: no need to ask. Called
 * without lock; a race lets in one too many, which the next to come pays for.
 */
bool ek_gate_free(struct ek_data *ek, struct ek_group *g, bool async)
{
	u32 tags = ek_tags(ek);
	u32 used = atomic_read(&ek->tags_used) + atomic_read(&ek->granted);

	if (READ_ONCE(ek->nr_waiting))
		return false;
	if (used + max_t(u32, tags / 4, 1) >= tags)
		return false;
	return ek_gate_has_share(ek, g, atomic_read(&g->held), tags, async);
}

/*
 * The same for one that may not wait: it competes with waiters by its share
 * alone, lest a light reader be sent away beside every flood.
 */
bool ek_gate_fits(struct ek_data *ek, struct ek_group *g, bool async)
{
	u32 tags = ek_tags(ek);

	return atomic_read(&ek->tags_used) + atomic_read(&ek->granted) < tags &&
	       ek_gate_has_share(ek, g, atomic_read(&g->held), tags, async);
}

/* Virtual time that @g reaches when all that it has been let in with is served */
static u64 ek_gate_vtime(struct ek_data *ek, struct ek_group *g)
{
	u64 kb = g->queued_kb + (u64)g->pending * g->request_kb;

	return g->vtime + ek_vtime(kb, ek_group_share(ek, g));
}

/* Has @w waited longer than any may? */
static bool ek_gate_starved(struct ek_data *ek, struct ek_waiter *w)
{
	return time_after(jiffies,
			  w->since + msecs_to_jiffies(ek->starve_ms));
}

/* In how many ns that will be so for one that waits since @since. */
static u64 ek_gate_starves_in(struct ek_data *ek, unsigned long since)
{
	long left = since + msecs_to_jiffies(ek->starve_ms) + 1 - jiffies;

	return left > 0 ? (u64)jiffies_to_usecs(left) * NSEC_PER_USEC : 0;
}

/*
 * The first waiter of @g for which its share has room, or NULL. That for
 * asynchronous requests is smaller: one that waits for it keeps no synchronous
 * one of its group waiting.
 */
static struct ek_waiter *ek_gate_first(struct ek_data *ek, struct ek_group *g,
				       u32 tags)
{
	u32 held = atomic_read(&g->held) + g->pending;
	struct ek_waiter *w;

	list_for_each_entry(w, &g->waiters, node) {
		if (ek_gate_has_share(ek, g, held, tags, w->async))
			return w;
		if (!w->async)
			break;
	}
	return NULL;
}

/*
 * The waiter to let in next, or NULL. @until gets the time in ns when that may
 * change though nothing else happens, or is left alone; @since that in jiffies
 * since when the first of those waits who may be let in.
 */
static struct ek_waiter *ek_gate_next(struct ek_data *ek, u32 tags, u64 now,
				      u64 *until, unsigned long *since)
{
	struct ek_waiter *w, *best = NULL, *fixed = NULL, *starved = NULL;
	u64 vtime, best_vtime = 0;
	struct ek_group *g;

	*since = jiffies;
	list_for_each_entry(g, &ek->gate, gate) {
		/* admitted, but its request went another way */
		if (g->pending && now >= g->pending_since + EK_GRANT_STALE_NS)
			g->pending = 0;
		/* others may have come or gone */
		ek_group_share(ek, g);
		w = ek_gate_first(ek, g, tags);
		if (!w) {
			if (g->pending)
				*until = min(*until, g->pending_since +
						     EK_GRANT_STALE_NS);
			continue;
		}
		if (time_before(w->since, *since))
			*since = w->since;
		if (ek_gate_starved(ek, w)) {
			if (!starved || time_before(w->since, starved->since))
				starved = w;
			continue;
		}
		/* those hold few, and no weight says whose turn it is */
		if (unlikely(ek_group_is_fixed(g))) {
			if (!fixed || time_before(w->since, fixed->since))
				fixed = w;
			continue;
		}
		vtime = ek_gate_vtime(ek, g);
		if (!best || ek_before(vtime, best_vtime)) {
			best = w;
			best_vtime = vtime;
		}
	}
	return starved ?: fixed ?: best;
}

/*
 * Is there a tag for somebody? For whom, or NULL: then, where time alone may
 * change that, the timer looks again.
 */
static struct ek_waiter *ek_gate_choose(struct ek_data *ek)
{
	u64 now = ktime_get_ns(), stale = ek->granted_at + EK_GRANT_STALE_NS;
	int granted = atomic_read(&ek->granted), free;
	u64 change = U64_MAX, until;
	struct ek_group *g, *lead;
	u32 tags = ek_tags(ek);
	unsigned long since;
	struct ek_waiter *w;

	if (granted && now >= stale) {
		atomic_set(&ek->granted, 0);
		granted = 0;
		ek->nr_stale_grants++;
	}
	free = (int)tags - atomic_read(&ek->tags_used) - granted;
	if (free <= 0) {
		/* who was admitted may be kept from running for long */
		if (granted)
			ek_hold_arm(ek, now, stale);
		return NULL;
	}
	w = ek_gate_next(ek, tags, now, &change, &since);
	if (!w) {
		if (change != U64_MAX)
			ek_hold_arm(ek, now, change);
		return NULL;
	}
	g = w->g;
	/*
	 * The last tag is kept for a group that is ahead of these and
	 * about to ask; else it would find none and lose its turn.
	 */
	lead = free == 1 ? ek_group_awaited(ek, now, &until) : NULL;
	if (lead && lead != g && list_empty(&lead->waiters) &&
	    !ek_group_is_fixed(g) && !ek_gate_starved(ek, w) &&
	    ek_before(ek_gate_vtime(ek, lead), ek_gate_vtime(ek, g)) &&
	    (until || atomic_read(&ek->in_flight))) {
		ek->nr_gate_holds++;
		if (until)
			lead->thought = true;
		/* a device that does not answer must not stop the starvation guard */
		change = now + ek_gate_starves_in(ek, since);
		ek_hold_arm(ek, now, until ? min(until, change) : change);
		return NULL;
	}
	return w;
}

/* Let in as many waiters as there are tags for. */
void ek_gate_run(struct ek_data *ek)
{
	struct ek_waiter *w;
	struct ek_group *g;

	lockdep_assert_held(&ek->lock);
	while (ek->nr_waiting) {
		w = ek_gate_choose(ek);
		if (!w)
			return;
		g = w->g;
		list_del(&w->node);
		WRITE_ONCE(ek->nr_waiting, ek->nr_waiting - 1);
		if (list_empty(&g->waiters))
			list_del_init(&g->gate);
		g->pending++;
		g->pending_since = ktime_get_ns();
		atomic_inc(&ek->granted);
		ek->granted_at = g->pending_since;
		w->admitted = true;
		wake_up_process(w->task);
	}
}

void ek_gate_kick(struct ek_data *ek)
{
	unsigned long flags;

	spin_lock_irqsave(&ek->lock, flags);
	ek_gate_run(ek);
	spin_unlock_irqrestore(&ek->lock, flags);
}

/* As ek_group_first() does, reads pass writes that came up to @read_lead_us earlier. */
static void ek_gate_queue(struct ek_group *g, struct ek_waiter *w)
{
	struct ek_waiter *before;

	list_for_each_entry_reverse(before, &g->waiters, node)
		if (before->turn <= w->turn)
			break;
	list_add(&w->node, &before->node);
}

/* Wait until @g may have a tag. Process context; holds no lock of ours. */
void ek_gate_admit(struct ek_data *ek, struct ek_group *g, blk_opf_t opf)
{
	struct ek_waiter w = {
		.g = g, .task = current, .async = !op_is_sync(opf),
		.since = jiffies,
	};
	u64 now = ktime_get_ns();
	bool waited = false, overslept = false;
	u64 stale = 0, took;
	u32 waiting;

	spin_lock_irq(&ek->lock);
	w.turn = now;
	if (op_is_write(opf))
		w.turn += ek->read_lead_us * (u64)NSEC_PER_USEC;
	ek_group_arrive(ek, g, now);
	if (list_empty(&g->waiters))
		list_add_tail(&g->gate, &ek->gate);
	ek_gate_queue(g, &w);
	ek_group_activate(ek, g);
	WRITE_ONCE(ek->nr_waiting, ek->nr_waiting + 1);
	/* pairs with the barrier in ek_finish_request() */
	smp_mb();
	for (;;) {
		long left;

		set_current_state(TASK_UNINTERRUPTIBLE);
		waiting = ek->nr_waiting;
		ek_gate_run(ek);
		/* there was a tag for somebody, and nobody has said so */
		if (overslept && ek->nr_waiting < waiting &&
		    ek->nr_stale_grants == stale)
			ek->nr_gate_backstops++;
		if (w.admitted)
			break;
		if (!waited) {
			waited = true;
			g->throttled++;
			ek->nr_gate_waits++;
		}
		spin_unlock_irq(&ek->lock);
		/* this also sends off what the submitter has plugged */
		left = io_schedule_timeout(EK_GATE_BACKSTOP);
		spin_lock_irq(&ek->lock);
		if (w.admitted)
			break;
		stale = ek->nr_stale_grants;
		overslept = !left && ek_gate_choose(ek);
		if (overslept) {
			set_current_state(TASK_UNINTERRUPTIBLE);
			spin_unlock_irq(&ek->lock);
			io_schedule_timeout(EK_GATE_GRACE);
			spin_lock_irq(&ek->lock);
			if (w.admitted)
				break;
		}
	}
	__set_current_state(TASK_RUNNING);
	if (waited) {
		took = ktime_get_ns() - now;
		trace_ek_gate(ek, g, took);
		ek_account_ns(g, op_is_write(opf), EK_HIST_GATE, took);
	}
	spin_unlock_irq(&ek->lock);
}
