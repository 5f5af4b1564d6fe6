// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gate: which group's submitter gets the next scheduler tag.
 *
 * Policy: a light group, the group that has the device, then the least virtual time that
 * a group reaches once all that it has queued is served. What a group has
 * queued is bounded by its share of half the tags; what is in the device is not
 * counted, so a group alone in the device may fill it.
 * Invariant: a group with nothing queued is never shut out by what others queue.
 * Source: the gate of the first version, ek_gate.c; here in O(log n).
 */
#include "gate.h"
#include "budget.h"
#include "guard.h"
#include "order.h"

/* kept for groups that hold nothing: one tag in so many */
#define EK_GATE_RESERVE	8

static bool ek_gate_before(struct rb_node *a, const struct rb_node *b)
{
	return ek_before(rb_entry(a, struct ek_core_group, gate)->gate_vtime,
			 rb_entry(b, struct ek_core_group, gate)->gate_vtime);
}

/* May @g have one more request queued? */
static bool ek_gate_allows(struct ek_core *c, struct ek_core_group *g)
{
	u32 has = g->queued + g->granted;

	if (!has || c->nr_active == 1)
		return true;
	return 2 * (u64)has * (c->top.sum << EK_SHARE_SHIFT) < (u64)c->tags * g->share;
}

/* Submitters of @g wait, or what it has queued changed. */
void ek_gate_place(struct ek_core *c, struct ek_core_group *g)
{
	bool in = g->waiting && ek_gate_allows(c, g);

	if (!in && !g->gated)
		return;
	if (g->gated)
		rb_erase_cached(&g->gate, &c->gate);
	g->gated = in;
	if (!in)
		return;
	g->gate_vtime = g->vtime + ek_order_span(c, g, min_t(u64, g->queued_cost, 16 * EK_SEC));
	rb_add_cached(&g->gate, &c->gate, ek_gate_before);
}

void ek_core_arrive(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	ek_order_activate(c, g, now);
	if (g->pass_left > 0 && !g->queued && !g->granted && list_empty(&g->pass_node))
		list_add_tail(&g->pass_node, &c->gate_passing);
	g->waiting++;
	c->nr_waiting++;
	ek_gate_place(c, g);
}

/* One that has the device is first, up to what fills its budget. */
static bool ek_gate_first(struct ek_core_group *g)
{
	return g && g->waiting && g->queued + g->granted < ek_budget_limit(g);
}

static struct ek_core_group *ek_gate_choose(struct ek_core *c)
{
	struct ek_core_group *g;
	struct rb_node *n;

	while ((g = list_first_entry_or_null(&c->gate_passing, struct ek_core_group, pass_node))) {
		list_del_init(&g->pass_node);
		if (g->waiting && ek_guard_may_pass(c, g))
			return g;
	}
	g = c->solo.g;
	if (g && g->waiting && g->queued + g->granted <= c->solo.limit)
		return g;
	if (ek_gate_first(c->owner))
		return c->owner;
	n = rb_first_cached(&c->gate);
	return n ? rb_entry(n, struct ek_core_group, gate) : NULL;
}

struct ek_core_group *ek_core_admit(struct ek_core *c, u32 free, u64 now)
{
	struct ek_core_group *g;

	if (!free || !c->nr_waiting)
		return NULL;
	ek_order_collect(c, now);
	g = ek_gate_choose(c);
	if (!g)
		return NULL;
	if (c->nr_active > 1 && free <= c->tags / EK_GATE_RESERVE &&
	    (g->queued || g->granted))
		return NULL;
	g->waiting--;
	g->granted++;
	c->nr_waiting--;
	ek_gate_place(c, g);
	return g;
}
