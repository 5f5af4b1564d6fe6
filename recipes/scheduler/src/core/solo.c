// SPDX-License-Identifier: GPL-2.0-only
/*
 * Solo: run one group alone to learn its alone time.
 *
 * Policy: hold the others until they have nothing in the device, then count
 * from completion to completion until two windows in a row agree. The first solo
 * is not charged to virtual time. Solos are rare: once for a group that is unknown,
 * and then at most solo_percent of the time, the oldest result first.
 * Invariant: at most one solo at a time, and none longer than EK_SOLO_MAX.
 * Source: BBR's ProbeRTT and ProbeBW (Cardwell et al., 2016), one flow at a time.
 */
#include "solo.h"
#include "budget.h"
#include "cost.h"
#include "order.h"

/* others did not leave the device, or nothing was done: no solo */
#define EK_SOLO_MAX	(3000 * EK_MS)
/* windows do not agree within this: take the last */
#define EK_SOLO_GIVE_UP	(400 * EK_MS)
/* two windows agree */
#define EK_SOLO_AGREE	EK_PERCENT(4)
/* a window: so long and so many requests, or twice as many in flight */
#define EK_GROW_NS	(10 * EK_MS)
#define EK_WINDOW_NS	(25 * EK_MS)
#define EK_WINDOW_LONG	(100 * EK_MS)
/* a group whose turn it is to be alone is gone after this long without a request */
#define EK_SOLO_GAP	(4 * EK_MS)
/* between two solos others are served */
#define EK_SOLO_PAUSE	(50 * EK_MS)

static void ek_solo_begin(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	struct ek_solo *s = &c->solo;

	s->g = g;
	s->begin = now;
	s->exclusive = 0;
	s->meter.on = false;
	s->growing = s->first = !g->own;
	s->limit = s->growing ? EK_LIMIT_MIN : ek_budget_limit(g);
	s->best = s->last = 0;
	s->least = 0;
	WRITE_ONCE(g->least, 0);
	/* what its requests are charged must not change meanwhile */
	ek_cost_paused(c, g, now);
	c->nr_solos++;
}

/* @service (q16): cost per wall time; 0: nothing was learned */
static void ek_solo_end(struct ek_core *c, u64 service, u64 now)
{
	struct ek_solo *s = &c->solo;
	struct ek_core_group *g = s->g;

	if (service) {
		if (s->least)
			g->base_latency = min_t(u32, s->least, c->cell[g->op][g->class].least);
		ek_cost_learn(c, g, ek_ratio(EK_ONE, service), ek_budget_limit(g), now);
	} else {
		ek_cost_paused(c, g, now);
	}
	list_move_tail(&g->solo_node, g->rate ? &c->measured : &c->unmeasured);
	s->took = now - s->begin;
	s->next = now + EK_SOLO_PAUSE;
	s->g = NULL;
	/* a turn that it interrupted is no measure */
	c->owner = NULL;
	ek_order_restart(c, now);
}

void ek_solo_abort(struct ek_core *c, u64 now)
{
	ek_solo_end(c, 0, now);
}

/* Is the window long enough? */
static bool ek_solo_window_over(struct ek_solo *s)
{
	u64 took = s->meter.to - s->meter.from;
	u32 want = max_t(u32, s->growing ? 4 : 8, 2 * s->limit);

	if (took >= EK_WINDOW_LONG)
		return s->meter.n >= 2;
	return took >= (s->growing ? EK_GROW_NS : EK_WINDOW_NS) && s->meter.n >= want;
}

/* A window is over. */
static void ek_solo_window(struct ek_core *c, u64 now)
{
	struct ek_solo *s = &c->solo;
	u64 service = ek_ratio(s->meter.cost, s->meter.to - s->meter.from);
	u64 per = div64_u64(s->meter.cost, s->meter.n);
	u64 off;

	s->least = READ_ONCE(s->g->least);
	service = max_t(u64, service, 1);
	ek_meter_begin(&s->meter, s->g);
	if (s->growing) {
		if (ek_budget_grow(s, service, per)) {
			s->meter.on = false;
			return;
		}
		s->growing = false;
		s->g->limit = s->limit;
		/* with half as many in flight it was the same: two windows agree */
		s->last = s->limit > EK_LIMIT_MIN ? s->best : 0;
	}
	off = service > s->last ? service - s->last : s->last - service;
	if (s->last && off <= ek_mul(s->last, EK_SOLO_AGREE))
		ek_solo_end(c, (service + s->last) / 2, now);
	else if (now - s->begin > EK_SOLO_GIVE_UP)
		ek_solo_end(c, service, now);
	else
		s->last = service;
}

/* The oldest result is due when solos took less than their part of the time since. */
static struct ek_core_group *ek_solo_due(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;
	u64 gap, more;

	while ((g = list_first_entry_or_null(&c->unmeasured, struct ek_core_group, solo_node))) {
		if (!ek_cost_known(c, g))
			return g;
		/* another group's solo told its cost as well */
		list_del_init(&g->solo_node);
	}
	g = list_first_entry_or_null(&c->measured, struct ek_core_group, solo_node);
	if (!g || c->nr_active < 2 || now < c->solo.next || c->warm || !c->mode[0].tried)
		return NULL;
	gap = div_u64(100 * c->solo.took * c->nr_active, c->t.solo_percent);
	more = c->lambda > EK_PERCENT(105) ? c->lambda - EK_PERCENT(105) : 0;
	gap += ek_mul(gap, min_t(u64, 10 * more, 64 * EK_ONE));
	if (g->solo_at < c->changed)
		return g;
	if (now - g->solo_at <= gap)
		return NULL;
	/* its turns told more */
	if (g->turns == EK_TURNS_MEAN) {
		g->solo_at = now;
		list_move_tail(&g->solo_node, &c->measured);
		return NULL;
	}
	return g;
}

/* Begin, go on, or end. */
void ek_solo_step(struct ek_core *c, u64 now)
{
	struct ek_solo *s = &c->solo;
	struct ek_core_group *g = s->g;

	if (!g) {
		g = ek_solo_due(c, now);
		if (!g)
			return;
		ek_solo_begin(c, g, now);
	}
	if (!s->exclusive && atomic_read(&c->in_flight) == atomic_read(&g->in_flight))
		s->exclusive = now;
	if (s->exclusive && !s->meter.on && READ_ONCE(g->last_done) > s->exclusive)
		ek_meter_begin(&s->meter, g);
	if (!s->meter.on) {
		if (now - s->begin > EK_SOLO_MAX)
			ek_solo_end(c, 0, now);
		return;
	}
	ek_meter_read(&s->meter, g);
	if (ek_solo_window_over(s))
		ek_solo_window(c, now);
	else if (now - s->begin > EK_SOLO_MAX)
		ek_solo_end(c, 0, now);
}

/* The group that runs alone, if it has a request and room for it. */
struct ek_core_group *ek_solo_pick(struct ek_core *c, u64 now, u64 *wake)
{
	struct ek_core_group *g = c->solo.g;

	if (g->queued && (u32)atomic_read(&g->in_flight) < c->solo.limit)
		return g;
	if (!g->queued && !atomic_read(&g->in_flight)) {
		if (!g->waiting && now - max_t(u64, READ_ONCE(g->last_done), c->solo.begin) > EK_SOLO_GAP)
			ek_solo_end(c, 0, now);
		/* others hold the tags: one of them goes, and @g gets its tag */
		if (!c->solo.g || (g->waiting && !atomic_read(&c->in_flight))) {
			c->solo.exclusive = 0;
			c->solo.meter.on = false;
			c->why = EK_WHY_ORDER;
			return ek_order_pick(c, now, wake);
		}
	}
	*wake = min_t(u64, *wake, now + c->t.await_us * EK_US);
	return NULL;
}
