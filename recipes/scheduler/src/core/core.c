// SPDX-License-Identifier: GPL-2.0-only
/*
 * The entry points: a request's way through the policies.
 *
 * insert -> guard (out of turn?) -> solo (is somebody measured?) -> order (who
 * is next?) -> budget (is there room?) -> dispatch (charge) -> complete.
 * Invariant: everything that is dispatched outside of a solo is charged.
 */
#include "core.h"
#include "budget.h"
#include "cost.h"
#include "gate.h"
#include "guard.h"
#include "order.h"
#include "solo.h"

static const struct ek_core_tunables ek_core_defaults = {
	.turn_ms = 100,
	.await_us = 2000,
	.lead_ms = 40,
	.starve_ms = 1000,
	.guard_percent = 5,
	.solo_percent = 2,
};

void ek_core_init(struct ek_core *c, u32 tags, u64 now)
{
	*c = (struct ek_core){ .t = ek_core_defaults, .tags = tags };
	c->ready = c->awaited = c->gate = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&c->idle);
	INIT_LIST_HEAD(&c->gate_passing);
	INIT_LIST_HEAD(&c->unmeasured);
	INIT_LIST_HEAD(&c->measured);
	ek_guard_init(c, now);
	ek_order_init(c, now);
}

void ek_core_group_init(struct ek_core *c, struct ek_core_group *g,
			struct ek_core_group *parent, u32 weight)
{
	*g = (struct ek_core_group){
		.node = { .parent = parent ? &parent->node : NULL, .weight = weight },
		.vtime = c->vnow,
		.share = EK_SHARE_ONE,
		.limit = 4,
	};
	RB_CLEAR_NODE(&g->rb);
	RB_CLEAR_NODE(&g->gate);
	INIT_LIST_HEAD(&g->idle);
	INIT_LIST_HEAD(&g->urgent_node);
	INIT_LIST_HEAD(&g->solo_node);
	INIT_LIST_HEAD(&g->served_node);
	INIT_LIST_HEAD(&g->pass_node);
}

/* @g has nothing queued, waiting or in the device. */
void ek_core_group_exit(struct ek_core *c, struct ek_core_group *g)
{
	ek_order_collect(c, c->last_done);
	if (c->solo.g == g)
		ek_solo_abort(c, c->last_done);
	if (g->active)
		ek_order_deactivate(c, g);
	list_del_init(&g->pass_node);
}

void ek_core_set_weight(struct ek_core *c, struct ek_core_group *g, u32 weight)
{
	ek_node_set_weight(&c->top, &g->node, weight);
}

void ek_core_insert(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r, u64 now)
{
	u32 had;

	ek_order_activate(c, g, now);
	g->queued++;
	c->nr_queued++;
	g->granted -= !!g->granted;
	if (r->op < EK_DIRS) {
		g->op = r->op;
		g->bytes = r->bytes;
		g->class = ek_size_class(r->bytes);
	}
	had = g->queued + atomic_read(&g->in_flight);
	g->depth = max_t(u32, g->depth, had);
	g->queued_cost += ek_cost(c, g, r->op, r->bytes);
	if (!ek_cost_known(c, g) && list_empty(&g->solo_node))
		list_add_tail(&g->solo_node, &c->unmeasured);
	ek_guard_insert(c, g, r->urgent, now);
	if (g->queued == 1)
		ek_order_place(c, g);
	ek_gate_place(c, g);
}

static void ek_core_unqueue(struct ek_core *c, struct ek_core_group *g,
			    const struct ek_req *r, u32 cost, u64 now)
{
	g->queued--;
	c->nr_queued--;
	g->queued_cost -= min_t(u64, g->queued_cost, cost);
	if (!g->queued)
		g->queued_cost = 0;
	ek_guard_leave(c, g, r->urgent, cost, now);
}

void ek_core_remove(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r)
{
	ek_core_unqueue(c, g, r, ek_cost(c, g, r->op, r->bytes), g->served);
	ek_order_place(c, g);
	ek_gate_place(c, g);
}

struct ek_core_group *ek_core_pick(struct ek_core *c, u64 now, u64 *wake)
{
	struct ek_core_group *g;

	if (!c->nr_queued)
		return NULL;
	ek_order_collect(c, now);
	c->why = EK_WHY_GUARD;
	g = ek_guard_pick(c, now);
	if (g)
		return g;
	ek_solo_step(c, now);
	if (c->solo.g) {
		c->why = EK_WHY_SOLO;
		return ek_solo_pick(c, now, wake);
	}
	c->why = EK_WHY_ORDER;
	ek_order_epoch(c, now);
	return ek_order_pick(c, now, wake);
}

void ek_core_dispatch(struct ek_core *c, struct ek_core_group *g,
		      struct ek_req *r, u64 now)
{
	u32 cost = ek_cost(c, g, r->op, r->bytes);

	r->why = c->why;
	r->cost = cost;
	r->issued = now;
	atomic_inc(&g->in_flight);
	atomic_inc(&c->in_flight);
	g->sent++;
	g->sent_cost += cost;
	atomic64_add(cost, &g->in_flight_cost);
	c->sent_cost[r->op != EK_OP_READ] += cost;
	atomic64_add(cost, &c->in_flight_cost[r->op != EK_OP_READ]);
	ek_core_unqueue(c, g, r, cost, now);
	if (r->why == EK_WHY_GUARD) {
		c->nr_guarded++;
		ek_guard_spent(c, cost);
		if (c->solo.g)
			c->solo.meter.from += c->solo.g == g ? 0 : cost;
	}
	/* the first solo is free: else a group would pay seconds for being measured */
	if (c->solo.g != g || !c->solo.first) {
		u64 charge = r->op == EK_OP_READ ? cost : ek_mul(cost, c->write_factor);

		ek_order_charge(c, g, charge);
		ek_budget_note(c, g);
	}
	ek_order_place(c, g);
	ek_gate_place(c, g);
}

void ek_core_complete(struct ek_core *c, struct ek_core_group *g,
		      struct ek_req *r, bool requeued, u64 now)
{
	if (requeued)
		atomic64_sub(r->cost, &g->debt);
	else
		ek_cost_saw(c, g, r, now);
	WRITE_ONCE(g->last_done, now);
	WRITE_ONCE(c->last_done, now);
	atomic64_sub(r->cost, &g->in_flight_cost);
	atomic64_sub(r->cost, &c->in_flight_cost[r->op != EK_OP_READ]);
	atomic_dec(&g->in_flight);
	atomic_dec(&c->in_flight);
	if (unlikely(atomic_read(&g->capped)) && atomic_xchg(&g->capped, 0))
		llist_add(&g->released, &c->released);
}

void ek_core_charge(struct ek_core *c, struct ek_core_group *g, u64 issued, u64 now)
{
	/* what completed last was the device's work until then */
	atomic64_add(now - min_t(u64, now, max_t(u64, issued, READ_ONCE(c->last_done))), &g->debt);
	WRITE_ONCE(c->last_done, now);
	WRITE_ONCE(g->last_done, now);
}
