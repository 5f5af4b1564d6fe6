// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who slows whom: reports to core/blame.c which requests wait and which are in the device.
 *
 * This begins with the first read of io.evenkeel.stat. A request counts only if it is queued
 * later: then `blamed` of its state is set, so that each count falls as often as it rises.
 *
 * A request waits from its insertion until the driver starts it. That may be long after its
 * dispatch: the block layer keeps a request for which the device has no tag, and the driver of
 * an eMMC sleeps until the device takes the next request. The elevator is not told when the
 * driver starts a request. So each change first looks which of the last ones were started.
 */
#include "ek.h"

/* ek_data.sent[@i] is no longer waited for. */
static void ek_blame_drop(struct ek_data *ek, u32 i)
{
	for (ek->nr_sent--; i < ek->nr_sent; i++)
		ek->sent[i] = ek->sent[i + 1];
}

/* ek_data.sent[@i] was started at @now: it is in the device. */
static void ek_blame_started(struct ek_data *ek, u32 i, u64 now)
{
	ek_blame_change(&ek->blame, &ek_rq_group(ek->sent[i])->blame, -1, 1, now);
	ek_blame_drop(ek, i);
}

/* Which of the requests that were dispatched has the driver started? They are in the device. */
static inline void ek_blame_look(struct ek_data *ek)
{
	u64 started;
	u32 i = 0;

	lockdep_assert_held(&ek->blame_lock);
	while (i < ek->nr_sent) {
		started = READ_ONCE(ek->sent[i]->io_start_time_ns);
		if (started)
			ek_blame_started(ek, i, started);
		else
			i++;
	}
}

/* @waiting is added to the number of requests of @g that wait. */
static void ek_blame_wait(struct ek_data *ek, struct ek_group *g, int waiting, u64 now)
{
	lockdep_assert_held(&ek->lock);
	spin_lock(&ek->blame_lock);
	ek_blame_look(ek);
	ek_blame_change(&ek->blame, &g->blame, waiting, 0, now);
	spin_unlock(&ek->blame_lock);
}

/* @rq of @g was queued at ek_data.inserted. */
void ek_blame_queued(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	ek_rq_state(rq)->blamed = true;
	ek_blame_wait(ek, g, 1, ek->inserted);
}

/* @rq of @g was queued, and was merged into another request. */
void ek_blame_merged(struct ek_data *ek, struct ek_group *g)
{
	ek_blame_wait(ek, g, -1, ktime_get_ns());
}

/*
 * @rq was dispatched. If there are too many that the driver has not started yet, the oldest
 * counts as started. The time of its start must not be an older one, which the task has kept
 * in its plug.
 */
void ek_blame_dispatched(struct ek_data *ek, struct request *rq, u64 now)
{
	spin_lock(&ek->blame_lock);
	ek_blame_look(ek);
	if (ek->nr_sent == EK_BLAME_SENT)
		ek_blame_started(ek, 0, now);
	ek->sent[ek->nr_sent++] = rq;
	spin_unlock(&ek->blame_lock);
	ek_plug_time_expire();
}

/* @rq of @g left the device at @now, or the block layer, without having been started. */
void ek_blame_left(struct ek_data *ek, struct ek_group *g, struct request *rq, u64 now)
{
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&ek->blame_lock, flags);
	ek_blame_look(ek);
	for (i = 0; i < ek->nr_sent && ek->sent[i] != rq; i++)
		;
	if (i < ek->nr_sent) {
		ek_blame_drop(ek, i);
		ek_blame_change(&ek->blame, &g->blame, -1, 0, now);
	} else {
		ek_blame_change(&ek->blame, &g->blame, 0, -1, now);
	}
	spin_unlock_irqrestore(&ek->blame_lock, flags);
}

/* A submitter of @g waits at the gate from @now on. True if ek_blame_gate_left() must follow. */
bool ek_blame_gate(struct ek_data *ek, struct ek_group *g, u64 now)
{
	if (!READ_ONCE(ek->blaming))
		return false;
	ek_blame_wait(ek, g, 1, now);
	return true;
}

void ek_blame_gate_left(struct ek_data *ek, struct ek_group *g, u64 now)
{
	ek_blame_wait(ek, g, -1, now);
}

/* @g leaves its queue: its column is free for another group. */
void ek_blame_leave(struct ek_data *ek, struct ek_group *g)
{
	struct ek_group *other;
	u64 *parts;
	u32 slot;

	lockdep_assert_held(&ek->lock);
	spin_lock(&ek->blame_lock);
	slot = ek_blame_group_exit(&ek->blame, &g->blame);
	list_for_each_entry(other, &ek->groups, node) {
		parts = READ_ONCE(other->blame.parts);
		if (slot && parts)
			parts[slot] = 0;
	}
	spin_unlock(&ek->blame_lock);
}

/*
 * Bring the row of @g up to date and copy it. @waited: all its waiting time, ns. @pairs: the
 * cgroup of each column and the time that @g waited for it, ns; room for EK_BLAME_SLOTS pairs.
 * Returns the number of pairs.
 */
u32 ek_blame_read(struct ek_data *ek, struct ek_group *g, u64 *waited, u64 *pairs)
{
	u64 now = ktime_get_ns(), *parts;
	unsigned long flags;
	u32 i, n = 0;

	spin_lock_irqsave(&ek->blame_lock, flags);
	ek_blame_look(ek);
	ek_blame_settle(&ek->blame, now);
	*waited = g->blame.waited;
	parts = READ_ONCE(g->blame.parts);
	for (i = 0; parts && i < EK_BLAME_SLOTS; i++) {
		if (!parts[i])
			continue;
		pairs[2 * n] = i ? ek->blame.cgroup[i] : 0;
		pairs[2 * n + 1] = parts[i];
		n++;
	}
	spin_unlock_irqrestore(&ek->blame_lock, flags);
	return n;
}
