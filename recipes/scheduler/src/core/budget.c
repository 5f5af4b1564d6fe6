// SPDX-License-Identifier: GPL-2.0-only
/*
 * Budget: how much may be in the device.
 *
 * Policy: per group, the least number of requests in flight that gives full
 * rate: found in its first solo by doubling from 2 while the rate grows. For
 * all together, so many times the greatest budget as pays (order.c). While a
 * light group is there, only what fills the device once.
 * Invariant: two requests of any group always fit, so nothing locks itself in.
 * Source: BBR (Cardwell et al., 2016): rate x least latency is what fills a pipe.
 */
#include "budget.h"
#include "cost.h"

/* doubling must bring so much */
#define EK_GROWS	EK_PERCENT(103)
/* and by so much it is worth it whatever the latency says */
#define EK_GROWS_WELL	EK_PERCENT(125)
/* in flight over rate x least latency: above that the device only queues */
#define EK_QUEUES_X10	25

u32 ek_budget_limit(struct ek_core_group *g)
{
	return max_t(u32, g->limit, EK_LIMIT_MIN);
}

/*
 * The solo served @service (q16) of its cost per wall time at s->limit in
 * flight, a request costs @per_request ns: is twice that worth a try?
 */
bool ek_budget_grow(struct ek_solo *s, u64 service, u64 per_request)
{
	u64 pipe;

	if (!s->g->queued || s->limit >= EK_LIMIT_MAX ||
	    service <= ek_mul(s->best, EK_GROWS))
		return false;
	/* requests that fit into the least latency at this rate */
	pipe = div64_u64(ek_mul(service, s->least) * EK_QUEUES_X10, max_t(u64, per_request, 1));
	if (pipe < 10 * (u64)s->limit &&
	    (!s->best || service < ek_mul(s->best, EK_GROWS_WELL)))
		return false;
	s->best = service;
	s->limit *= 2;
	return true;
}

/* What @g adds to the greatest budgets; they are looked at again each epoch. */
void ek_budget_note(struct ek_core *c, struct ek_core_group *g)
{
	u32 cost = ek_cost(c, g, g->op, g->bytes);

	c->most_cost = max_t(u64, c->most_cost, (u64)ek_budget_limit(g) * cost);
	c->most_latency = max_t(u32, c->most_latency, g->base_latency);
	c->most_request = max_t(u32, c->most_request, cost);
}

static u64 ek_in_flight_cost(struct ek_core *c)
{
	return max_t(s64, atomic64_read(&c->in_flight_cost[0]) +
		     atomic64_read(&c->in_flight_cost[1]), 0);
}

/* May @g have one more in the device, by its own budget and that of all? */
bool ek_budget_room(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	struct ek_mode *m = &c->mode[c->now_mode];
	u64 inside = ek_in_flight_cost(c);
	u32 cost = ek_cost(c, g, g->op, g->bytes);

	if (c->short_until > now && atomic_read(&c->in_flight) &&
	    inside + cost > 2 * (u64)max_t(u32, c->most_latency, c->most_request))
		return false;
	if (m->kind == EK_TURNS)
		return inside < 2 * (u64)ek_budget_limit(g) * cost + EK_MS;
	return inside <= m->x * c->most_cost;
}
