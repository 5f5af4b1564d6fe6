// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gate: which group's submitter gets the next scheduler tag.
 *
 * Policy: the group that has the device first, then the least virtual time that
 * a group reaches once all that it has queued is served. What a group has
 * queued is bounded by its share of half the tags; what is in the device is not
 * counted, so a group alone in the device may fill it.
 * Invariant: a group with nothing queued is never shut out by what others queue.
 * Source: the gate of the first version, ek_gate.c; here in O(log n).
 */
#include "gate.h"
#include "budget.h"
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
	g->waiting++;
	c->nr_waiting++;
	ek_gate_place(c, g);
}

/* One that has the device is first, up to what fills its budget. */
static bool ek_gate_first(struct ek_core_group *g)
{
	return g && g->waiting && g->queued + g->granted < ek_budget_limit(g);
}

struct ek_core_group *ek_core_admit(struct ek_core *c, u32 free, u64 now)
{
	struct ek_core_group *g = NULL;
	struct rb_node *n;

	if (!free || !c->nr_waiting)
		return NULL;
	ek_order_collect(c, now);
	if (c->solo.g && c->solo.g->waiting && c->solo.g->queued + c->solo.g->granted <= c->solo.limit)
		g = c->solo.g;
	else if (ek_gate_first(c->owner))
		g = c->owner;
	if (!g) {
		n = rb_first_cached(&c->gate);
		if (!n)
			return NULL;
		g = rb_entry(n, struct ek_core_group, gate);
	}
	if (c->nr_active > 1 && free <= c->tags / EK_GATE_RESERVE &&
	    (g->queued || g->granted))
		return NULL;
	g->waiting--;
	g->granted++;
	c->nr_waiting--;
	ek_gate_place(c, g);
	return g;
}
