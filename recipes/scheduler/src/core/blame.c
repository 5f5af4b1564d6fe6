// SPDX-License-Identifier: GPL-2.0-only
/*
 * Blame: whose requests the device served while a group waited.
 *
 * Definition: at each moment, the device belongs in equal parts to the requests in it. While
 * a group has w waiting requests and the device has d requests, c of them of another group,
 * the other group adds w * c / d per ns to its part of the group's waiting time. The rest of
 * the waiting time is the group's own: the device served the group itself, or nothing.
 *
 * A division spreads the time that a group waited for others since the last division. It is
 * exact if the shares of the groups in the device did not change meanwhile. So a division
 * comes before each such change. In a turn, there is only one: when the turn begins.
 * Invariant: the own part and the sum of the other parts are exact in any case. They need
 * only the counts of the group itself and of the whole device.
 * Cost: a change takes constant time. A division takes a step for each group, and one for each
 * pair of a group that waited and a group that was served. Each change earns EK_BLAME_CREDIT
 * steps. If divisions take more, some are put off, and parts are less exact.
 */
#include "blame.h"

/* fraction bits of ek_blame.clock, of a share of the device, and of 1 / device time */
#define EK_BLAME_SHIFT	10
#define EK_PART_SHIFT	20
#define EK_SCALE_SHIFT	52
/*
 * Enough to divide whenever the device turns from one of 30 groups to another. If 16 groups mix
 * in the device, parts then deviate by up to 3 %; with half of it, by up to 8 %.
 */
#define EK_BLAME_CREDIT	32
/* the most steps that are saved for later */
#define EK_BLAME_SAVED	4096

void ek_blame_init(struct ek_blame *b, u64 now)
{
	memset(b, 0, sizeof(*b));
	b->now = now;
	b->credit = EK_BLAME_SAVED;
	b->cgroup[0] = U64_MAX;
	b->columns = 1;
	INIT_LIST_HEAD(&b->groups);
}

void ek_blame_group_init(struct ek_blame_group *g, u64 cgroup)
{
	memset(g, 0, sizeof(*g));
	g->cgroup = cgroup;
	INIT_LIST_HEAD(&g->node);
}

/* Let the clocks go on to @now. CPUs may report changes in a slightly wrong order. */
static void ek_blame_tick(struct ek_blame *b, u64 now)
{
	u64 passed;

	if (now <= b->now)
		return;
	passed = now - b->now;
	b->now = now;
	if (!b->inside)
		b->idle += passed;
	else if (b->inside == 1)
		b->clock += passed << EK_BLAME_SHIFT;
	else
		b->clock += div64_u64(passed << EK_BLAME_SHIFT, b->inside);
}

/* Account @g up to the present time. Its counts have not changed since the last call. */
static void ek_blame_account(struct ek_blame *b, struct ek_blame_group *g)
{
	u64 passed = b->now - g->now, idle = b->idle - g->idle;
	u64 took = (g->inside * (b->clock - g->clock)) >> EK_BLAME_SHIFT;

	g->now = b->now;
	g->clock = b->clock;
	g->idle = b->idle;
	g->took += took;
	g->waited += g->waiting * passed;
	g->pending += (s64)(g->waiting * (passed - idle)) - (s64)(g->waiting * took);
}

/* Give @g a column, if one is free. */
static void ek_blame_place(struct ek_blame *b, struct ek_blame_group *g)
{
	u32 i;

	for (i = 1; b->columns < EK_BLAME_SLOTS && !g->slot; i++) {
		if (b->cgroup[i])
			continue;
		b->cgroup[i] = g->cgroup;
		b->columns++;
		g->slot = i;
	}
}

/*
 * Divide what @g waited for the others among @takers. The device time of the others is
 * @others. Returns the number of steps.
 */
static u32 ek_blame_divide(struct ek_blame_group *g, struct list_head *takers, u64 others)
{
	u64 scale = div64_u64(1ULL << EK_SCALE_SHIFT, others);
	u64 share, part, pending = g->pending;
	struct ek_blame_group *by;
	u64 *parts = READ_ONCE(g->parts);
	u32 steps = 0;

	list_for_each_entry(by, takers, taker) {
		steps++;
		if (by == g)
			continue;
		/* the product of @pending and a share may not fit */
		share = by->took == others ? 1ULL << EK_PART_SHIFT :
			(by->took * scale) >> (EK_SCALE_SHIFT - EK_PART_SHIFT);
		part = (pending >> EK_PART_SHIFT) * share +
		       (((pending & ((1ULL << EK_PART_SHIFT) - 1)) * share) >> EK_PART_SHIFT);
		/* what is lost by rounding stays in @pending, for the next division */
		g->pending -= part;
		if (parts)
			parts[by->slot] += part;
	}
	return steps;
}

static void ek_blame_divide_all(struct ek_blame *b)
{
	struct ek_blame_group *g, *next;
	u64 total = 0;
	LIST_HEAD(takers);

	list_for_each_entry(g, &b->groups, node) {
		ek_blame_account(b, g);
		b->credit--;
		if (!g->took)
			continue;
		if (unlikely(!g->slot))
			ek_blame_place(b, g);
		total += g->took;
		list_add_tail(&g->taker, &takers);
	}
	list_for_each_entry(g, &b->groups, node)
		if (g->pending > 0 && total > g->took)
			b->credit -= ek_blame_divide(g, &takers, total - g->took);
	list_for_each_entry_safe(g, next, &b->groups, node) {
		g->took = 0;
		if (!g->waiting && !g->inside) {
			list_del_init(&g->node);
			b->nr--;
		}
	}
	b->taker = NULL;
}

void ek_blame_settle(struct ek_blame *b, u64 now)
{
	s32 credit = b->credit;

	ek_blame_tick(b, now);
	ek_blame_divide_all(b);
	/* the reader pays for it */
	b->credit = credit;
}

/* Since the last division, has the device served no other group than @g? */
static bool ek_blame_only(struct ek_blame *b, struct ek_blame_group *g)
{
	return b->inside == g->inside && (!b->taker || b->taker == g);
}

void ek_blame_change(struct ek_blame *b, struct ek_blame_group *g, int waiting, int inside,
		     u64 now)
{
	bool only = true;

	ek_blame_tick(b, now);
	b->credit = min_t(s32, b->credit + EK_BLAME_CREDIT, EK_BLAME_SAVED);
	if (inside) {
		only = ek_blame_only(b, g);
		if (!only && b->credit > 0) {
			ek_blame_divide_all(b);
			only = ek_blame_only(b, g);
		}
	}
	if (list_empty(&g->node)) {
		/* it has had no request since it was last accounted */
		g->now = b->now;
		g->clock = b->clock;
		g->idle = b->idle;
		list_add_tail(&g->node, &b->groups);
		b->nr++;
	} else {
		ek_blame_account(b, g);
	}
	g->waiting += waiting;
	g->inside += inside;
	b->inside += inside;
	if (inside && only)
		b->taker = g;
}

u32 ek_blame_group_exit(struct ek_blame *b, struct ek_blame_group *g)
{
	u32 slot = g->slot;

	if (!list_empty(&g->node)) {
		ek_blame_divide_all(b);
		if (!list_empty(&g->node)) {
			list_del_init(&g->node);
			b->nr--;
		}
	}
	if (slot) {
		b->cgroup[slot] = 0;
		b->columns--;
	}
	g->slot = 0;
	return slot;
}
