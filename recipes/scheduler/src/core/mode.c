// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mode: turns or together, and how long a turn or how full the device.
 *
 * Policy: each way is tried for an epoch and the best is kept, where better is
 * lambda = alone time served / wall time. A longer turn must pay for its
 * latency. What nobody was charged for (a buffer that drains, garbage
 * collection) is the writers': their charge grows until lambda is 1.
 * Invariant: a way is compared by what it served, never by a model of the device.
 * Source: Seastar's dispatched/completed ratio (scylladb/seastar, PR 2801).
 */
#include "order.h"
#include "budget.h"
#include "cost.h"

/* an epoch: so long, so many turns, latencies and largest requests */
#define EK_EPOCH_NS		(300 * EK_MS)
#define EK_EPOCH_TURNS		3
#define EK_EPOCH_REQUESTS	12
#define EK_WARM_NS		(60 * EK_MS)
#define EK_WARM_LATENCIES	3
/* a mode is better by so much, a longer turn by so much */
#define EK_BETTER		EK_PERCENT(103)
#define EK_LONGER		EK_PERCENT(106)
#define EK_TRIAL_NS		(4000 * EK_MS)
/* lambda that departs by so much shows that the device changed */
#define EK_ODD			EK_PERCENT(12)
#define EK_ODD_EPOCHS		2
#define EK_CHANGE_NS		EK_SEC
/* over what time the writers' charge is found */
#define EK_FACTOR_NS		(3 * EK_SEC)
#define EK_FACTOR_MIN		EK_PERCENT(50)
#define EK_FACTOR_MAX		EK_PERCENT(1000)

static const struct ek_mode ek_modes[EK_MODES] = {
	{ .kind = EK_TURNS, .x = 100 }, { .kind = EK_TOGETHER, .x = 1 },
	{ .kind = EK_TURNS, .x = 25 }, { .kind = EK_TURNS, .x = 300 },
	{ .kind = EK_TOGETHER, .x = 2 }, { .kind = EK_TOGETHER, .x = 4 },
	{ .kind = EK_TOGETHER, .x = 16 }, { .kind = EK_TOGETHER, .x = 64 },
};

static u64 ek_served(struct ek_core *c, int dir)
{
	return c->sent_cost[dir] - atomic64_read(&c->in_flight_cost[dir]);
}

/* A new epoch begins; what is in the device now is of the old one. */
static void ek_epoch_begin(struct ek_core *c, u64 now)
{
	int dir;

	c->epoch = now;
	for (dir = 0; dir < EK_DIRS; dir++)
		c->epoch_cost[dir] = ek_served(c, dir);
}

void ek_order_restart(struct ek_core *c, u64 now)
{
	c->warm = true;
	ek_epoch_begin(c, now);
}

static void ek_mode_set(struct ek_core *c, int mode, u64 now)
{
	c->now_mode = mode;
	c->owner = NULL;
	ek_order_restart(c, now);
}

void ek_order_init(struct ek_core *c, u64 now)
{
	int i;

	for (i = 0; i < EK_MODES; i++)
		c->mode[i] = ek_modes[i];
	c->write_factor = EK_ONE;
	ek_order_restart(c, now);
}

/* The greatest budgets, from all active groups: once per epoch. */
static void ek_epoch_budgets(struct ek_core *c)
{
	struct rb_node *n;

	c->most_cost = 0;
	c->most_latency = c->most_request = 0;
	for (n = rb_first_cached(&c->ready); n; n = rb_next(n))
		ek_budget_note(c, rb_entry(n, struct ek_core_group, rb));
	for (n = rb_first_cached(&c->awaited); n; n = rb_next(n))
		ek_budget_note(c, rb_entry(n, struct ek_core_group, rb));
}

/* The writers' charge, from what the last seconds served. */
static void ek_epoch_factor(struct ek_core *c, u64 wall, const u64 *cost)
{
	u64 keep = ek_ratio(EK_FACTOR_NS, EK_FACTOR_NS + wall), lambda, want;
	s64 rest;
	int dir;

	c->avg_wall = ek_mul(c->avg_wall, keep) + wall;
	for (dir = 0; dir < EK_DIRS; dir++)
		c->avg_cost[dir] = ek_mul(c->avg_cost[dir], keep) + cost[dir];
	if (!c->avg_cost[EK_OP_READ] || !c->avg_cost[EK_OP_WRITE])
		return;
	lambda = ek_ratio(c->avg_cost[0] + c->avg_cost[1], c->avg_wall);
	rest = (s64)(c->avg_wall - c->avg_cost[EK_OP_READ]);
	want = rest > 0 ? ek_ratio(rest, c->avg_cost[EK_OP_WRITE]) : 0;
	if (lambda > EK_PERCENT(95))
		want = EK_ONE;
	want = clamp_t(u64, want, EK_FACTOR_MIN, EK_FACTOR_MAX);
	c->write_factor += ((s64)want - (s64)c->write_factor) * 3 / 10;
}

static int ek_mode_best(struct ek_core *c)
{
	int best = 0, i;

	for (i = 1; i < EK_MODES; i++) {
		u64 need = i == 3 ? EK_LONGER : EK_BETTER;

		if (c->mode[i].tried &&
		    c->mode[i].lambda > ek_mul(c->mode[best].lambda, need))
			best = i;
	}
	return best;
}

/* The next mode to try, or the best. */
static void ek_mode_choose(struct ek_core *c, u64 now)
{
	int best, next, i;

	for (i = 0; i < 2; i++)
		if (!c->mode[i].tried)
			return ek_mode_set(c, i, now);
	best = c->best_mode = ek_mode_best(c);
	if (c->mode[best].kind == EK_TOGETHER) {
		next = best == 1 ? 4 : best + 1;
		if (next < EK_MODES && !c->mode[next].tried)
			return ek_mode_set(c, next, now);
	} else {
		for (i = 2; i < 4; i++)
			if (!c->mode[i].tried)
				return ek_mode_set(c, i, now);
	}
	if (c->now_mode != best) {
		ek_mode_set(c, best, now);
		c->next_trial = now + EK_TRIAL_NS;
		return;
	}
	if (now > c->next_trial) {
		c->trial = (c->trial + 1) % EK_MODES;
		next = c->trial;
		if (next != best && c->mode[next].tried &&
		    c->mode[next].lambda > ek_mul(c->mode[best].lambda, EK_PERCENT(90)))
			return ek_mode_set(c, next, now);
	}
	ek_epoch_begin(c, now);
}

/*
 * Does lambda show that the device changed? Then all is measured again. Each
 * time that is believed half as easily: garbage collection changes it for ever.
 */
static void ek_epoch_odd(struct ek_core *c, struct ek_mode *m, u64 now)
{
	u64 off = c->lambda > m->lambda ? c->lambda - m->lambda : m->lambda - c->lambda;
	int i;

	if (c->now_mode != c->best_mode || m->tried < 2)
		return;
	c->odd = off > ek_mul(m->lambda, EK_ODD) ? c->odd + 1 : 0;
	if (c->odd < EK_ODD_EPOCHS || now - c->changed < c->change_gap)
		return;
	c->odd = 0;
	c->changed = now;
	c->change_gap = max_t(u64, EK_CHANGE_NS, 2 * c->change_gap);
	for (i = 0; i < EK_MODES; i++)
		c->mode[i].tried = 0;
}

/* Is an epoch over? Then what did it serve, and what is tried next? */
void ek_order_epoch(struct ek_core *c, u64 now)
{
	struct ek_mode *m = &c->mode[c->now_mode];
	u64 wall = now - c->epoch, need, cost[EK_DIRS];
	int dir;

	if (c->warm) {
		if (wall < max_t(u64, EK_WARM_NS, (u64)EK_WARM_LATENCIES * c->most_latency))
			return;
		c->warm = false;
		ek_epoch_begin(c, now);
		return;
	}
	need = max_t(u64, EK_EPOCH_NS, (u64)EK_EPOCH_REQUESTS *
		     max_t(u32, c->most_latency, c->most_request));
	if (m->kind == EK_TURNS)
		need = max_t(u64, need, EK_EPOCH_TURNS * m->x * EK_MS);
	if (wall < need)
		return;
	for (dir = 0; dir < EK_DIRS; dir++)
		cost[dir] = ek_served(c, dir) - c->epoch_cost[dir];
	c->lambda = ek_ratio(cost[0] + cost[1], wall);
	ek_epoch_odd(c, m, now);
	m->lambda = m->tried ? (m->lambda + c->lambda) / 2 : c->lambda;
	m->tried++;
	ek_epoch_factor(c, wall, cost);
	ek_epoch_budgets(c);
	ek_mode_choose(c, now);
}
