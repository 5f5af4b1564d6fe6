// SPDX-License-Identifier: GPL-2.0-only
/*
 * Order: which group is next.
 *
 * Policy: a group's virtual time grows by cost / share; the least goes first,
 * and is awaited for a moment if it has no request. TURNS: one group has the
 * device until it leads by a turn. TOGETHER: all have requests in the device.
 * Invariant: no group leads the least by more than a turn, or lead_ms.
 * Source: start-time fair queueing (Goyal, Vin, Cheng, 1996); ek_math.h has the
 * bound. Turns: BFQ's budgets in device time. mode.c chooses between the two.
 */
#include "order.h"
#include "budget.h"
#include "cost.h"
#include "solo.h"

/* a turn is worth at least so many latencies: what its ends cost is then small */
#define EK_TURN_LATENCIES	4
/* one that was away keeps at most so much debt */
#define EK_DEBT_MAX		EK_SEC
/* a group that returns may pass with so much of a turn */
#define EK_PASS_PART		4
/* candidates for becoming inactive that one pick looks at */
#define EK_IDLE_LOOKS		2

static struct ek_core_group *ek_rb_group(struct rb_node *n)
{
	return n ? rb_entry(n, struct ek_core_group, rb) : NULL;
}

static bool ek_rb_before(struct rb_node *a, const struct rb_node *b)
{
	return ek_before(rb_entry(a, struct ek_core_group, rb)->vtime,
			 rb_entry(b, struct ek_core_group, rb)->vtime);
}

static u32 ek_order_share(struct ek_core *c, struct ek_core_group *g)
{
	if (g->active && g->share_generation != c->top.generation) {
		g->share = ek_node_share(&g->node);
		g->share_generation = c->top.generation;
	}
	return g->share;
}

/* virtual time that @ns of service spans for @g; @ns is below 2^36 */
u64 ek_order_span(struct ek_core *c, struct ek_core_group *g, u64 ns)
{
	return div_u64(ns << (12 + EK_SHARE_SHIFT), ek_order_share(c, g));
}

/* virtual time that passes while the device serves @ns for all active groups */
u64 ek_order_lead(struct ek_core *c, u64 ns)
{
	return div64_u64(ns << 12, max_t(u64, c->top.sum, 1));
}

/* Put @g into the tree where it belongs, at its virtual time. */
void ek_order_place(struct ek_core *c, struct ek_core_group *g)
{
	bool full = (u32)atomic_read(&g->in_flight) >= ek_budget_limit(g);

	rb_erase_cached(&g->rb, g->ready ? &c->ready : &c->awaited);
	if (g->queued && full) {
		/* a completion puts it back, unless it came meanwhile */
		atomic_set(&g->capped, 1);
		full = (u32)atomic_read(&g->in_flight) >= ek_budget_limit(g) ||
		       !atomic_xchg(&g->capped, 0);
	}
	g->ready = g->queued && !full;
	rb_add_cached(&g->rb, g->ready ? &c->ready : &c->awaited, ek_rb_before);
	if (g->queued)
		list_del_init(&g->idle);
	else if (list_empty(&g->idle))
		list_add_tail(&g->idle, &c->idle);
}

void ek_order_activate(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	if (g->active)
		return;
	g->active = true;
	g->ready = false;
	c->nr_active++;
	ek_node_join(&c->top, &g->node);
	g->share = ek_node_share(&g->node);
	g->share_generation = c->top.generation;
	g->vtime = ek_bounded(g->vtime, c->vnow, ek_order_span(c, g, EK_DEBT_MAX));
	rb_add_cached(&g->rb, &c->awaited, ek_rb_before);
	list_add_tail(&g->idle, &c->idle);
	if (g->own)
		list_add_tail(&g->solo_node, &c->measured);
	if (g->rate)
		g->pass_left = c->t.turn_ms * EK_MS / EK_PASS_PART;
	g->served = now;
}

void ek_order_deactivate(struct ek_core *c, struct ek_core_group *g)
{
	rb_erase_cached(&g->rb, g->ready ? &c->ready : &c->awaited);
	list_del_init(&g->idle);
	list_del_init(&g->solo_node);
	g->active = false;
	c->nr_active--;
	ek_node_leave(&c->top, &g->node);
	if (c->owner == g)
		c->owner = NULL;
}

/* Will @g, which has nothing queued, ask soon? */
static bool ek_order_expected(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	return g->queued || g->waiting || g->granted || atomic_read(&g->in_flight) ||
	       now - max_t(u64, READ_ONCE(g->last_done), g->served) < c->t.await_us * EK_US;
}

/* Groups with room again are ready; those that went away leave. */
void ek_order_collect(struct ek_core *c, u64 now)
{
	struct llist_node *n, *next;
	struct ek_core_group *g;
	int i;

	if (!llist_empty(&c->released)) {
		for (n = llist_del_all(&c->released); n; n = next) {
			next = n->next;
			g = container_of(n, struct ek_core_group, released);
			if (g->active)
				ek_order_place(c, g);
		}
	}
	for (i = 0; i < EK_IDLE_LOOKS; i++) {
		g = list_first_entry_or_null(&c->idle, struct ek_core_group, idle);
		if (!g)
			break;
		if (ek_order_expected(c, g, now) || g == c->solo.g)
			list_move_tail(&g->idle, &c->idle);
		else
			ek_order_deactivate(c, g);
	}
	while ((g = ek_rb_group(rb_first_cached(&c->awaited))) && g != c->solo.g &&
	       !ek_order_expected(c, g, now))
		ek_order_deactivate(c, g);
	g = ek_order_least(c);
	if (g)
		c->vnow = ek_later(c->vnow, g->vtime);
}

void ek_order_charge(struct ek_core *c, struct ek_core_group *g, u64 ns)
{
	s64 debt = atomic64_read(&g->debt) ? atomic64_xchg(&g->debt, 0) : 0;

	ns = clamp_t(s64, (s64)ns + debt, 0, 16 * EK_SEC);
	g->vtime += ek_order_span(c, g, ns);
}

/* the active group with the least virtual time, or NULL */
struct ek_core_group *ek_order_least(struct ek_core *c)
{
	struct ek_core_group *a = ek_rb_group(rb_first_cached(&c->ready));
	struct ek_core_group *b = ek_rb_group(rb_first_cached(&c->awaited));

	if (!a || !b)
		return a ?: b;
	return ek_before(b->vtime, a->vtime) ? b : a;
}

/* Its submitter waits for a tag that no completion will free. */
static bool ek_order_stuck(struct ek_core *c, struct ek_core_group *g)
{
	return !g->queued && g->waiting && !atomic_read(&c->in_flight);
}

static struct ek_core_group *ek_order_hold(struct ek_core *c, u64 now, u64 *wake)
{
	c->nr_holds++;
	*wake = min_t(u64, *wake, now + c->t.await_us * EK_US);
	return NULL;
}

/* TURNS: is the turn of the owner over, with @least behind it? */
static bool ek_turn_over(struct ek_core *c, struct ek_core_group *o,
			 struct ek_core_group *least)
{
	u64 turn = c->mode[c->now_mode].x * EK_MS;

	if (o == least || !ek_before(least->vtime, o->vtime))
		return false;
	turn = max_t(u64, turn, (u64)EK_TURN_LATENCIES *
				max_t(u32, o->base_latency, least->base_latency));
	return o->vtime - least->vtime >= ek_order_lead(c, turn);
}

/* The turn of one group ends, that of @g begins. */
static void ek_turn_begin(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	if (c->owner && c->turn.on) {
		ek_meter_read(&c->turn, c->owner);
		ek_cost_turn(c, c->owner, &c->turn);
	}
	c->owner = g;
	c->owner_since = now;
	c->turn.on = false;
	c->nr_switches++;
}

/* The turn is measured from when what others sent before is done. */
static void ek_turn_measure(struct ek_core *c)
{
	struct ek_core_group *o = c->owner;

	if (!c->turn.on && atomic_read(&c->in_flight) == atomic_read(&o->in_flight) &&
	    READ_ONCE(o->last_done) > c->owner_since)
		ek_meter_begin(&c->turn, o);
}

struct ek_core_group *ek_order_pick(struct ek_core *c, u64 now, u64 *wake)
{
	struct ek_core_group *least = ek_order_least(c), *g;

	if (!least)
		return NULL;
	g = ek_rb_group(rb_first_cached(&c->ready));
	if (c->mode[c->now_mode].kind == EK_TURNS) {
		if (!c->owner || ek_turn_over(c, c->owner, least)) {
			ek_turn_begin(c, least, now);
		}
		ek_turn_measure(c);
		if (c->owner->ready)
			g = c->owner;
		else if (!g || !ek_order_stuck(c, c->owner))
			return g ? ek_order_hold(c, now, wake) : NULL;
	} else {
		if (!g)
			return NULL;
		if (ek_before(least->vtime, g->vtime) && !ek_order_stuck(c, least) &&
		    g->vtime - least->vtime > ek_order_lead(c, c->t.lead_ms * EK_MS))
			return ek_order_hold(c, now, wake);
	}
	return ek_budget_room(c, g, now) ? g : ek_order_hold(c, now, wake);
}
