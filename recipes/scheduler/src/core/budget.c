// SPDX-License-Identifier: GPL-2.0-only
/*
 * Budget: how much may be in the device.
 *
 * Policy: two bounds apply.
 *  - Each group has a limit: the least number of requests in flight that gives the group
 *    its full rate. The group's first turns find it, in growing steps.
 *  - All groups together have a bound, in ns of device time: twice the largest request,
 *    or twice the largest least latency if that is more. In turns, the bound is at least
 *    what twice the owner's limit costs.
 * In mode TOGETHER, both are multiplied by a scale. mode.c finds it: it tries larger and
 * larger scales. For a second after a light group was served out of turn, the bound is
 * short: just enough work to keep the device busy. If the device seems to read one request
 * after the other, this is two of the largest requests.
 * Invariant: the bound is never below two of the largest requests. Otherwise a group with
 * large requests could be locked out.
 * Source: BBR (Cardwell et al., 2016). There, rate x least latency is the amount in flight
 * that just fills a pipe.
 */
#include "budget.h"
#include "cost.h"

/* The least gain in service that makes a step of the limit worth the added latency. */
#define EK_GROWS	EK_PERCENT(103)
/*
 * The number of requests that just fill the device is the rate times the least latency.
 * A limit of more than EK_QUEUES / 10 times this number makes requests queue in the device.
 */
#define EK_QUEUES	25
/*
 * No request waits in the device if the number of requests that just fill it is at least
 * EK_FREE / 10 of the limit. The limit is then multiplied by 4 instead of 2.
 */
#define EK_FREE		8
/*
 * The owner of a turn may exceed its limit, up to this cost in flight (ns), and up to
 * EK_ALONE times its limit.
 */
#define EK_SHALLOW_NS	(20 * EK_MS)
/*
 * The device seems to serve one request after the other if the least latency of a request is at
 * most this multiple of its cost. With 200 %, a device that works on several reads of 64 KiB
 * counted as well, and lost 5 % of their bandwidth beside a light group.
 */
#define EK_SERIAL	EK_PERCENT(150)
/* The only active group may have this many times its limit in the device. */
#define EK_ALONE	4

/*
 * A window of @g's turn is over. In the window, the device served @service (cost per time,
 * q16), and a request cost @per_request ns. Raise the limit if more requests in flight may
 * bring more service. Otherwise the limit is found.
 */
void ek_budget_grow(struct ek_core_group *g, u64 service, u64 per_request)
{
	u64 pipe;

	/* ten times the number of requests that just fill the device */
	pipe = div64_u64(10 * ek_mul(service, READ_ONCE(g->least)), max_t(u64, per_request, 1));
	if (g->limit >= EK_LIMIT_MAX || (pipe * EK_QUEUES < 10 * (u64)g->limit * 10 &&
					 service <= ek_mul(g->best, EK_GROWS))) {
		/* the last step brought no more than 1 %: half of this limit is enough */
		if (g->limit > EK_LIMIT_MIN && service <= g->best + g->best / 100)
			g->limit /= 2;
		g->growing = false;
		return;
	}
	g->best = max_t(u64, g->best, service);
	/* if no request waits in the device yet, it can take far more */
	g->limit *= pipe >= EK_FREE * (u64)g->limit ? 4 : 2;
}

/* The least latency of @g's requests in ns; until one completed, the cost of a request. */
u32 ek_budget_latency(struct ek_core *c, struct ek_core_group *g)
{
	u32 least = READ_ONCE(g->least);

	return least ?: ek_cost(c, g, g->op, g->bytes);
}

/* A request of @g that costs @cost ns went to the device: update the maxima. */
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

/* An epoch is over: requests served before it no longer count for the maxima. */
void ek_budget_epoch(struct ek_core *c)
{
	c->most_latency = c->most_latency_next;
	c->most_request = c->most_request_next;
	c->most_latency_next = 0;
	c->most_request_next = 0;
}

/*
 * The number of requests that @g may have in the device. The only active group, and the
 * owner of a turn, may exceed the group's limit: no other group waits for their requests.
 * With more requests to choose from, the device serves about 1 % more. The steps of a
 * first turn are too coarse to show this gain.
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

/* Does one more request of @g fit into the bound for all groups? */
bool ek_budget_room(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u64 inside = max_t(s64, atomic64_read(&c->in_flight_cost), 0);
	u64 two = 2 * (u64)max_t(u32, c->most_request, c->most_latency), most;
	u32 cost = ek_cost(c, g, g->op, g->bytes);

	if (!atomic_read(&c->in_flight))
		return true;
	most = c->turn.g ? max_t(u64, two, 2 * (u64)ek_budget_limit(c, g) * cost) : two * c->scale;
	/* if the device reads one request after the other, more than two only delay others */
	if (c->short_until > now && c->turn.g)
		most = g->op == EK_OP_READ && ek_budget_latency(c, g) <= ek_mul(cost, EK_SERIAL) ?
			2 * (u64)c->most_request : two;
	else if (c->short_until > now)
		most = max_t(u64, two, ek_mul(two, c->mode.lambda[EK_TOGETHER]));
	return inside + cost <= most;
}
