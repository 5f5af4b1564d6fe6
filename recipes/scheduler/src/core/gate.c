// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gate: which group's submitter gets the next scheduler tag.
 *
 * Policy: the gate admits a submitter of, in this order:
 *  1. a light group that has nothing queued
 *  2. the owner of the turn, if its turn lasts long enough for the request
 *  3. a group that has nothing queued
 *  4. the group that would have the least virtual time after service of all it has queued
 * A request counts as queued from admission to dispatch. A group may have one request queued,
 * and more up to its share of half of the tags. Requests in the device do not count, so that
 * a group that is alone may fill the device.
 * Invariants:
 *  - A group that has nothing queued goes before all others except the owner of the turn.
 *  - In turns, once half of the tags are queued on, only the owner and light groups are
 *    admitted. So the owner finds the other half for its requests in the device.
 * Source: our own; docs/explanation/why-not-bfq.md has the reason.
 */
#include "gate.h"
#include "budget.h"
#include "cost.h"
#include "guard.h"
#include "hidden.h"
#include "order.h"
#include "turn.h"

/* The only active group leaves 1 / EK_GATE_FREE of the tags free. */
#define EK_GATE_FREE	4
/* Together, the last 1 / EK_GATE_RESERVE of the tags is for groups that have nothing queued. */
#define EK_GATE_RESERVE	8

static bool ek_gate_before(struct rb_node *a, const struct rb_node *b)
{
	struct ek_core_group *x = rb_entry(a, struct ek_core_group, gate);
	struct ek_core_group *y = rb_entry(b, struct ek_core_group, gate);

	if (x->gate_holds != y->gate_holds)
		return y->gate_holds;
	return ek_before(x->gate_vtime, y->gate_vtime);
}

/* May @g have one more request queued, by its share of half of the tags? */
static bool ek_gate_allows(struct ek_core *c, struct ek_core_group *g)
{
	u32 has = g->queued + g->granted;

	if (!has || c->nr_active == 1)
		return true;
	return 2 * (u64)has * (c->top.sum << EK_SHARE_SHIFT) < (u64)c->tags * g->share;
}

static void ek_gate_do_place(struct ek_core *c, struct ek_core_group *g)
{
	bool in = g->waiting && ek_gate_allows(c, g);
	u32 has = g->queued + g->granted;
	u64 ns;

	if (g->gated)
		rb_erase_cached(&g->gate, &c->gate);
	g->gated = in;
	if (!in)
		return;
	ns = has * ek_hidden_price(c, g);
	g->gate_holds = has;
	g->gate_vtime = g->vtime + ek_order_span(c, g, min_t(u64, ns, 16 * EK_SEC));
	rb_add_cached(&g->gate, &c->gate, ek_gate_before);
}

/* Update the place of @g at the gate: the number of its waiters or queued requests changed. */
void ek_gate_place(struct ek_core *c, struct ek_core_group *g)
{
	if (!g->waiting && !g->gated)
		return;
	ek_gate_do_place(c, g);
	if (g->light && g->waiting && !g->queued && !g->granted &&
	    list_empty(&g->pass_node))
		list_add_tail(&g->pass_node, &c->gate_passing);
}

void ek_core_arrive(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	ek_order_activate(c, g, now);
	if (!g->waiting && !g->queued && !g->granted) {
		ek_guard_refill(c, g, now);
		ek_order_place(c, g);
	}
	g->waiting++;
	c->nr_waiting++;
	ek_gate_place(c, g);
}

/* A light group whose submitter waits and that may go out of turn, or NULL. */
static struct ek_core_group *ek_gate_light(struct ek_core *c)
{
	struct ek_core_group *g;

	while ((g = list_first_entry_or_null(&c->gate_passing, struct ek_core_group, pass_node))) {
		list_del_init(&g->pass_node);
		if (g->waiting && ek_guard_may_pass(c, g))
			return g;
	}
	return NULL;
}

/* Does @g, the first group of the tree, leave enough of @free tags if it takes one? */
static bool ek_gate_leaves(struct ek_core *c, struct ek_core_group *g, u32 free)
{
	/* the next group that becomes active must find free tags */
	if (c->nr_active == 1)
		return free > c->tags / EK_GATE_FREE;
	/* together, the order must see a request of each group at once */
	if (c->mode.kind == EK_TOGETHER && !c->turn.g)
		return !g->gate_holds || free > c->tags / EK_GATE_RESERVE;
	return c->nr_queued + c->nr_granted < c->tags / 2;
}

/*
 * May @g, the owner of the turn, have one more request? Yes, within its limit and half of
 * the tags, if the turn lasts long enough to send the request. Otherwise the request would
 * keep its tag while later owners need tags.
 */
static bool ek_gate_owner(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u32 has = g->queued + g->granted;

	return has + (u32)max_t(s32, atomic_read(&g->in_flight), 0) <
	       min_t(u32, ek_budget_limit(c, g), max_t(u32, c->tags / 2, 1)) &&
	       ek_turn_lasts(c, (u64)has * ek_cost(c, g, g->op, g->bytes), now);
}

static struct ek_core_group *ek_gate_choose(struct ek_core *c, u32 free, u64 now)
{
	struct ek_core_group *g = ek_gate_light(c);
	struct rb_node *n;

	if (g)
		return g;
	g = c->turn.g;
	if (g && g->waiting && ek_gate_owner(c, g, now))
		return g;
	n = rb_first_cached(&c->gate);
	if (!n)
		return NULL;
	g = rb_entry(n, struct ek_core_group, gate);
	return ek_gate_leaves(c, g, free) ? g : NULL;
}

struct ek_core_group *ek_core_admit(struct ek_core *c, u32 free, u64 now)
{
	struct ek_core_group *g;

	if (!free || !c->nr_waiting)
		return NULL;
	ek_order_collect(c, now);
	g = ek_gate_choose(c, free, now);
	if (!g)
		return NULL;
	g->waiting--;
	g->granted++;
	c->nr_granted++;
	c->nr_waiting--;
	ek_gate_place(c, g);
	return g;
}

void ek_core_depart(struct ek_core *c, struct ek_core_group *g)
{
	g->waiting--;
	c->nr_waiting--;
	ek_gate_place(c, g);
}

void ek_core_ungrant(struct ek_core *c, struct ek_core_group *g)
{
	c->nr_granted -= g->granted;
	g->granted = 0;
	ek_gate_place(c, g);
}
