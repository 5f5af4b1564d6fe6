// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turn: one group has the device alone.
 *
 * Policy: a turn lasts turn_ms, or a few latencies if that is more, but no longer than the
 * group's share of a round. At the end of its turn, the owner has been charged for the time
 * that it had the device, whatever its requests were estimated to cost. The core also learns
 * the owner's rate. These cases differ:
 *  - A reader is charged no more than its requests cost while the device is quiet. The rest
 *    of its turn is hidden time of earlier writes: a buffer that drains, or garbage
 *    collection. All writes are charged for it: hidden.c
 *  - If the device stands still in the turn of a writer, this is hidden time, too.
 *  - Groups that are alike are charged at the rate of their pool, whatever a turn took. The
 *    rate of the pool learns from all of their turns.
 *  - A turn that is too short to measure a rate is charged by the estimated cost. Several
 *    such turns count as one measurement; up to EK_MANY groups, only those of readers. The
 *    turn of a writer lasts until it shows a rate, if its length permits.
 * Invariant: the time of turns is charged at most once, or becomes hidden time once. What the
 * core added to a turn in order to learn is not charged.
 * Source: the time slices of CFQ and BFQ; iocost's debt (Heo et al., ASPLOS 2022); the choice
 * among many groups is that of WF2Q (Bennett, Zhang, 1996).
 */
#include "turn.h"
#include "budget.h"
#include "cost.h"
#include "guard.h"
#include "hidden.h"
#include "order.h"
#include "stall.h"

/*
 * Below, a latency is the least latency of the group's requests: see ek_budget_latency().
 *
 * In a round, each group has one turn. A round lasts EK_ROUND_NS, so that shares hold over a
 * second. If the latencies of requests need longer turns, a round may last EK_ROUND_MOST_NS,
 * which still keeps every wait below 2 s.
 */
#define EK_ROUND_NS		(250 * EK_MS)
#define EK_ROUND_MOST_NS	(700 * EK_MS)
/*
 * The least length of a turn, in latencies or costs of a request, whichever are longer; less
 * only if EK_ROUND_MOST_NS requires it. Shorter turns would lose much time at their ends.
 */
#define EK_TURN_LATENCIES	2
/*
 * The first turn of a group lasts until its limit and rate are found, but not longer than
 * EK_FIRST_NS or, if that is more, EK_FIRST_LATENCIES latencies (at most 1 s).
 */
#define EK_FIRST_NS		(400 * EK_MS)
#define EK_FIRST_LATENCIES	12
/*
 * With more than EK_MANY active groups, a new group takes its rate from groups that are like
 * it. EK_FIRST_MANY_NS then replaces EK_FIRST_NS, and the group's limit begins at
 * EK_LIMIT_MANY or more.
 */
#define EK_FIRST_MANY_NS	(50 * EK_MS)
#define EK_LIMIT_MANY		8
/*
 * A turn is measured in windows. A window lasts at least EK_WINDOW_NS (ns), and has at least
 * EK_WINDOW_REQUESTS completions and two for each request of the limit. While the limit
 * grows, EK_GROW_NS and half as many completions are enough. From EK_WINDOW_LONG on, two
 * completions are enough.
 */
#define EK_GROW_NS		(5 * EK_MS)
#define EK_WINDOW_NS		(20 * EK_MS)
#define EK_WINDOW_LONG		(100 * EK_MS)
#define EK_WINDOW_REQUESTS	8
/*
 * If a completion takes this many latencies longer than expected, the device did work of its
 * own in between.
 */
#define EK_STALL_LATENCIES	4
/*
 * The least time that shows a rate, in latencies. A shorter time depends more on where
 * within a request it begins and ends than on the rate.
 */
#define EK_TELLING_LATENCIES	4
/*
 * The quickest window is partly quick by chance. So a reader is charged this multiple of what
 * its requests would cost at the speed of its quickest window.
 */
#define EK_QUIET		EK_PERCENT(103)
/* Out-of-turn requests of others are in all windows if they took more than 1/EK_MIXED. */
#define EK_MIXED		8
/*
 * While the owner prepares its next request, another group may send requests that cost up to
 * 1 / EK_FILL_BUSY of the time that the owner was busy.
 */
#define EK_FILL_BUSY		32
/* For this time (ns) after a write, a slow device counts as busy with hidden work of writes. */
#define EK_WROTE_NS		(2 * EK_SEC)
/* The virtual clock of the ideal device leads c->vnow by at most this service (ns). */
#define EK_CLOCK_LEADS		(4 * EK_SEC)
/*
 * TOGETHER: before a solo of a group whose rate is unknown, the other groups get at least
 * this percentage of the length of the last solo.
 */
#define EK_UNKNOWN_PERCENT	400

/* Set how long the turn lasts, and the most that its owner is charged for it. */
static void ek_turn_length(struct ek_core *c, struct ek_turn *t)
{
	struct ek_core_group *g = t->g;
	u64 latency = max_t(u32, ek_budget_latency(c, g), ek_cost(c, g, g->op, g->bytes));
	u64 least = latency;

	/* a turn has to be long compared with the wait for the last owner's requests */
	if (c->nr_active > EK_MANY)
		least = max_t(u64, least, c->most_latency);
	t->length = max_t(u64, c->t.turn_ms * EK_MS, EK_TURN_LATENCIES * latency) * c->mode.stretch;
	if (c->nr_active > 1)
		t->length = min_t(u64, t->length,
				  clamp_t(u64, EK_TURN_LATENCIES * least,
					  ek_order_part(c, g, EK_ROUND_NS * c->mode.stretch),
					  ek_order_part(c, g, EK_ROUND_MOST_NS)));
	t->paid = g->growing ? t->length : U64_MAX;
	/* a rate from few turns needs a longer turn to measure it; the added time is not charged */
	latency = min_t(u64, 2 * EK_TELLING_LATENCIES * latency, EK_FIRST_NS);
	if (g->memory < EK_YOUNG_NS && c->nr_active <= EK_MANY && t->length < latency) {
		t->paid = t->length;
		t->length = latency;
	}
}

/*
 * With many groups, a new group takes its limit and rate from what others showed: a long
 * first turn for each group would take seconds.
 */
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
	c->newcomer = false;
	c->nr_turns++;
}

/* The cost (ns) of the requests of groups other than @g in the device. */
u64 ek_turn_others_inside(struct ek_core *c, struct ek_core_group *g)
{
	return max_t(s64, 0, atomic64_read(&c->in_flight_cost) - atomic64_read(&g->in_flight_cost));
}

/* The cost (ns) of the requests of other groups served since the turn became exclusive. */
static u64 ek_turn_others(struct ek_core *c, struct ek_turn *t)
{
	return t->others - min_t(u64, t->others, ek_turn_others_inside(c, t->g));
}

/* Measure the rate from the completion at @from on. */
static void ek_turn_steady_from(struct ek_core *c, struct ek_turn *t, u64 from)
{
	ek_meter_begin(&t->steady, t->g, from);
	t->idle_steady = t->idle;
	t->others_steady = ek_turn_others(c, t);
}

/* A window is over: raise the limit while it grows; otherwise note how quick the device was. */
static void ek_turn_window(struct ek_core *c, struct ek_turn *t)
{
	u64 took = t->window.to - t->window.from, service;

	service = max_t(u64, ek_ratio(t->window.cost, took), 1);
	if (t->g->growing) {
		ek_budget_grow(t->g, service, div64_u64(t->window.cost, t->window.n));
		/* do not count requests before this window: they had a smaller limit */
		if (t->g->growing)
			ek_turn_steady_from(c, t, t->window.to);
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

/* A wait (ns) above this shows work of the device's own: garbage collection, or a buffer. */
static u64 ek_turn_stall(struct ek_core *c, struct ek_core_group *g)
{
	return max_t(u64, EK_WINDOW_NS, (u64)EK_STALL_LATENCIES * ek_budget_latency(c, g));
}

/* Is @wall (ns) long enough to measure the rate of @g? */
static bool ek_turn_tells(struct ek_core *c, struct ek_core_group *g, u64 wall)
{
	return wall >= (u64)EK_TELLING_LATENCIES * ek_budget_latency(c, g);
}

/*
 * A turn of @g, or the rest of one, took @wall ns for requests that cost @cost ns: too short to
 * measure a rate. Add up such turns until they are long enough together. With many groups, all
 * turns are short. With few, all turns of a group are short if its rate says that a request
 * takes far longer than it does, or if all requests that fit into its turn may be in the device
 * at once. @quiet: see ek_cost_learn().
 */
static void ek_turn_brief(struct ek_core *c, struct ek_core_group *g, u64 wall, u64 cost,
			  bool quiet)
{
	/* the time of a writer, or beside one, has parts that only longer turns can tell apart */
	if (c->nr_active <= EK_MANY && (g->op != EK_OP_READ || quiet))
		return;
	g->brief_wall += wall;
	g->brief_cost += cost;
	if (!ek_turn_tells(c, g, g->brief_wall / 2))
		return;
	if (!ek_cost_pooled(c, g))
		ek_order_adjust(c, g, (s64)g->brief_wall - (s64)g->brief_cost);
	ek_cost_learn(c, g, g->brief_wall, g->brief_cost, quiet);
	g->priced = g->sent;
	g->brief_wall = 0;
	g->brief_cost = 0;
}

/* Was there a write so short ago that hidden work of writes may slow reads? */
bool ek_turn_wrote(struct ek_core *c, u64 now)
{
	return c->wrote && now - c->wrote < EK_WROTE_NS;
}

/* The turn of @g was too short to measure. The requests that it left in the device count, too. */
static void ek_turn_rest(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u64 end = READ_ONCE(g->last_done);

	if (end <= c->tail.busy)
		return;
	ek_order_unplace(c, g);
	ek_turn_brief(c, g, end - c->tail.busy, c->tail.charged, ek_turn_wrote(c, now));
	ek_order_place(c, g);
}

/*
 * The requests that the last owner left in the device have completed. If they took much
 * longer than their cost, the device stood still. This time is charged to the last owner or,
 * shortly after a write, becomes hidden time. If the last turn was too short to measure, the
 * owner's rate is measured with these requests, too.
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
	if (!cost || (g != t->g && g->sent != c->tail.sent))
		return;
	if (wall < cost + ek_turn_stall(c, g)) {
		/* exact only if the new owner's requests were served after them */
		if (c->tail.charged && g != t->g && !mine)
			ek_turn_rest(c, g, now);
		return;
	}
	/* shortly after writes it was garbage collection: all writers are charged for it */
	if (ek_turn_wrote(c, now)) {
		ek_hidden_saw(c, wall - cost, 0);
		return;
	}
	ek_order_unplace(c, g);
	ek_order_adjust(c, g, wall - cost);
	ek_cost_learn(c, g, wall, cost, false);
	g->priced = g->sent;
	ek_order_place(c, g);
}

/*
 * If the requests of others have left the device, except those sent out of turn, the turn
 * becomes exclusive. Its time counts from now on. Requests of the owner that were charged at
 * an older rate must have left, too.
 */
static void ek_turn_alone(struct ek_core *c, struct ek_turn *t, u64 now)
{
	struct ek_core_group *g = t->g;

	if (atomic_read(&c->in_flight) - atomic_read(&c->out_of_turn) >
	    atomic_read(&g->in_flight) - atomic_read(&g->out_of_turn) ||
	    g->sent - atomic_read(&g->in_flight) < g->priced)
		return;
	t->exclusive = now;
	t->gap = 0;
	t->others = ek_turn_others_inside(c, g);
	ek_turn_tail(c, t, now);
	/* the device has served its requests since the last completion, or since it was empty */
	if (atomic_read(&g->in_flight))
		now = min_t(u64, now, max_t(u64, c->paid_to,
					    max_t(u64, READ_ONCE(c->last_done), c->filled)));
	ek_meter_begin(&t->all, g, now);
}

/* If the owner's first request since the turn became exclusive completed, begin to measure. */
static void ek_turn_steady(struct ek_core *c, struct ek_turn *t)
{
	u64 first = READ_ONCE(t->g->last_done);

	if (first <= t->exclusive)
		return;
	t->stalled = first - t->exclusive > ek_turn_stall(c, t->g);
	ek_turn_steady_from(c, t, first);
	t->window = t->steady;
}

/*
 * If the owner has new completions, note how much service others had until then, and the longest
 * time without a completion.
 */
static void ek_turn_see(struct ek_core *c, struct ek_turn *t)
{
	u64 last = READ_ONCE(t->g->last_done), others, from, gap;

	if (t->seen == last)
		return;
	others = ek_turn_others(c, t);
	from = max_t(u64, max_t(u64, t->seen, t->all.from), t->back) + others -
	       min_t(u64, others, t->others_seen);
	gap = last - min_t(u64, last, from);
	if (gap > t->gap) {
		t->gap = gap;
		t->gap_end = last;
	}
	t->seen = last;
	t->others_seen = others;
}

/*
 * How long the device stood still (ns) while @m counted, which took @wall ns: the longest time
 * without a completion, if it is far longer than all others. Only for a writer. Not if a flush
 * was done meanwhile: that takes time, too, and is charged apart.
 */
static u64 ek_turn_still(struct ek_core *c, struct ek_turn *t, struct ek_meter *m, u64 wall)
{
	u64 pace;

	if (t->g->op == EK_OP_READ || m->n < 3 || t->gap >= wall || t->gap_end <= m->from ||
	    t->gap <= ek_turn_stall(c, t->g) || (u64)atomic64_read(&c->flushed) != t->flushed)
		return 0;
	pace = div64_u64(wall - t->gap, m->n - 1);
	return t->gap > EK_STALL_LATENCIES * pace ? t->gap - pace : 0;
}

/* Update the measurements of the present turn. */
static void ek_turn_measure(struct ek_core *c, struct ek_turn *t, u64 now)
{
	struct ek_core_group *g = t->g;

	if (!t->exclusive) {
		ek_turn_alone(c, t, now);
		return;
	}
	ek_turn_see(c, t);
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
	/* it never has as many requests as its limit allows: a larger limit changes nothing */
	if (g->growing && t->had < g->limit)
		g->growing = false;
	ek_turn_window(c, t);
}

/* The part of @wall (ns) that requests of cost @cost (ns) take while the device is quiet. */
static u64 ek_turn_quiet(struct ek_turn *t, u64 wall, u64 cost)
{
	if (!t->quickest)
		return wall;
	return min_t(u64, wall, ek_mul(ek_ratio(cost, t->quickest), EK_QUIET));
}

/*
 * Do the windows of the turn tell how fast the device is while it is quiet? Not if requests of
 * others, sent out of turn, took a part of all windows. Those sent while reads waited did not.
 */
static bool ek_turn_was_quiet(struct ek_core *c, struct ek_turn *t, u64 wall)
{
	u64 others = ek_turn_others(c, t);

	return others - min_t(u64, others, t->instead) < wall / EK_MIXED ||
	       ek_mul(t->quickest, EK_QUIET) >= EK_ONE;
}

/*
 * The owner had no request since its last completion, and has one @now. A pause that is
 * shorter than a request belongs to the rate: a task that sends one request after the other
 * always has it.
 */
void ek_turn_paused(struct ek_core *c, u64 now)
{
	struct ek_turn *t = &c->turn;
	u64 from, last = READ_ONCE(t->g->last_done);

	if (!t->all.on)
		return;
	from = max_t(u64, last, t->all.from);
	if (now < from + ek_budget_latency(c, t->g))
		return;
	t->pause = now - from;
	t->idle += t->pause;
	t->back = now;
}

/* Is a turn whose owner was served for @wall ns long enough to learn the owner's rate? */
static bool ek_turn_may_learn(struct ek_core *c, struct ek_turn *t, u64 wall)
{
	return !t->g->known ||
	       (ek_turn_tells(c, t->g, wall) && t->all.n >= EK_WINDOW_REQUESTS / 2);
}

/*
 * Is the turn of a writer still too short to learn from it? If the rate says that a request
 * takes far longer than it does, the turn seems to be over after a few requests. If all turns
 * ended then, the rate would never be corrected. Short turns of readers are added up: see
 * ek_turn_brief().
 */
static bool ek_turn_untold(struct ek_core *c, struct ek_turn *t)
{
	u64 wall;

	if (t->g->op == EK_OP_READ || c->nr_active > EK_MANY)
		return false;
	ek_meter_read(&t->all, t->g);
	wall = t->all.to - t->all.from;
	/* at this pace, its length is too short */
	if (EK_WINDOW_REQUESTS / 2 * wall > t->all.n * t->length)
		return false;
	return !ek_turn_may_learn(c, t, wall);
}

/* The part of the time of @m in which the device served others, or waited for the owner (ns). */
static u64 ek_turn_not_owner(struct ek_turn *t, struct ek_meter *m)
{
	u64 others = t->others_seen, idle = t->idle;

	if (m == &t->steady) {
		others -= min_t(u64, others, t->others_steady);
		idle -= t->idle_steady;
	}
	/* @m ends with a completion, so a pause after the last one is no part of it */
	if (t->back > m->to)
		idle -= min_t(u64, idle, t->pause);
	/* while it waited for the owner, it may have served others */
	return max_t(u64, others, idle);
}

/* Has @g had no request and no submitter for longer than a turn waits for its owner? */
static bool ek_turn_idles(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	return !g->queued && !g->waiting && !g->granted && !atomic_read(&g->in_flight) &&
	       !ek_before(now, ek_order_idle_until(c, g));
}

/* Is the turn over? */
static bool ek_turn_over(struct ek_core *c, struct ek_turn *t, u64 now)
{
	struct ek_core_group *g = t->g;
	u64 most = c->nr_active > EK_MANY ? EK_FIRST_MANY_NS : EK_FIRST_NS, ahead;
	u64 latencies = (u64)EK_FIRST_LATENCIES * ek_budget_latency(c, g);

	most = max_t(u64, most, min_t(u64, latencies, EK_SEC));
	if (t->quick || ek_turn_idles(c, g, now))
		return true;
	/* an app that starts must not wait for the rest of the turn: it may be the next owner */
	if (c->newcomer && g->known && !g->growing)
		return true;
	if (!t->exclusive)
		return now - t->begin > EK_FIRST_NS + 2 * t->length;
	/* requests in the device are part of the turn; one more if at least half of it fits */
	ahead = ek_cost(c, g, g->op, g->bytes) / 2;
	ahead += max_t(s64, atomic64_read(&g->in_flight_cost), 0);
	if (now - t->exclusive + (g->known && t->steady.on ? ahead : 0) < t->length)
		return false;
	if (now - t->exclusive < t->length && ek_turn_untold(c, t))
		return false;
	/* go on until its limit and rate are known, but not for longer than @most */
	if (t->steady.on && !g->growing &&
	    (g->known || ek_turn_tells(c, g, t->window.to - t->steady.from)))
		return true;
	return now - t->exclusive >= most;
}

/* Is there time left in the turn for the owner's requests in the device, and @ns more? */
bool ek_turn_lasts(struct ek_core *c, u64 ns, u64 now)
{
	struct ek_turn *t = &c->turn;

	if (!t->exclusive || !t->steady.on || t->g->growing || !t->g->known)
		return true;
	ns += max_t(s64, atomic64_read(&t->g->in_flight_cost), 0);
	return now - t->exclusive + ns < t->length;
}

/*
 * The turn is over: learn the owner's rate from what was served with its final limit. @quiet:
 * count only the time that a quiet device would take. @stood: a standstill became hidden time.
 * The owner's longer pauses are no part of the rate: how many of them a turn has is chance, and
 * they are charged apart.
 */
static void ek_turn_learn(struct ek_core *c, struct ek_turn *t, bool quiet, bool stood)
{
	struct ek_meter *m = &t->steady;
	u64 wall;

	if (m->on)
		ek_meter_read(m, t->g);
	ek_turn_see(c, t);
	/* too few requests were served, or the device did work of its own first */
	if (!m->on || m->n < EK_WINDOW_REQUESTS || t->stalled)
		m = &t->all;
	wall = m->to - m->from;
	wall -= min_t(u64, wall, ek_turn_not_owner(t, m));
	if (stood)
		wall -= ek_turn_still(c, t, m, wall);
	if (quiet)
		wall = ek_turn_quiet(t, wall, m->cost);
	if (wall && m->cost && (!t->g->known || ek_turn_tells(c, t->g, wall)))
		ek_cost_learn(c, t->g, wall, m->cost, quiet);
	/* the requests in the device now were charged at the old rate */
	t->g->priced = t->g->sent;
}

/* In a turn of @wall ns shortly after a write: did the device stand still to collect garbage? */
static bool ek_turn_stood(struct ek_core *c, struct ek_turn *t, u64 wall, u64 now)
{
	return t->g->memory >= EK_YOUNG_NS && ek_turn_wrote(c, now) &&
	       wall > t->all.cost + ek_turn_stall(c, t->g);
}

/*
 * The turn is over: charge its owner for the time that it had the device, except for hidden
 * time, for which all writes are charged.
 */
static void ek_turn_pay(struct ek_core *c, struct ek_turn *t, u64 now)
{
	struct ek_core_group *g = t->g;
	u64 others = atomic64_read(&c->flushed) - t->flushed;
	u64 wall, own, idle, instead, stood;
	bool quiet = g->op == EK_OP_READ && ek_turn_wrote(c, now);

	if (!t->all.on || t->quick)
		return;
	ek_meter_read(&t->all, g);
	ek_turn_see(c, t);
	c->paid_to = t->all.n ? t->all.to : now;
	wall = c->paid_to - t->all.from;
	others += ek_turn_others(c, t);
	instead = min_t(u64, t->instead, others);
	others -= instead;
	wall -= min_t(u64, wall, others);
	/* the device waited for the owner, and may have served others meanwhile */
	idle = min_t(u64, wall, t->idle - min_t(u64, t->idle, others));
	wall -= idle;
	ek_order_adjust(c, g, idle);
	if (wall && ek_turn_stood(c, t, wall, now)) {
		ek_hidden_saw(c, wall - t->all.cost, instead);
		return;
	}
	t->brief = !t->all.cost;
	stood = ek_turn_still(c, t, &t->all, wall);
	wall -= stood;
	quiet = quiet && ek_turn_was_quiet(c, t, wall);
	if (!quiet)
		wall -= min_t(u64, wall, instead);
	if (!wall || !t->all.cost)
		return;
	if (!ek_turn_may_learn(c, t, wall)) {
		ek_turn_brief(c, g, wall, t->all.cost, quiet);
		t->brief = g->brief_wall;
		return;
	}
	g->brief_wall = 0;
	g->brief_cost = 0;
	if (quiet) {
		own = ek_turn_quiet(t, wall, t->all.cost);
		/* its rate is a mean of enough quiet turns: charge no more than the cost by it */
		if (g->memory == EK_MEMORY_NS)
			own = min_t(u64, own, t->all.cost);
		ek_hidden_saw(c, wall - own, instead);
		wall = own;
	} else {
		own = ek_cost_pooled(c, g) ? t->all.cost : wall;
	}
	if (stood)
		ek_hidden_saw(c, stood, 0);
	/*
	 * Time that was added to the turn in order to learn is not charged. Otherwise the
	 * group would have to wait for seconds after it.
	 */
	ek_order_adjust(c, g, (s64)min_t(u64, own, t->paid) - (s64)t->all.cost);
	ek_turn_learn(c, t, quiet, stood);
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
		.charged = t->brief ? max_t(s64, 0, atomic64_read(&g->in_flight_cost)) : 0,
		.busy = max_t(u64, t->all.to, t->back),
	};
	/* too few completions for a window: on such a slow device, the present limit is enough */
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
 * TOGETHER: the group whose solo begins now, or NULL. The other groups are not served during
 * a solo. So solos get solo_percent of the time; solos of unmeasured groups get more, see
 * EK_UNKNOWN_PERCENT.
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
 * With many groups, the next owner by worst-case fair queueing (Bennett and Zhang, 1996), or
 * NULL. An ideal device serves all groups at once. A group is eligible if the ideal device
 * would have begun its next request by now. Of the eligible groups, the one whose request is
 * due first is next. Otherwise many groups of small weight with the same virtual time would
 * be served in a row, and a group of large weight would wait for all of them.
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

/* The first group in @list that competes, is not light, and whose cost was only guessed. */
static struct ek_core_group *ek_turn_guessed(struct list_head *list, u64 now)
{
	struct ek_core_group *g;

	list_for_each_entry(g, list, solo_node)
		if (g->guessed && !g->memory && !g->apart && !g->light && g->queued &&
		    now - g->solo_at > EK_ROUND_MOST_NS)
			return g;
	return NULL;
}

/*
 * The group to measure next, or NULL. A guess may be far from the cost. If it is too high, the
 * group's virtual time is never the least, so it would never have a turn that corrects it.
 */
static struct ek_core_group *ek_turn_unmeasured(struct ek_core *c, u64 now)
{
	if (c->nr_active > EK_MANY)
		return NULL;
	return ek_turn_guessed(&c->unmeasured, now) ?: ek_turn_guessed(&c->measured, now);
}

/* TURNS: the next owner. Groups that have had no request for too long become inactive. */
static struct ek_core_group *ek_turn_next(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;

	while ((g = ek_order_least(c)) && ek_turn_idles(c, g, now))
		ek_order_deactivate(c, g);
	return ek_turn_unmeasured(c, now) ?: ek_turn_soonest(c, now) ?: g;
}

/* Measure the present turn. If it is over, end it and begin the next. */
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
 * The owner @g has no request, or of several only the last, which is in the device: it ends
 * an I/O, for example of 100 MB, and prepares the next one. The device must not run empty.
 * Meanwhile the group with the least virtual time may send a few requests. They must cost
 * only a small part of the time that the owner was busy, because the owner may have to wait
 * for them. Only for the first await_us of a pause: during a longer one, a buffer could take
 * many of them at once and be busy with them long after the owner's return. Returns that
 * group, or NULL.
 */
static struct ek_core_group *ek_turn_filler(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u64 last = ek_order_last(g);
	u64 inside = max_t(s64, 0, atomic64_read(&c->in_flight_cost));
	struct ek_core_group *other;

	if (g->queued || g->waiting || g->granted || g->growing ||
	    atomic_read(&g->in_flight) > (c->turn.had > 2 ? 1 : 0))
		return NULL;
	other = ek_order_first(c);
	/* a light group would have to wait for them, too: only one at a time */
	if (!other || (c->short_until > now && atomic_read(&c->in_flight)))
		return NULL;
	inside += ek_cost(c, other, other->op, other->bytes);
	if (EK_FILL_BUSY * inside > last - min_t(u64, last, g->busy) ||
	    now > last + c->t.await_us * EK_US)
		return NULL;
	return other;
}

/*
 * Other groups may have more than half of the tags queued, for example just after TOGETHER.
 * The owner @g then lacks tags, perhaps for seconds, until these groups have their turns. In
 * this case, returns a group that may send a request out of turn, otherwise NULL.
 */
static struct ek_core_group *ek_turn_clogs(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	struct ek_core_group *other;

	if (!g->waiting || c->nr_queued - g->queued <= max_t(u32, c->tags / 2, 1))
		return NULL;
	other = ek_order_first(c);
	return other && ek_guard_affords(c, other, now) ? other : NULL;
}

/*
 * The group to serve next in the present turn: the owner, if it has a request and the budget
 * has room. NULL to hold dispatch. The comments below have the exceptions.
 */
struct ek_core_group *ek_turn_pick(struct ek_core *c, u64 now, u64 *wake)
{
	struct ek_core_group *g = c->turn.g, *other;

	other = ek_turn_clogs(c, g, now);
	if (other)
		return other;
	c->why = EK_WHY_SOLO;
	/* requests of others in the device would falsify its least latency and its limit */
	if (g->growing && !c->turn.exclusive &&
	    atomic_read(&c->in_flight) != atomic_read(&c->out_of_turn))
		return ek_order_hold(c, now, wake);
	if (g->queued && (u32)atomic_read(&g->in_flight) < ek_budget_limit(c, g) &&
	    ek_budget_room(c, g, now))
		return g;
	/* others hold all tags: one of their requests goes, so that the owner gets its tag */
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
	/* while only reads come, even the call would cost CPU time */
	other = c->wrote ? ek_stall_writer(c, g, now) : NULL;
	if (other) {
		c->why = EK_WHY_INSTEAD;
		return other;
	}
	if (!g->queued && !g->waiting && !atomic_read(&g->in_flight))
		*wake = min_t(u64, *wake, max_t(u64, ek_order_idle_until(c, g), now + 1));
	return ek_order_hold(c, now, wake);
}
