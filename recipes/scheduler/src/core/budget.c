// SPDX-License-Identifier: GPL-2.0-only
/*
 * Budget: how much may be in the device.
 *
 * Policy: a limit per group, the least number of requests in flight that gives full
 * rate. Its first turns find it, by larger and larger steps. And a bound for all groups
 * in device time, which is two of the largest requests. TOGETHER multiplies both by a
 * scale, which mode.c finds by trying larger ones. While a light group is there, the
 * bound is what fills the device once.
 * Invariant: two of the largest requests always fit, so no group is locked out.
 * Source: BBR (Cardwell et al., 2016): rate x least latency is what fills a pipe.
 */
#include "budget.h"
#include "cost.h"

/* A doubling that brings less is not worth the latency. */
#define EK_GROWS	EK_PERCENT(103)
/* The device queues if there are so many tenths of rate x least latency in flight, ... */
#define EK_QUEUES	25
/* ... and nothing waits if rate x least latency is so many tenths of what is in flight. */
#define EK_FREE		8
/* The owner of a turn may have so much in the device, if that is no more than EK_ALONE limits. */
#define EK_SHALLOW_NS	(20 * EK_MS)
/* A group that is alone may have so many times its limit in the device. */
#define EK_ALONE	4

/*
 * A window of @g's turn is over: @service (q16) is its cost per time, a request
 * costs @per_request ns. Are more in flight worth a try?
 */
void ek_budget_grow(struct ek_core_group *g, u64 service, u64 per_request)
{
	u64 pipe;

	/* ten times the requests that fit into the least latency at this rate */
	pipe = div64_u64(10 * ek_mul(service, READ_ONCE(g->least)), max_t(u64, per_request, 1));
	if (g->limit >= EK_LIMIT_MAX || (pipe * EK_QUEUES < 10 * (u64)g->limit * 10 &&
					 service <= ek_mul(g->best, EK_GROWS))) {
		/* half was as good */
		if (g->limit > EK_LIMIT_MIN && service <= g->best + g->best / 100)
			g->limit /= 2;
		g->growing = false;
		return;
	}
	g->best = max_t(u64, g->best, service);
	/* nothing waits in the device: it takes far more */
	g->limit *= pipe >= EK_FREE * (u64)g->limit ? 4 : 2;
}

/* Least time, in ns, in which the device does anything for @g. */
u32 ek_budget_latency(struct ek_core *c, struct ek_core_group *g)
{
	u32 least = READ_ONCE(g->least);

	return least ?: ek_cost(c, g, g->op, g->bytes);
}

/* A request of @g with @cost ns went to the device. */
void ek_budget_note(struct ek_core *c, struct ek_core_group *g, u32 cost)
{
	u32 least = READ_ONCE(g->least);

	if (cost > c->most_request_next) {
		c->most_request_next = cost;
		c->most_request = max_t(u32, c->most_request, cost);
	}
	if (least > c->most_latency_next) {
		c->most_latency_next = least;
		c->most_latency = max_t(u32, c->most_latency, least);
	}
}

/* An epoch is over: what was not served in it counts no more. */
void ek_budget_epoch(struct ek_core *c)
{
	c->most_latency = c->most_latency_next;
	c->most_request = c->most_request_next;
	c->most_latency_next = 0;
	c->most_request_next = 0;
}

/*
 * Requests of @g that may be in the device. Together, each has to wait for others.
 * Alone, nobody waits for it, and more in the device gives it more to choose from: the
 * last percent, which a doubling in a first turn does not show.
 */
u32 ek_budget_limit(struct ek_core *c, struct ek_core_group *g)
{
	if (c->nr_active == 1 && !g->growing)
		return g->limit * EK_ALONE;
	if (!c->turn.g)
		return g->limit * c->scale;
	if (c->turn.g != g || g->growing)
		return g->limit;
	return max_t(u32, g->limit, min_t(u32, EK_ALONE * g->limit, EK_SHALLOW_NS /
					  ek_cost(c, g, g->op, g->bytes)));
}

/* May @g have one more in the device, as far as the others are concerned? */
bool ek_budget_room(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u64 inside = max_t(s64, atomic64_read(&c->in_flight_cost), 0);
	u64 two = 2 * (u64)max_t(u32, c->most_request, c->most_latency), most;
	u32 cost = ek_cost(c, g, g->op, g->bytes);

	if (!atomic_read(&c->in_flight))
		return true;
	most = c->turn.g ? max_t(u64, two, 2 * (u64)ek_budget_limit(c, g) * cost) : two * c->scale;
	if (c->short_until > now)
		most = c->turn.g ? two : max_t(u64, two, ek_mul(two, c->mode.lambda[EK_TOGETHER]));
	return inside + cost <= most;
}
