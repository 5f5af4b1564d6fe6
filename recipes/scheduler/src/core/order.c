// SPDX-License-Identifier: GPL-2.0-only
/*
 * Order: which group is next.
 *
 * Policy: a group's virtual time grows by cost / share; the least goes first.
 * TURNS: the group with the least has the device alone for a turn. Where groups are
 * many, turn.c asks for the one whose next request is due first instead.
 * TOGETHER: all have requests in the device. A group that has nothing to send is awaited
 * only while it has less than it was promised: its share of the time that passed.
 * A group that was away for a short time keeps what it lacked before.
 * Invariant: a group that has less than it was promised is led by no more than a turn or,
 * TOGETHER, by lead_ms.
 * Source: start-time fair queueing (Goyal, Vin, Cheng, 1996), ek_math.h has the bound; for
 * many groups WF2Q (Bennett, Zhang, 1996).
 */
#include "order.h"
#include "budget.h"
#include "cost.h"
#include "turn.h"

/* A group that was away keeps at most so much debt. */
#define EK_DEBT_MAX		EK_SEC
/* A group that was away for longer is owed nothing. */
#define EK_OWED_NS		EK_SEC
/* What it may be owed: so much of the device's time. */
#define EK_OWED_MOST		(500 * EK_MS)
/* Groups without a request are looked at, so many at a time, after this time. */
#define EK_IDLE_LOOKS		4
#define EK_IDLE_NS		(500 * EK_US)
/* A turn waits for its owner: this part of the time that it was busy, ... */
#define EK_IDLE_BUSY		4
/* ... at least this part of await_us, and at most await_us. */
#define EK_IDLE_LEAST		10
/* The most groups that are compared for which is soonest. */
#define EK_SOONEST_LOOKS	256
/* The promise is kept over this time: so far it may be behind or ahead of the groups. */
#define EK_PROMISE_NS		(50 * EK_MS)

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

/* the part of @ns, at most 4 s, that the share of @g is of all shares */
u64 ek_order_part(struct ek_core *c, struct ek_core_group *g, u64 ns)
{
	return div64_u64((ns >> 6) * (ek_order_share(c, g) >> 2),
			 max_t(u64, c->top.sum << (EK_SHARE_SHIFT - 8), 1));
}

/* time in which the share of @g gives it one more request, at most 2^36 ns */
u64 ek_order_round(struct ek_core *c, struct ek_core_group *g)
{
	u64 span = ek_order_span(c, g, ek_cost(c, g, g->op, g->bytes));

	return min_t(u64, span, U64_MAX / max_t(u64, c->top.sum, 1)) * c->top.sum >> 12;
}

void ek_order_unplace(struct ek_core *c, struct ek_core_group *g)
{
	if (g->placed)
		rb_erase_cached(&g->rb, g->ready ? &c->ready : &c->awaited);
	g->placed = false;
}

/* @g is in no tree from now on; or it competes, and owes for the past at most EK_DEBT_MAX. */
void ek_order_apart(struct ek_core *c, struct ek_core_group *g, bool apart)
{
	if (g->apart == apart)
		return;
	g->apart = apart;
	if (!apart)
		g->vtime = ek_bounded(g->vtime, c->vnow, ek_order_span(c, g, EK_DEBT_MAX));
}

/*
 * Put @g into the tree where it belongs, at its virtual time. The owner of a turn
 * is in none, nor is a light group that pauses.
 */
void ek_order_place(struct ek_core *c, struct ek_core_group *g)
{
	bool full;
	u32 limit;

	if (g->queued)
		list_del_init(&g->idle);
	else if (list_empty(&g->idle))
		list_add_tail(&g->idle, &c->idle);
	if (c->turn.g == g)
		return;
	if (g->apart) {
		ek_order_unplace(c, g);
		return;
	}
	limit = ek_budget_limit(c, g);
	full = (u32)atomic_read(&g->in_flight) >= limit;
	if (g->queued && full) {
		/* a completion puts it back, unless it came meanwhile, or already does */
		atomic_cmpxchg(&g->capped, 0, 1);
		/* pairs with ek_core_complete(): one of both sees the other */
		smp_mb();
		full = (u32)atomic_read(&g->in_flight) >= limit ||
		       atomic_cmpxchg(&g->capped, 1, 0) != 1;
	}
	ek_order_unplace(c, g);
	g->ready = g->queued && !full;
	rb_add_cached(&g->rb, g->ready ? &c->ready : &c->awaited, ek_rb_before);
	g->placed = true;
}

/*
 * @g comes back. While it was away, the ideal device, which serves all at once, went on:
 * that is what @g lost, and no more. What it lacked before, as between two I/Os of 100 MB, it
 * still gets; and it owes at most EK_DEBT_MAX.
 */
static void ek_order_return(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u64 away = now - min_t(u64, now, g->left), least = c->vnow;

	if (away < EK_OWED_NS && ek_before(g->vtime + ek_order_lead(c, away), least))
		least = ek_later(g->vtime + ek_order_lead(c, away),
				 least - ek_order_lead(c, EK_OWED_MOST));
	g->vtime = ek_bounded(g->vtime, least, ek_order_span(c, g, EK_DEBT_MAX));
}

void ek_order_activate(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	if (g->active)
		return;
	g->active = true;
	c->nr_active++;
	c->nr_unknown += !g->known;
	ek_node_join(&c->top, &g->node);
	g->share = ek_node_share(&g->node);
	g->share_generation = c->top.generation;
	ek_order_return(c, g, now);
	list_add_tail(&g->solo_node, g->known ? &c->measured : &c->unmeasured);
	g->served = now;
	g->paused = now;
	ek_order_place(c, g);
}

void ek_order_deactivate(struct ek_core *c, struct ek_core_group *g)
{
	/* it pauses: before its first turn, its latency is the best guess of its cost */
	if (!g->known && g->sent) {
		ek_cost_first(c, g);
		ek_cost_known(c, g, true);
	}
	ek_order_unplace(c, g);
	g->left = max_t(u64, READ_ONCE(g->last_done), g->served);
	list_del_init(&g->idle);
	list_del_init(&g->solo_node);
	ek_cost_alike(c, g, false);
	g->active = false;
	c->nr_active--;
	c->nr_unknown -= !g->known;
	ek_node_leave(&c->top, &g->node);
}

/* Does @g have a request, or will it soon? */
bool ek_order_expected(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	return g->queued || g->waiting || g->granted || atomic_read(&g->in_flight) ||
	       (s64)(now - max_t(u64, READ_ONCE(g->last_done), g->served)) <
	       (s64)(c->t.await_us * EK_US);
}

/*
 * How long a turn waits for its owner, which has nothing: a part of the time for
 * which it had something until then. A task that reads one block after the other
 * needs less, even on a slow CPU; one that prepares 100 MB needs more.
 */
u64 ek_order_idle_until(struct ek_core *c, struct ek_core_group *g)
{
	u64 last = max_t(u64, READ_ONCE(g->last_done), g->served);
	u64 most = c->t.await_us * EK_US;

	return last + clamp_t(u64, (last - min_t(u64, last, g->busy)) / EK_IDLE_BUSY,
			      most / EK_IDLE_LEAST, most);
}

/* Groups that have been without a request for long are no longer active. */
static void ek_order_expire(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;
	int i;

	c->idle_at = now;
	for (i = 0; i < EK_IDLE_LOOKS; i++) {
		g = list_first_entry_or_null(&c->idle, struct ek_core_group, idle);
		if (!g)
			break;
		if (ek_order_expected(c, g, now) || g == c->turn.g)
			list_move_tail(&g->idle, &c->idle);
		else
			ek_order_deactivate(c, g);
	}
}

/* Groups with room again are ready; groups that went away leave; virtual time goes on. */
void ek_order_collect(struct ek_core *c, u64 now)
{
	struct llist_node *n, *next;
	struct ek_core_group *g;

	if (!llist_empty(&c->released)) {
		for (n = llist_del_all(&c->released); n; n = next) {
			next = n->next;
			g = container_of(n, struct ek_core_group, released);
			atomic_set(&g->capped, 0);
			if (g->active)
				ek_order_place(c, g);
		}
	}
	if (now - c->idle_at > EK_IDLE_NS)
		ek_order_expire(c, now);
	while ((g = ek_rb_group(rb_first_cached(&c->awaited))) &&
	       !ek_order_expected(c, g, now))
		ek_order_deactivate(c, g);
	g = ek_order_least(c);
	if (g)
		c->vnow = ek_later(c->vnow, g->vtime);
}

/* @g pays @ns, and what completions found missing */
void ek_order_charge(struct ek_core *c, struct ek_core_group *g, u64 ns)
{
	s64 debt = atomic64_read(&g->debt) ? atomic64_xchg(&g->debt, 0) : 0;

	ns = clamp_t(s64, (s64)(ns + g->unpaid) + debt, 0, 16 * EK_SEC);
	g->unpaid = 0;
	g->charged += ns;
	g->vtime += ek_order_span(c, g, ns);
}

/* @g, which is in no tree, was charged @ns too little (or too much). */
void ek_order_adjust(struct ek_core *c, struct ek_core_group *g, s64 ns)
{
	ns = clamp_t(s64, ns, -(s64)(16 * EK_SEC), 16 * EK_SEC);
	g->charged += ns;
	g->pass_left -= ns;
	if (ns < 0)
		g->vtime -= ek_order_span(c, g, -ns);
	else
		g->vtime += ek_order_span(c, g, ns);
}

/* the group with the least virtual time that can send, or NULL */
struct ek_core_group *ek_order_first(struct ek_core *c)
{
	return ek_rb_group(rb_first_cached(&c->ready));
}

/* the active group with the least virtual time, or NULL */
struct ek_core_group *ek_order_least(struct ek_core *c)
{
	struct ek_core_group *a = ek_rb_group(rb_first_cached(&c->ready));
	struct ek_core_group *b = ek_rb_group(rb_first_cached(&c->awaited));

	if (!a || (b && ek_before(b->vtime, a->vtime)))
		a = b;
	b = c->turn.g;
	return !a || (b && ek_before(b->vtime, a->vtime)) ? b : a;
}

/*
 * Of the groups that can send and have at most the virtual time @until, the one whose next
 * request is due first: the one that its share gives it soonest. NULL if there is none.
 */
struct ek_core_group *ek_order_soonest(struct ek_core *c, u64 until)
{
	struct rb_node *n = rb_first_cached(&c->ready);
	struct ek_core_group *g, *best = NULL;
	u64 due, least = 0;
	int looks;

	for (looks = 0; n && looks < EK_SOONEST_LOOKS; n = rb_next(n), looks++) {
		g = ek_rb_group(n);
		if (ek_before(until, g->vtime))
			break;
		due = g->vtime + ek_order_span(c, g, ek_cost(c, g, g->op, g->bytes));
		if (!best || ek_before(due, least)) {
			best = g;
			least = due;
		}
	}
	return best;
}

/* Its submitter waits for a tag that no completion will free. */
static bool ek_order_stuck(struct ek_core *c, struct ek_core_group *g)
{
	return !g->queued && g->waiting && !atomic_read(&c->in_flight);
}

struct ek_core_group *ek_order_hold(struct ek_core *c, u64 now, u64 *wake)
{
	c->nr_holds++;
	*wake = min_t(u64, *wake, now + c->t.await_us * EK_US);
	return NULL;
}

/*
 * What everyone was promised, in virtual time, when the device will have done what
 * is in it and @cost ns more. It goes on with time, but stays near what groups have.
 */
static u64 ek_order_promise(struct ek_core *c, u32 cost, u64 now)
{
	u64 slack = ek_order_lead(c, max_t(u64, EK_PROMISE_NS, c->most_request));
	u64 inside = max_t(s64, atomic64_read(&c->in_flight_cost), 0) + cost;
	u64 lambda = max_t(u64, c->mode.lambda[EK_TOGETHER], EK_ONE);

	c->promise += ek_order_lead(c, min_t(u64, now - c->promise_at, EK_SEC));
	c->promise_at = now;
	if (ek_before(c->promise, c->vnow - slack))
		c->promise = c->vnow - slack;
	if (ek_before(c->vnow + slack, c->promise))
		c->promise = c->vnow + slack;
	return c->promise + ek_order_lead(c, ek_ratio(inside, lambda));
}

/* TOGETHER: is @least, which cannot send now, owed that @g waits for it? */
static bool ek_order_owed(struct ek_core *c, struct ek_core_group *least,
			  struct ek_core_group *g, u64 now)
{
	u64 promise = ek_order_promise(c, ek_cost(c, g, g->op, g->bytes), now);

	return ek_before(least->vtime, g->vtime) && ek_before(least->vtime, promise) &&
	       g->vtime - least->vtime > ek_order_lead(c, c->t.lead_ms * EK_MS) &&
	       !ek_order_stuck(c, least);
}

/* TOGETHER */
struct ek_core_group *ek_order_pick(struct ek_core *c, u64 now, u64 *wake)
{
	struct ek_core_group *least = ek_order_least(c), *g = ek_order_first(c);

	c->why = EK_WHY_ORDER;
	if (!g)
		return NULL;
	if (ek_order_owed(c, least, g, now) || !ek_budget_room(c, g, now))
		return ek_order_hold(c, now, wake);
	return g;
}
