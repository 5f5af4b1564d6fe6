// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stall: the reads of the turn's owner wait for work of the device's own, and a writer goes on.
 *
 * Policy: a die that collects garbage serves nothing else for up to a few hundred ms. After a few
 * reads, all reads of the owner wait for this die. Writes need not: the device writes to another
 * die, or into its buffer. Writers pay for the time of garbage collection anyway (turn.c). So
 * they may use it: the writer with the least virtual time sends requests until a read of the
 * owner completes.
 *  - The writer is charged as usual.
 *  - It may lead by at most EK_AHEAD_NS, because it has to wait afterwards.
 *  - The owner is not charged for this time, if its turn tells how fast the device is while quiet.
 * Invariant: without writes in the last EK_WROTE_NS, nothing here happens.
 */
#include "stall.h"
#include "budget.h"
#include "cost.h"
#include "order.h"
#include "turn.h"

/*
 * The reads wait for work of the device's own if none completes for EK_WAIT_NS (ns), or for
 * EK_WAIT_LATENCIES latencies if that is more. A read may also wait for a program in progress,
 * which takes up to 3 ms on most flash. Half or twice of either changes little.
 */
#define EK_WAIT_NS		(3 * EK_MS)
#define EK_WAIT_LATENCIES	2
/*
 * A writer that goes on may be ahead of its share by this time (ns). With half of it, writers use
 * less of the stalls; with twice as much, some of their waits exceed 2 s.
 */
#define EK_AHEAD_NS		(1200 * EK_MS)

/*
 * Do all requests of the owner @g wait for the device's own work? They may also wait for requests
 * of others in the device. But not for longer than these cost; and while the turn is not
 * exclusive yet, not if none of them completes for so long.
 */
static bool ek_stall_waits(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u64 least = max_t(u64, EK_WAIT_NS, EK_WAIT_LATENCIES * ek_budget_latency(c, g));
	u64 last = READ_ONCE(g->last_done), since = c->turn.exclusive ?: c->turn.begin;

	/* if they still wait, the others are requests of the writer that goes on */
	if (c->turn.waits != last) {
		least += ek_turn_others_inside(c, g);
		if (!c->turn.exclusive)
			since = max_t(u64, since, READ_ONCE(c->last_done));
	}
	return now >= max_t(u64, since, max_t(u64, last, c->turn.back)) + least;
}

/* May the writer @g send a request while reads wait? */
static bool ek_stall_may_send(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u32 inside = atomic_read(&g->in_flight);

	if (!g->queued || g->op == EK_OP_READ || g->apart)
		return false;
	/* a light group would have to wait for it, too: only one at a time */
	if (c->short_until > now && inside)
		return false;
	if (ek_before(c->vnow + ek_order_lead(c, EK_AHEAD_NS), g->vtime))
		return false;
	return inside < ek_budget_limit(c, g);
}

/* The writer to serve now, because the reads of the owner @g wait; or NULL. */
struct ek_core_group *ek_stall_writer(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	struct ek_core_group *other, *best = NULL;

	if (g->op != EK_OP_READ || !atomic_read(&g->in_flight) || c->nr_active > EK_MANY ||
	    !ek_turn_wrote(c, now) || !ek_stall_waits(c, g, now))
		return NULL;
	list_for_each_entry(other, &c->measured, solo_node)
		if (ek_stall_may_send(c, other, now) &&
		    (!best || ek_before(other->vtime, best->vtime)))
			best = other;
	return best;
}

/*
 * The writer @g sends a request that costs @cost ns. If the last turn was its own, what it left in
 * the device and this request are measured together.
 */
void ek_stall_sent(struct ek_core *c, struct ek_core_group *g, u64 cost)
{
	c->turn.instead += cost;
	if (c->turn.g)
		c->turn.waits = READ_ONCE(c->turn.g->last_done);
	if (c->tail.g == g) {
		c->tail.sent++;
		c->tail.cost += cost;
	}
}
