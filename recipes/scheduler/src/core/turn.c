// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turn: one group has the device alone.
 *
 * Policy: a turn lasts turn_ms, or a few latencies, but no longer than the group's share
 * of a round. At its end the group has paid the time that it had the device, whatever
 * its requests were estimated to cost, and its rate is learned. Three things differ:
 *  - A reader pays no more than its rate while the device is quiet. What is left is
 *    hidden work of earlier writes (a buffer that drains, garbage collection): the next
 *    writers pay for it.
 *  - Groups that are alike pay the cost by their pool. What the turns of alike writers
 *    took beyond it, all of these writers pay.
 *  - A turn that is too short to tell anything is paid by cost. Of many groups, several
 *    such turns tell together.
 * Invariant: time in turns is charged at most once. Not charged is what a turn was
 * made longer to learn, and hidden work beyond EK_HIDDEN_MOST.
 * Source: CFQ's and BFQ's slices; iocost's debt (Heo et al., ASPLOS 2022); the choice
 * among many groups is WF2Q's (Bennett, Zhang, 1996).
 */
#include "turn.h"
#include "budget.h"
#include "cost.h"
#include "guard.h"
#include "order.h"

/*
 * A group comes round within EK_ROUND_NS, so that shares hold over a second; if
 * latencies need more, within EK_ROUND_MOST_NS, so that nobody waits for 2 s.
 */
#define EK_ROUND_NS		(250 * EK_MS)
#define EK_ROUND_MOST_NS	(700 * EK_MS)
/* A turn is worth at least so many latencies: what its ends cost is then small. */
#define EK_TURN_LATENCIES	2
/* The first turn of a group lasts until its limit is found, but not longer than this. */
#define EK_FIRST_NS		(400 * EK_MS)
#define EK_FIRST_LATENCIES	12
/* Where groups are more than EK_MANY, they learn from each other; otherwise it is shorter. */
#define EK_MANY			8
#define EK_FIRST_MANY_NS	(50 * EK_MS)
#define EK_LIMIT_MANY		8
/* A window of a turn: so long, so many requests, and each in flight twice. */
#define EK_GROW_NS		(5 * EK_MS)
#define EK_WINDOW_NS		(20 * EK_MS)
#define EK_WINDOW_LONG		(100 * EK_MS)
#define EK_WINDOW_REQUESTS	8
/* The device was not idle in between if a completion takes that many latencies. */
#define EK_STALL_LATENCIES	4
/* Time of less than so many latencies tells more of their phase than of the rate. */
#define EK_TELLING_LATENCIES	4
/* Windows differ by chance: a reader pays so much more than its quickest window says. */
#define EK_QUIET		EK_PERCENT(103)
/* While the owner prepares its next request, another may take this part of its busy time. */
#define EK_FILL_BUSY		32
/* After a write, what slows readers down may be the writers' for so long. */
#define EK_WROTE_NS		(2 * EK_SEC)
/* What writers owe for turns of others: at most so much. */
#define EK_HIDDEN_MOST		(2 * EK_SEC)
/*
 * They pay it over about so many ms of their own time, each by its time. Among groups that
 * are alike that is longer, so that it does not matter who is next after a collection.
 */
#define EK_HIDDEN_MS		250
#define EK_HIDDEN_ALIKE_MS	1000
#define EK_RESIDUE_MS		2000
/* The ideal device is ahead of the group with the least by at most so much. */
#define EK_CLOCK_LEADS		(4 * EK_SEC)
/* TOGETHER: between solos of unknown groups, so many percent of the last one's time. */
#define EK_UNKNOWN_PERCENT	400

static void ek_turn_length(struct ek_core *c, struct ek_turn *t)
{
	struct ek_core_group *g = t->g;
	u64 latency = max_t(u32, ek_budget_latency(c, g), ek_cost(c, g, g->op, g->bytes));
	u64 least = latency;

	/* before a turn is alone, the requests of the one before have to complete */
	if (c->nr_active > EK_MANY)
		least = max_t(u64, least, c->most_latency);
	t->length = max_t(u64, c->t.turn_ms * EK_MS, EK_TURN_LATENCIES * latency) * c->mode.stretch;
	if (c->nr_active > 1)
		t->length = min_t(u64, t->length,
				  clamp_t(u64, EK_TURN_LATENCIES * least,
					  ek_order_part(c, g, EK_ROUND_NS * c->mode.stretch),
					  ek_order_part(c, g, EK_ROUND_MOST_NS)));
	t->paid = g->growing ? t->length : U64_MAX;
	/* a rate that few turns told gets one that tells more */
	latency = min_t(u64, 2 * EK_TELLING_LATENCIES * latency, EK_FIRST_NS);
	if (g->memory < EK_YOUNG_NS && c->nr_active <= EK_MANY && t->length < latency) {
		t->paid = t->length;
		t->length = latency;
	}
}

/* One of many: it learns from others, because first turns of all would take seconds. */
static void ek_turn_many(struct ek_core *c, struct ek_core_group *g)
{
	if (g->growing && !g->best)
		g->limit = max_t(u32, EK_LIMIT_MANY, c->cell[g->op][g->class].depth);
	if (!g->known && ek_cost_presume(c, g))
		g->growing = false;
}

static void ek_turn_begin(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	ek_guard_heavy(c, g);
	ek_order_unplace(c, g);
	c->turn = (struct ek_turn){
		.g = g, .begin = now, .flushed = atomic64_read(&c->flushed),
		.sent_cost = g->sent_cost - atomic64_read(&g->in_flight_cost),
	};
	if (c->nr_active > EK_MANY)
		ek_turn_many(c, g);
	else if (g->growing && !g->best)
		g->limit = EK_LIMIT_MIN;
	ek_turn_length(c, &c->turn);
	g->ready = g->queued;
	c->nr_turns++;
}

/* A window is over: does the limit grow, and was the device quick? */
static void ek_turn_window(struct ek_turn *t)
{
	u64 took = t->window.to - t->window.from, service;

	service = max_t(u64, ek_ratio(t->window.cost, took), 1);
	if (t->g->growing) {
		ek_budget_grow(t->g, service, div64_u64(t->window.cost, t->window.n));
		/* what came before was with fewer in flight */
		if (t->g->growing)
			ek_meter_begin(&t->steady, t->g, t->window.to);
	} else if (took >= EK_WINDOW_NS) {
		t->quickest = max_t(u64, t->quickest, service);
	}
	ek_meter_begin(&t->window, t->g, t->window.to);
}

static bool ek_turn_window_over(struct ek_turn *t)
{
	u64 took = t->window.to - t->window.from;
	u32 want = max_t(u32, EK_WINDOW_REQUESTS, 2 * t->g->limit);

	if (took >= EK_WINDOW_LONG)
		return t->window.n >= 2;
	if (t->g->growing)
		return took >= EK_GROW_NS && t->window.n >= max_t(u32, want / 2, 2);
	return took >= EK_WINDOW_NS && t->window.n >= want;
}

/* A wait in ns that is the device's own: it collects garbage, or drains a buffer. */
static u64 ek_turn_stall(struct ek_core *c, struct ek_core_group *g)
{
	return max_t(u64, EK_WINDOW_NS, (u64)EK_STALL_LATENCIES * ek_budget_latency(c, g));
}

/*
 * The last requests of the turn before are done. If the device stood still for
 * them, the group that sent them pays for that as well.
 */
static void ek_turn_tail(struct ek_core *c, struct ek_turn *t, u64 now)
{
	u64 mine = t->g->sent_cost - atomic64_read(&t->g->in_flight_cost) - t->sent_cost;
	u64 wall = now - min_t(u64, now, c->tail.from), cost = c->tail.cost;
	struct ek_core_group *g = c->tail.g;

	c->tail.g = NULL;
	if (!g || !g->active || c->mode.kind != EK_TURNS)
		return;
	if (g == t->g)
		cost = mine;
	else
		wall -= min_t(u64, wall, mine);
	if (!cost || (g != t->g && g->sent != c->tail.sent) ||
	    wall < cost + ek_turn_stall(c, g))
		return;
	/* collection falls into the turn of one writer, and is the work of all */
	if (c->wrote && now - c->wrote < EK_WROTE_NS) {
		c->hidden = min_t(u64, EK_HIDDEN_MOST, c->hidden + wall - cost);
		return;
	}
	ek_order_unplace(c, g);
	ek_order_adjust(c, g, wall - cost);
	ek_cost_learn(c, g, wall, cost, false);
	g->priced = g->sent;
	ek_order_place(c, g);
}

/* ns of cost that groups other than @g have in the device */
static u64 ek_turn_others_inside(struct ek_core *c, struct ek_core_group *g)
{
	return max_t(s64, 0, atomic64_read(&c->in_flight_cost) - atomic64_read(&g->in_flight_cost));
}

/* ns of cost that others were served since the turn is exclusive */
static u64 ek_turn_others(struct ek_core *c, struct ek_turn *t)
{
	return t->others - min_t(u64, t->others, ek_turn_others_inside(c, t->g));
}

/* Others have left the device: what is served from now on is @g's alone. */
static void ek_turn_alone(struct ek_core *c, struct ek_turn *t, u64 now)
{
	struct ek_core_group *g = t->g;

	if (atomic_read(&c->in_flight) - atomic_read(&c->out_of_turn) >
	    atomic_read(&g->in_flight) - atomic_read(&g->out_of_turn) ||
	    g->sent - atomic_read(&g->in_flight) < g->priced)
		return;
	t->exclusive = now;
	t->others = ek_turn_others_inside(c, g);
	ek_turn_tail(c, t, now);
	/* what it has in the device is served since the completion before, or since it was sent */
	if (atomic_read(&g->in_flight))
		now = min_t(u64, now, max_t(u64, READ_ONCE(c->last_done), c->filled));
	ek_meter_begin(&t->all, g, now);
}

/* The first request of @g completed after the device was its own. */
static void ek_turn_steady(struct ek_core *c, struct ek_turn *t)
{
	u64 first = READ_ONCE(t->g->last_done);

	if (first <= t->exclusive)
		return;
	t->stalled = first - t->exclusive > ek_turn_stall(c, t->g);
	ek_meter_begin(&t->steady, t->g, first);
	t->window = t->steady;
}

static void ek_turn_measure(struct ek_core *c, struct ek_turn *t, u64 now)
{
	struct ek_core_group *g = t->g;

	if (!t->exclusive) {
		ek_turn_alone(c, t, now);
		return;
	}
	if (!t->steady.on) {
		ek_turn_steady(c, t);
		return;
	}
	t->had = max_t(u32, t->had, g->queued + g->waiting + atomic_read(&g->in_flight));
	ek_meter_read(&t->window, g);
	if (!t->window.n)
		return;
	if (!ek_turn_window_over(t))
		return;
	/* it never has more at once: its limit is no limit */
	if (g->growing && t->had < g->limit)
		g->growing = false;
	ek_turn_window(t);
}

/* Of @wall, the time that @cost takes when no earlier writes are under way. */
static u64 ek_turn_quiet(struct ek_turn *t, u64 wall, u64 cost)
{
	if (!t->quickest)
		return wall;
	return min_t(u64, wall, ek_mul(ek_ratio(cost, t->quickest), EK_QUIET));
}

/* Is @wall long enough to tell what it takes? */
static bool ek_turn_tells(struct ek_core *c, struct ek_turn *t, u64 wall)
{
	return wall >= (u64)EK_TELLING_LATENCIES * ek_budget_latency(c, t->g);
}

/* Has @g nothing, for longer than a turn waits for its owner? */
static bool ek_turn_idles(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	return !g->queued && !g->waiting && !g->granted && !atomic_read(&g->in_flight) &&
	       !ek_before(now, ek_order_idle_until(c, g));
}

static bool ek_turn_over(struct ek_core *c, struct ek_turn *t, u64 now)
{
	struct ek_core_group *g = t->g;
	u64 most = c->nr_active > EK_MANY ? EK_FIRST_MANY_NS : EK_FIRST_NS, ahead;
	u64 latencies = (u64)EK_FIRST_LATENCIES * ek_budget_latency(c, g);

	most = max_t(u64, most, min_t(u64, latencies, EK_SEC));
	if (t->quick || ek_turn_idles(c, g, now))
		return true;
	if (!t->exclusive)
		return now - t->begin > EK_FIRST_NS + 2 * t->length;
	/* what it has in the device is part of the turn; the last request, if most of it is */
	ahead = ek_cost(c, g, g->op, g->bytes) / 2;
	ahead += max_t(s64, atomic64_read(&g->in_flight_cost), 0);
	if (now - t->exclusive + (g->known && t->steady.on ? ahead : 0) < t->length)
		return false;
	/* not before it was served, and its limit and its rate are known */
	if (t->steady.on && !g->growing &&
	    (g->known || ek_turn_tells(c, t, t->window.to - t->steady.from)))
		return true;
	return now - t->exclusive >= most;
}

/* Does the turn last for @ns more than what its owner has in the device? */
bool ek_turn_lasts(struct ek_core *c, u64 ns, u64 now)
{
	struct ek_turn *t = &c->turn;

	if (!t->exclusive || !t->steady.on || t->g->growing || !t->g->known)
		return true;
	ns += max_t(s64, atomic64_read(&t->g->in_flight_cost), 0);
	return now - t->exclusive + ns < t->length;
}

/* Learn from what was served with the limit that was found. */
static void ek_turn_learn(struct ek_core *c, struct ek_turn *t, bool quiet, u64 paid)
{
	struct ek_meter *m = &t->steady;
	u64 wall;

	if (m->on)
		ek_meter_read(m, t->g);
	/* few were served, or the device did something else first */
	if (!m->on || m->n < EK_WINDOW_REQUESTS || t->stalled)
		m = &t->all;
	wall = m->to - m->from;
	wall -= min_t(u64, wall, ek_turn_others(c, t));
	if (quiet)
		wall = ek_turn_quiet(t, wall, m->cost);
	wall += paid;
	if (wall && m->cost && (!t->g->known || ek_turn_tells(c, t, wall)))
		ek_cost_learn(c, t->g, wall, m->cost, quiet);
	/* what is in the device now was charged at the old price */
	t->g->priced = t->g->sent;
}

/* Did the device stand still in a turn of @wall ns, as it does to collect garbage? */
static bool ek_turn_stood(struct ek_core *c, struct ek_turn *t, u64 wall, u64 now)
{
	return t->g->memory >= EK_YOUNG_NS && c->wrote && now - c->wrote < EK_WROTE_NS &&
	       wall > t->all.cost + ek_turn_stall(c, t->g);
}

/* The part of what is hidden that @g, a writer, pays for a turn of @wall ns. */
static u64 ek_turn_share_hidden(struct ek_core *c, struct ek_core_group *g, u64 wall)
{
	u32 over = ek_cost_pooled(c, g) ? EK_HIDDEN_ALIKE_MS : EK_HIDDEN_MS;
	u64 paid = div_u64((c->hidden >> 10) * min_t(u64, wall, EK_SEC), over * (u32)(EK_MS >> 10));

	paid = min_t(u64, paid, min_t(u64, c->hidden, wall));
	c->hidden -= paid;
	return paid;
}

/*
 * What @g, a writer, pays for a turn of @wall ns that was charged as @cost ns. Among
 * writers that are alike, chance decides in whose turn the device collects garbage:
 * each pays its cost, and a part of what all turns took beyond that.
 */
static u64 ek_turn_share_residue(struct ek_core *c, struct ek_core_group *g, u64 wall, u64 cost)
{
	s64 most = min_t(u64, cost, EK_SEC) / 2, part;

	if (!ek_cost_pooled(c, g))
		return wall;
	c->residue = clamp_t(s64, c->residue + (s64)wall - (s64)cost,
			     -(s64)EK_HIDDEN_MOST, EK_HIDDEN_MOST);
	part = div_s64((c->residue >> 10) * (s64)min_t(u64, cost, EK_SEC),
		       EK_RESIDUE_MS * (s32)(EK_MS >> 10));
	part = clamp_t(s64, part, -most, most);
	c->residue -= part;
	return cost + part;
}

/*
 * A turn of @wall ns was too short to tell anything. Where groups are many, all turns
 * are: then several of them tell.
 */
static void ek_turn_brief(struct ek_core *c, struct ek_turn *t, u64 wall, bool quiet)
{
	struct ek_core_group *g = t->g;

	if (c->nr_active <= EK_MANY)
		return;
	g->brief_wall += wall;
	g->brief_cost += t->all.cost;
	if (!ek_turn_tells(c, t, g->brief_wall / 2))
		return;
	if (!ek_cost_pooled(c, g))
		ek_order_adjust(c, g, (s64)g->brief_wall - (s64)g->brief_cost);
	ek_cost_learn(c, g, g->brief_wall, g->brief_cost, quiet);
	g->priced = g->sent;
	g->brief_wall = 0;
	g->brief_cost = 0;
}

/* Charges @g for the time that it had the device, and moves to the writers what was theirs. */
static void ek_turn_pay(struct ek_core *c, struct ek_turn *t, u64 now)
{
	struct ek_core_group *g = t->g;
	u64 wall, own, paid = 0, flushed = atomic64_read(&c->flushed) - t->flushed;
	bool quiet = g->op == EK_OP_READ && c->wrote &&
		     now - c->wrote < EK_WROTE_NS;
	bool tells;

	if (!t->all.on || t->quick)
		return;
	ek_meter_read(&t->all, g);
	wall = (t->all.n ? t->all.to : now) - t->all.from;
	wall -= min_t(u64, wall, flushed + ek_turn_others(c, t));
	if (wall && ek_turn_stood(c, t, wall, now)) {
		c->hidden = min_t(u64, EK_HIDDEN_MOST, c->hidden + wall - t->all.cost);
		return;
	}
	if (!wall || !t->all.cost)
		return;
	tells = !g->known || (ek_turn_tells(c, t, wall) && t->all.n >= EK_WINDOW_REQUESTS / 2);
	if (!tells) {
		ek_turn_brief(c, t, wall, quiet);
		return;
	}
	g->brief_wall = 0;
	g->brief_cost = 0;
	own = ek_cost_pooled(c, g) ? t->all.cost : wall;
	if (quiet) {
		own = ek_turn_quiet(t, wall, t->all.cost);
		/* its rate remembers quieter turns */
		if (g->memory == EK_MEMORY_NS)
			own = min_t(u64, own, t->all.cost);
		c->hidden = min_t(u64, EK_HIDDEN_MOST, c->hidden + wall - own);
		wall = own;
	} else if (g->op != EK_OP_READ) {
		paid = ek_turn_share_hidden(c, g, wall);
		own = ek_turn_share_residue(c, g, wall, t->all.cost) + paid;
		wall += paid;
	}
	/* a longer turn was to learn: otherwise the group would wait for seconds after it */
	ek_order_adjust(c, g, (s64)min_t(u64, own, t->paid) - (s64)t->all.cost);
	ek_turn_learn(c, t, quiet, paid);
}

void ek_turn_end(struct ek_core *c, u64 now)
{
	struct ek_turn *t = &c->turn;
	struct ek_core_group *g = t->g;

	ek_turn_pay(c, t, now);
	c->tail = (struct ek_tail){
		.g = t->all.on && !t->quick && c->mode.kind == EK_TURNS &&
		     atomic_read(&g->in_flight) ? g : NULL,
		.from = t->all.to, .sent = g->sent,
		.cost = (u64)ek_cost(c, g, g->op, g->bytes) *
			(u32)max_t(s32, atomic_read(&g->in_flight), 0),
	};
	/* a device that is so slow does not fill windows: two in flight are enough for it */
	if (t->all.on && t->all.n < EK_WINDOW_REQUESTS && now - t->exclusive >= EK_FIRST_NS)
		g->growing = false;
	g->solo_at = now;
	list_move_tail(&g->solo_node, g->known ? &c->measured : &c->unmeasured);
	t->g = NULL;
	ek_order_place(c, g);
	c->solo_end = now;
	c->solo_took = now - t->begin;
}

/*
 * TOGETHER: a group that has to be measured now, or NULL. Solos stop the others,
 * so they get solo_percent of the time; for unknown groups, EK_UNKNOWN_PERCENT.
 */
static struct ek_core_group *ek_turn_due(struct ek_core *c, u64 now)
{
	u64 since = 100 * (now - c->solo_end);
	struct ek_core_group *g;

	g = list_first_entry_or_null(&c->unmeasured, struct ek_core_group, solo_node);
	if (g && since >= EK_UNKNOWN_PERCENT * c->solo_took)
		return g;
	if (c->mode.warm || since * c->t.solo_percent < 10000 * c->solo_took)
		return NULL;
	return list_first_entry_or_null(&c->measured, struct ek_core_group, solo_node);
}

/*
 * Where many light groups have the same virtual time, they would be served in a row, and
 * a heavy one would wait for all of them. Of those that an ideal device, which serves all
 * at once, would have begun to serve by now, the one that is due first goes instead
 * (worst-case fair queueing: Bennett and Zhang, 1996).
 */
static struct ek_core_group *ek_turn_soonest(struct ek_core *c, u64 now)
{
	u64 clock = c->clock + ek_order_lead(c, min_t(u64, now - c->clock_at, EK_SEC));

	clock = ek_later(clock, c->vnow);
	if (ek_before(c->vnow + ek_order_lead(c, EK_CLOCK_LEADS), clock))
		clock = c->vnow + ek_order_lead(c, EK_CLOCK_LEADS);
	c->clock = clock;
	c->clock_at = now;
	return c->nr_active > EK_MANY ? ek_order_soonest(c, clock) : NULL;
}

/* TURNS: the next owner. Groups that have nothing and went away give up their place. */
static struct ek_core_group *ek_turn_next(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;

	while ((g = ek_order_least(c)) && ek_turn_idles(c, g, now))
		ek_order_deactivate(c, g);
	return ek_turn_soonest(c, now) ?: g;
}

/* Go on with the turn, end it, and begin the next. */
void ek_turn_step(struct ek_core *c, u64 now)
{
	struct ek_turn *t = &c->turn;
	struct ek_core_group *g = NULL;

	if (t->g) {
		ek_turn_measure(c, t, now);
		if (!ek_turn_over(c, t, now))
			return;
		g = t->g;
		ek_turn_end(c, now);
		if (ek_turn_idles(c, g, now))
			ek_order_deactivate(c, g);
	}
	if (c->mode.kind == EK_TURNS)
		g = ek_turn_next(c, now);
	else
		g = ek_turn_due(c, now);
	if (!g)
		return;
	if (c->mode.kind == EK_TOGETHER)
		c->nr_solos++;
	ek_turn_begin(c, g, now);
}

/*
 * The owner @g prepares its next request, as it does after 100 MB. The group whose
 * turn is next may send some meanwhile, if the owner would wait for them a small part of
 * the time that it was busy. NULL if there is none.
 */
static struct ek_core_group *ek_turn_filler(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u64 last = max_t(u64, READ_ONCE(g->last_done), g->served);
	u64 inside = max_t(s64, 0, atomic64_read(&c->in_flight_cost));
	struct ek_core_group *other;

	if (g->queued || g->waiting || g->granted || g->growing || atomic_read(&g->in_flight))
		return NULL;
	other = ek_order_first(c);
	/* a light group would wait for them, too */
	if (!other || (c->short_until > now && atomic_read(&c->in_flight)))
		return NULL;
	inside += ek_cost(c, other, other->op, other->bytes);
	if (EK_FILL_BUSY * inside > last - min_t(u64, last, g->busy))
		return NULL;
	return other;
}

/*
 * Others have more queued than the half of the tags that is theirs in turns, as after
 * TOGETHER. They may not be due for seconds, and the owner would lack tags until then.
 */
static struct ek_core_group *ek_turn_clogs(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	struct ek_core_group *other;

	if (!g->waiting || c->nr_queued - g->queued <= max_t(u32, c->tags / 2, 1))
		return NULL;
	other = ek_order_first(c);
	return other && ek_guard_affords(c, other, now) ? other : NULL;
}

/* The owner, if it has a request and room for it. */
struct ek_core_group *ek_turn_pick(struct ek_core *c, u64 now, u64 *wake)
{
	struct ek_core_group *g = c->turn.g, *other;

	other = ek_turn_clogs(c, g, now);
	if (other)
		return other;
	c->why = EK_WHY_SOLO;
	/* behind others, its least latency and its limit could not be found */
	if (g->growing && !c->turn.exclusive &&
	    atomic_read(&c->in_flight) != atomic_read(&c->out_of_turn))
		return ek_order_hold(c, now, wake);
	if (g->queued && (u32)atomic_read(&g->in_flight) < ek_budget_limit(c, g) &&
	    ek_budget_room(c, g, now))
		return g;
	/* others hold the tags: one of them goes, and the owner gets its tag */
	if (!g->queued && g->waiting && !atomic_read(&c->in_flight)) {
		other = ek_order_first(c);
		if (other) {
			c->turn.exclusive = 0;
			c->turn.all.on = false;
			c->turn.steady.on = false;
			c->why = EK_WHY_ORDER;
			return other;
		}
	}
	other = ek_turn_filler(c, g, now);
	if (other) {
		c->why = EK_WHY_AHEAD;
		return other;
	}
	if (!g->queued && !g->waiting && !atomic_read(&g->in_flight))
		*wake = min_t(u64, *wake, max_t(u64, ek_order_idle_until(c, g), now + 1));
	return ek_order_hold(c, now, wake);
}
