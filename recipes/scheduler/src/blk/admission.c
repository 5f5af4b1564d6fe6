// SPDX-License-Identifier: GPL-2.0-only
/*
 * Admission: submitters that wait for a scheduler tag.
 *
 * A request needs a tag before the scheduler sees it. 100 MB of direct I/O are 200 requests
 * of 512 KB. With 128 tags, one group can hold all tags. Another group can then insert
 * nothing, looks idle and loses its share: this is why weights fail with large I/O. So when
 * few tags are free, submitters wait here. The core chooses the group whose submitter gets
 * the next tag. Groups with a fixed share go before the others, within the number of tags
 * that ek_fixed_may_hold() allows.
 *
 * limit_depth may sleep. It runs where the block layer itself sleeps for a tag: in the
 * submitter's context, with a reference on the queue. Whoever admits a waiter wakes it.
 * ek_gate_run() admits waiters after five events: a tag was freed, a request was inserted, a
 * request was dispatched, a weight or fixed share changed, or a grant became stale.
 */
#include "ek.h"
#include "trace.h"

#include <linux/sched.h>

/*
 * A grant becomes void if no request used it within this time (ns) of its group's last grant.
 * The submitter merged its bio, or needs no tag any more.
 */
#define EK_GRANT_STALE_NS	(20 * NSEC_PER_MSEC)

/*
 * Reads of a group go before its writeback that came up to this time (ns) earlier. For
 * synchronous writes, the time is EK_READ_LEAD_NS.
 */
#define EK_ASYNC_LAG_NS		(100 * NSEC_PER_MSEC)

/* A submitter that sleeps until it may take a tag. On its stack. */
struct ek_waiter {
	struct list_head node;	/* in ek_group.waiters */
	struct task_struct *task;
	u64 turn;		/* sort key among the waiters of its group, ns */
	bool admitted;
};

/*
 * May a submitter that must not sleep take a tag for @g? It may while @g holds less than its
 * share of the tags, whichever submitters wait. Otherwise a flood would make every light
 * reader fail with -EAGAIN. Called without the lock: a race may admit one too many.
 */
bool ek_gate_fits(struct ek_data *ek, struct ek_group *g, bool async)
{
	u32 tags = ek_tags(ek), held = atomic_read(&g->held);

	if (atomic_read(&ek->tags_used) + atomic_read(&ek->granted) >= tags)
		return false;
	if (unlikely(ek_group_is_fixed(g)))
		return ek_fixed_may_hold(held, atomic_read(&ek->fixed_tags), tags);
	/* if the group is not active, this is its last known share */
	return ek_may_hold(held, tags, READ_ONCE(g->core.share),
			   READ_ONCE(ek->core.top.sum) << EK_SHARE_SHIFT, async);
}

/*
 * Move the waiting submitters of @g to where they belong: to ek_fixed.gate if @g has a fixed
 * share, otherwise to the core.
 */
void ek_gate_sort(struct ek_data *ek, struct ek_group *g)
{
	bool fixed = g->fixed || g->regulated;
	u64 now = ktime_get_ns();
	u32 i;

	lockdep_assert_held(&ek->lock);
	if (fixed == g->gate_fixed)
		return;
	g->gate_fixed = fixed;
	for (i = 0; i < g->nr_waiting; i++) {
		if (fixed)
			ek_core_depart(&ek->core, &g->core);
		else
			ek_core_arrive(&ek->core, &g->core, now);
	}
	if (fixed && g->nr_waiting)
		list_add_tail(&g->fixed_gate, &ek->fixed.gate);
	else
		list_del_init(&g->fixed_gate);
}

/* Add @w to the waiters of @g, in order of its turn. */
static void ek_gate_queue(struct ek_data *ek, struct ek_group *g,
			  struct ek_waiter *w, u64 now)
{
	struct ek_waiter *before;

	list_for_each_entry_reverse(before, &g->waiters, node)
		if (before->turn <= w->turn)
			break;
	list_add(&w->node, &before->node);
	g->nr_waiting++;
	WRITE_ONCE(ek->nr_waiting, ek->nr_waiting + 1);
	ek_gate_sort(ek, g);
	if (!g->gate_fixed)
		ek_core_arrive(&ek->core, &g->core, now);
	else if (list_empty(&g->fixed_gate))
		list_add_tail(&g->fixed_gate, &ek->fixed.gate);
}

/* A group with a fixed share whose submitter may have a tag, or NULL. */
static struct ek_group *ek_gate_fixed(struct ek_data *ek, u32 tags)
{
	u32 all = atomic_read(&ek->fixed_tags);
	struct ek_group *g;

	list_for_each_entry(g, &ek->fixed.gate, fixed_gate)
		if (ek_fixed_may_hold(atomic_read(&g->held) + g->pending, all,
				      tags))
			return g;
	return NULL;
}

/* The group whose submitter gets one of @free tags, or NULL. */
static struct ek_group *ek_gate_next(struct ek_data *ek, u32 free, u64 now)
{
	struct ek_core_group *core;
	struct ek_group *g;

	ek->core.tags = ek_tags(ek);
	if (unlikely(!list_empty(&ek->fixed.gate))) {
		g = ek_gate_fixed(ek, ek->core.tags);
		if (g)
			return g;
	}
	core = ek_core_admit(&ek->core, free, now);
	return core ? ek_group_of(core) : NULL;
}

/* The grants of @g become void: no submitter used them. */
static void ek_gate_forget(struct ek_data *ek, struct ek_group *g)
{
	g->pending = 0;
	list_del_init(&g->granted);
	ek_core_ungrant(&ek->core, &g->core);
}

/* A request of @g was inserted: it uses one of the grants of @g. */
void ek_gate_inserted(struct ek_data *ek, struct ek_group *g)
{
	if (!--g->pending)
		list_del_init(&g->granted);
}

/*
 * The grants of a group become void if it got none for EK_GRANT_STALE_NS: no submitter used
 * them. Their tags are free for others.
 */
static void ek_gate_expire(struct ek_data *ek, u64 now)
{
	struct ek_group *g, *next;
	int valid = 0;

	list_for_each_entry_safe(g, next, &ek->grantees, granted) {
		if (now < g->granted_at + EK_GRANT_STALE_NS)
			valid += g->pending;
		else
			ek_gate_forget(ek, g);
	}
	if (atomic_read(&ek->granted) > valid)
		atomic_set(&ek->granted, valid);
	ek->nr_stale_grants++;
}

/* The group in ek_data.grantees that got its last grant before all others, or NULL. */
static struct ek_group *ek_gate_oldest(struct ek_data *ek)
{
	return list_first_entry_or_null(&ek->grantees, struct ek_group, granted);
}

/* Admit the first waiter of @g: it may take a tag. */
static void ek_gate_grant(struct ek_data *ek, struct ek_group *g, u64 now)
{
	struct ek_waiter *w = list_first_entry(&g->waiters, struct ek_waiter,
					       node);

	list_del(&w->node);
	WRITE_ONCE(ek->nr_waiting, ek->nr_waiting - 1);
	if (!--g->nr_waiting)
		list_del_init(&g->fixed_gate);
	g->pending++;
	list_move_tail(&g->granted, &ek->grantees);
	g->granted_at = now;
	atomic_inc(&ek->granted);
	w->admitted = true;
	/* @w is valid here: the waiter takes the lock before it looks at @admitted */
	wake_up_process(w->task);
}

/* Admit as many submitters as there are tags for. */
void ek_gate_run(struct ek_data *ek)
{
	struct ek_group *g, *oldest;
	u64 now = ktime_get_ns();
	int free;

	lockdep_assert_held(&ek->lock);
	oldest = ek_gate_oldest(ek);
	if (oldest && now >= oldest->granted_at + EK_GRANT_STALE_NS)
		ek_gate_expire(ek, now);
	while (ek->nr_waiting) {
		free = (int)ek_tags(ek) - atomic_read(&ek->tags_used) -
		       atomic_read(&ek->granted);
		g = free > 0 ? ek_gate_next(ek, free, now) : NULL;
		if (!g)
			break;
		ek_gate_grant(ek, g, now);
	}
	/* look again when the grants are stale: no other event may come */
	oldest = ek_gate_oldest(ek);
	if (oldest)
		ek_hold_arm(ek, now, oldest->granted_at + EK_GRANT_STALE_NS);
}

void ek_gate_kick(struct ek_data *ek)
{
	unsigned long flags;

	spin_lock_irqsave(&ek->lock, flags);
	ek_gate_run(ek);
	spin_unlock_irqrestore(&ek->lock, flags);
}

/*
 * Sleep until @w is admitted. The submitter waits since @since (ns). ek_data.lock is held on
 * entry and on return.
 */
static void ek_gate_sleep(struct ek_data *ek, struct ek_group *g,
			  struct ek_waiter *w, bool write, u64 since)
{
	bool blamed = ek_blame_gate(ek, g, since);
	u64 now;

	g->throttled++;
	ek->nr_gate_waits++;
	do {
		spin_unlock_irq(&ek->lock);
		/* this also inserts the requests in the submitter's plug */
		io_schedule();
		spin_lock_irq(&ek->lock);
		set_current_state(TASK_UNINTERRUPTIBLE);
	} while (!w->admitted);
	now = ktime_get_ns();
	trace_ek_gate(ek, g, now - since);
	ek_account_ns(g, write, EK_HIST_GATE, now - since);
	if (blamed)
		ek_blame_gate_left(ek, g, now);
}

/* Wait until a submitter of @g may take a tag. Process context; the caller holds no lock. */
void ek_gate_admit(struct ek_data *ek, struct ek_group *g, blk_opf_t opf)
{
	u64 now = ktime_get_ns();
	struct ek_waiter w = { .task = current, .turn = now };

	if (op_is_write(opf))
		w.turn += op_is_sync(opf) ? EK_READ_LEAD_NS : EK_ASYNC_LAG_NS;
	spin_lock_irq(&ek->lock);
	ek_gate_queue(ek, g, &w, now);
	/* pairs with the barrier in ek_tag_freed() */
	smp_mb();
	set_current_state(TASK_UNINTERRUPTIBLE);
	ek_gate_run(ek);
	if (!w.admitted)
		ek_gate_sleep(ek, g, &w, op_is_write(opf), now);
	__set_current_state(TASK_RUNNING);
	spin_unlock_irq(&ek->lock);
}
