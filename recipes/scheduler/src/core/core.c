// SPDX-License-Identifier: GPL-2.0-only
/*
 * The entry points: a request's way through the policies.
 *
 * insert -> guard (which group may go out of turn?) -> mode (turns or together?) -> turn
 * (which group has the device alone?) or order (which group is next?) -> budget (is there
 * room in the device?) -> dispatch (charge the cost) -> complete.
 * Invariant: each dispatched request is charged to its group once. One exception: requests
 * that ek_core_quick() sends for the only active group are not charged.
 */
#include "core.h"
#include "budget.h"
#include "cost.h"
#include "gate.h"
#include "guard.h"
#include "hidden.h"
#include "mode.h"
#include "order.h"
#include "stall.h"
#include "turn.h"

/*
 * The most work in the device (ns) with which ek_core_quick() still sends a request. It is
 * less than a task takes to wake up, so no task notices the delay. With a larger value, a
 * busy device would count as one that has next to nothing to do.
 */
#define EK_QUICK_NS	(50 * EK_US)

static const struct ek_core_tunables ek_core_defaults = {
	/* long enough for dozens of requests; two groups still alternate five times a second */
	.turn_ms = 100,
	/* a synchronous reader sends its next request well within this time */
	.await_us = 2000,
	/* together: less than a turn, so that a group gets soon what it was promised */
	.lead_ms = 40,
	/* above the longest round (EK_ROUND_MOST_NS), below 2 s, the longest allowed wait */
	.starve_ms = 1200,
	/* a group is promised 95 % of its share: the guard may take the rest */
	.guard_percent = 5,
	/* together: the time that measuring one group may take from the others */
	.solo_percent = 2,
};

void ek_core_init(struct ek_core *c, u32 tags, u64 now)
{
	memset(c, 0, sizeof(*c));
	c->t = ek_core_defaults;
	c->tags = tags;
	c->ready = RB_ROOT_CACHED;
	c->awaited = RB_ROOT_CACHED;
	c->gate = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&c->idle);
	INIT_LIST_HEAD(&c->gate_passing);
	INIT_LIST_HEAD(&c->unmeasured);
	INIT_LIST_HEAD(&c->measured);
	ek_guard_init(c, now);
	ek_mode_init(c, now);
}

void ek_core_group_init(struct ek_core *c, struct ek_core_group *g,
			struct ek_core_group *parent, u32 weight)
{
	memset(g, 0, sizeof(*g));
	g->node.parent = parent ? &parent->node : NULL;
	g->node.weight = weight;
	g->vtime = c->vnow;
	g->share = EK_SHARE_ONE;
	/* a size for the cost of its next request, until its first read or write sets one */
	g->bytes = 512;
	g->limit = EK_LIMIT_MIN;
	g->growing = true;
	RB_CLEAR_NODE(&g->rb);
	RB_CLEAR_NODE(&g->gate);
	INIT_LIST_HEAD(&g->idle);
	INIT_LIST_HEAD(&g->urgent_node);
	INIT_LIST_HEAD(&g->solo_node);
	INIT_LIST_HEAD(&g->served_node);
	INIT_LIST_HEAD(&g->pass_node);
}

/* @g must have nothing queued, no submitter that waits, and nothing in the device. */
void ek_core_group_exit(struct ek_core *c, struct ek_core_group *g)
{
	ek_core_ungrant(c, g);
	ek_order_collect(c, c->last_done);
	if (c->turn.g == g)
		ek_turn_end(c, max_t(u64, READ_ONCE(c->last_done), c->turn.begin));
	if (g->active)
		ek_order_deactivate(c, g);
	list_del_init(&g->pass_node);
	if (c->tail.g == g)
		c->tail.g = NULL;
}

void ek_core_set_weight(struct ek_core *c, struct ek_core_group *g, u32 weight)
{
	ek_node_set_weight(&c->top, &g->node, weight);
}

void ek_core_insert(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r, u64 now)
{
	ek_mode_arrival(c, now);
	if (r->op < EK_DIRS && (g->bytes != r->bytes || g->op != r->op || !g->rate)) {
		g->op = r->op;
		g->bytes = r->bytes;
		g->class = ek_size_class(r->bytes);
		if (!g->rate)
			ek_cost_first(c, g);
	}
	if (!g->active)
		ek_order_activate(c, g, now);
	if (c->turn.g == g && !g->queued && !atomic_read(&g->in_flight))
		ek_turn_paused(c, now);
	g->queued++;
	c->nr_queued++;
	if (g->granted) {
		g->granted--;
		c->nr_granted--;
	}
	ek_guard_insert(c, g, r->urgent, now);
	if (g->queued == 1)
		ek_order_place(c, g);
	ek_gate_place(c, g);
}

static void ek_core_unqueue(struct ek_core *c, struct ek_core_group *g,
			    const struct ek_req *r, u64 charge, u64 now)
{
	g->queued--;
	c->nr_queued--;
	ek_guard_leave(c, g, r->urgent, charge, now);
}

void ek_core_remove(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r)
{
	ek_core_unqueue(c, g, r, 0, g->served);
	ek_order_place(c, g);
	ek_gate_place(c, g);
}

struct ek_core_group *ek_core_pick(struct ek_core *c, u64 now, u64 *wake)
{
	struct ek_core_group *g;

	if (!c->nr_queued)
		return NULL;
	ek_order_collect(c, now);
	g = ek_guard_pick(c, now);
	if (g)
		return g;
	ek_mode_step(c, now);
	ek_turn_step(c, now);
	return c->turn.g ? ek_turn_pick(c, now, wake) : ek_order_pick(c, now, wake);
}

/* Count @r of @g, which costs @cost, as sent to the device. */
static void ek_core_send(struct ek_core *c, struct ek_core_group *g,
			 struct ek_req *r, u32 cost, u64 now)
{
	r->cost = cost;
	r->issued = now;
	if (!atomic_read(&c->in_flight))
		c->filled = now;
	atomic_inc(&g->in_flight);
	atomic_inc(&c->in_flight);
	g->sent++;
	g->sent_cost += cost;
	atomic64_add(cost, &g->in_flight_cost);
	c->sent_cost += cost;
	atomic64_add(cost, &c->in_flight_cost);
	if (r->op != EK_OP_READ)
		c->wrote = now;
	if (c->turn.exclusive && c->turn.g != g)
		c->turn.others += cost;
}

/*
 * Nothing is queued, no submitter waits, and the device needs at most EK_QUICK_NS for its
 * work and @r: so @r delays no other group. The cost of @r is charged together with the
 * next request of @g that is not quick. So no tree changes here, which saves CPU time.
 */
bool ek_core_quick(struct ek_core *c, struct ek_core_group *g, struct ek_req *r, u64 now)
{
	u64 charge;
	u32 cost;

	if (c->nr_queued || c->nr_waiting || c->nr_granted || !g->active ||
	    g->bytes != r->bytes || g->op != r->op)
		return false;
	cost = ek_cost(c, g, r->op, r->bytes);
	if (atomic_read(&c->in_flight) &&
	    atomic64_read(&c->in_flight_cost) + cost > (s64)EK_QUICK_NS)
		return false;
	ek_mode_arrival(c, now);
	r->why = EK_WHY_ORDER;
	ek_core_send(c, g, r, cost, now);
	g->served = now;
	c->turn.quick = true;
	c->tail.g = NULL;
	charge = cost + ek_hidden_sent(c, g, r, cost, now);
	/* a group that is alone takes nothing from others */
	if (c->nr_active > 1)
		g->unpaid += charge;
	g->pass_left -= charge;
	c->nr_quick++;
	return true;
}

void ek_core_dispatch(struct ek_core *c, struct ek_core_group *g,
		      struct ek_req *r, u64 now)
{
	u32 cost;
	u64 charge;

	/* sent out of turn before its first turn: guess its rate from the least latency */
	if (unlikely(!g->known && !g->guessed) && READ_ONCE(g->least) && c->turn.g != g) {
		ek_cost_first(c, g);
		g->guessed = true;
	}
	cost = ek_cost(c, g, r->op, r->bytes);
	r->why = c->why;
	charge = cost + ek_hidden_sent(c, g, r, cost, now);
	ek_core_send(c, g, r, cost, now);
	ek_core_unqueue(c, g, r, charge, now);
	if (r->why >= EK_WHY_AHEAD) {
		atomic_inc(&c->out_of_turn);
		atomic_inc(&g->out_of_turn);
	}
	if (r->why == EK_WHY_GUARD) {
		c->nr_guarded++;
		ek_guard_spent(c, charge);
	}
	ek_order_charge(c, g, charge);
	if (r->why == EK_WHY_INSTEAD)
		ek_stall_sent(c, g, cost);
	ek_budget_note(c, g, cost);
	ek_order_place(c, g);
	ek_gate_place(c, g);
}

void ek_core_complete(struct ek_core *c, struct ek_core_group *g,
		      struct ek_req *r, bool requeued, u64 now)
{
	if (requeued)
		atomic64_sub(r->cost + ek_hidden_cost(c, r->op, r->bytes), &g->debt);
	else
		ek_cost_saw(c, g, r, now);
	WRITE_ONCE(g->last_done, now);
	WRITE_ONCE(c->last_done, now);
	atomic64_sub(r->cost, &g->in_flight_cost);
	atomic64_sub(r->cost, &c->in_flight_cost);
	atomic_dec(&g->in_flight);
	atomic_dec(&c->in_flight);
	if (r->why >= EK_WHY_AHEAD) {
		atomic_dec(&c->out_of_turn);
		atomic_dec(&g->out_of_turn);
	}
	/* pairs with ek_order_place(): either this sees @capped, or that sees in_flight */
	smp_mb__after_atomic();
	if (unlikely(atomic_read(&g->capped) == 1) && atomic_cmpxchg(&g->capped, 1, 2) == 1)
		llist_add(&g->released, &c->released);
}

void ek_core_charge(struct ek_core *c, struct ek_core_group *g, u64 issued, u64 now)
{
	/* until its last completion, the device served other requests */
	u64 took = now - min_t(u64, now, max_t(u64, issued, READ_ONCE(c->last_done)));

	atomic64_add(took, &g->debt);
	atomic64_add(took, &c->flushed);
	WRITE_ONCE(c->last_done, now);
	WRITE_ONCE(g->last_done, now);
}
