// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cost: what a request takes of the device when its group runs alone.
 *
 * Policy: a group's rate (ns per byte) is measured while it runs alone; other
 * sizes follow the device's table. Where groups are many, the table serves for
 * all: the best rate seen, or the least latency divided by the group's depth.
 * Invariant: sum of cost / wall time is 1 for any group that runs alone.
 * Source: f-Util of Gimbal (Min et al., SIGCOMM 2021) as the currency.
 */
#include "cost.h"

/* one that was never measured: 100 MB/s and 40 us, which the first solo corrects */
#define EK_GUESS_RATE	(10 * EK_ONE)
#define EK_GUESS_BYTES	4096
/* a mean counts so many samples */
#define EK_MEAN		4
/* turns count once they add up to so long */
#define EK_TURNS_NS	(200 * EK_MS)

static u64 ek_cell_rate(struct ek_core *c, u8 op, u8 class)
{
	u64 rate = c->cell[op][class].rate;
	int i;

	/* the nearest class that is known: a larger one costs less per byte */
	for (i = 1; !rate && i < EK_SIZES; i++) {
		if (class + i < EK_SIZES && c->cell[op][class + i].rate)
			rate = c->cell[op][class + i].rate;
		else if (class >= i && c->cell[op][class - i].rate)
			rate = c->cell[op][class - i].rate;
	}
	return rate ?: EK_GUESS_RATE + EK_GUESS_RATE * EK_GUESS_BYTES / (512U << class);
}

/* Is the table good enough for @g without a solo of its own? */
bool ek_cost_known(struct ek_core *c, struct ek_core_group *g)
{
	struct ek_cost_cell *cell = &c->cell[g->op][g->class];

	if (g->rate || g->op >= EK_DIRS)
		return true;
	if (c->nr_active <= 8 || !cell->rate)
		return false;
	return g->depth <= 2 * cell->depth;
}

/* ns per byte of @g for its last request, by its own solo or the table */
static u64 ek_group_rate(struct ek_core *c, struct ek_core_group *g, u8 op, u8 class)
{
	struct ek_cost_cell *cell = &c->cell[op][class];
	u64 least;

	if (g->rate) {
		if (op == g->rate_op && class == g->rate_class)
			return g->rate;
		least = ek_cell_rate(c, g->rate_op, g->rate_class);
		return div64_u64(g->rate * ek_ratio(ek_cell_rate(c, op, class), least), EK_ONE);
	}
	if (!cell->rate && !cell->least)
		return ek_cell_rate(c, op, class);
	/* few in flight: the device is not saturated */
	least = div64_u64((u64)cell->least << EK_Q,
			  (u64)max_t(u32, g->depth, 1) * max_t(u32, g->bytes, 1));
	return max_t(u64, cell->rate, least);
}

u32 ek_cost(struct ek_core *c, struct ek_core_group *g, u8 op, u32 bytes)
{
	u64 ns;

	if (op >= EK_DIRS)
		ns = c->special[op];
	else
		ns = ek_mul(ek_group_rate(c, g, op, ek_size_class(bytes)), bytes);
	return clamp_t(u64, ns, 1, U32_MAX);
}

/* @g ran alone and took @ratio of what it was charged, with @depth in flight. */
void ek_cost_learn(struct ek_core *c, struct ek_core_group *g, u64 ratio,
		   u32 depth, u64 now)
{
	struct ek_cost_cell *cell = &c->cell[g->op][g->class];
	u64 old = g->rate, rate;

	rate = ek_mul(ek_group_rate(c, g, g->op, g->class), ratio);
	rate = max_t(u64, rate, 1);
	if (old && g->rate_op == g->op && g->rate_class == g->class) {
		u64 part = g->solos < EK_MEAN ? g->solos + 1 : EK_MEAN;

		/* it changed: the device did */
		if (rate > 2 * old || rate < old / 2)
			part = 1;
		rate = old + div64_u64(rate, part) - div64_u64(old, part);
	} else {
		g->solos = 0;
	}
	g->rate = rate;
	g->rate_op = g->op;
	g->rate_class = g->class;
	g->own = true;
	g->solo_at = now;
	g->solos += g->solos < EK_MEAN;
	if (!cell->rate || rate < cell->rate) {
		cell->rate = rate;
		cell->depth = depth;
	}
}

/* @g pauses: it cannot be measured alone, and its cost is by its latency. */
void ek_cost_paused(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	struct ek_cost_cell *cell = &c->cell[g->op][g->class];

	if (!g->rate) {
		g->rate = ek_group_rate(c, g, g->op, g->class);
		if (!cell->rate && cell->least)
			g->rate = ((u64)cell->least << EK_Q) / max_t(u32, g->bytes, 1);
		g->rate_op = g->op;
		g->rate_class = g->class;
	}
	g->solo_at = now;
}

/*
 * @g had the device alone in its turn, and @m was served. Writers learn from
 * that: in a solo, a buffer and garbage collection show all or nothing of
 * themselves, and over many turns what they are. Readers do not while others
 * write: what drains in their turns is not theirs.
 */
void ek_cost_turn(struct ek_core *c, struct ek_core_group *g,
		  const struct ek_meter *m)
{
	u64 lambda = ek_ratio(c->avg_cost[0] + c->avg_cost[1], c->avg_wall), ratio;

	/* what is charged is what is used: nothing is hidden */
	if (lambda > EK_PERCENT(95) && lambda < EK_PERCENT(105))
		return;
	if (!c->avg_wall || (g->own && g->op == EK_OP_READ) ||
	    (c->avg_cost[EK_OP_READ] && c->avg_cost[EK_OP_WRITE]))
		return;
	g->turn_wall += m->to - m->from;
	g->turn_cost += m->cost;
	if (g->turn_wall < EK_TURNS_NS || !g->turn_cost)
		return;
	if (!g->rate)
		ek_cost_paused(c, g, g->solo_at);
	ratio = clamp_t(u64, ek_ratio(g->turn_wall, g->turn_cost), EK_ONE / 4, EK_ONE * 4);
	g->turns += g->turns < EK_TURNS_MEAN;
	g->rate = ek_mul(g->rate, EK_ONE + ((s64)ratio - (s64)EK_ONE) / (g->turns + 1));
	g->rate = max_t(u64, g->rate, 1);
	g->turn_wall = g->turn_cost = 0;
}

/* @r completed: the least latency of its kind, and what unsized work took */
void ek_cost_saw(struct ek_core *c, struct ek_core_group *g, struct ek_req *r,
		 u64 now)
{
	u64 took = min_t(u64, now - r->issued, U32_MAX), mean;
	struct ek_cost_cell *cell;

	if (r->op >= EK_DIRS) {
		/* until the completion before, the device did that */
		took = min_t(u64, took, now - min_t(u64, now, READ_ONCE(c->last_done)));
		mean = READ_ONCE(c->special[r->op]);
		WRITE_ONCE(c->special[r->op], mean ? mean - mean / EK_MEAN + took / EK_MEAN : took);
		atomic64_add((s64)took - r->cost, &g->debt);
		return;
	}
	cell = &c->cell[r->op][ek_size_class(r->bytes)];
	if (!READ_ONCE(cell->least) || took < READ_ONCE(cell->least))
		WRITE_ONCE(cell->least, max_t(u32, took, 1));
	if (!READ_ONCE(g->least) || took < READ_ONCE(g->least))
		WRITE_ONCE(g->least, max_t(u32, took, 1));
}

/*
 * A meter counts from one completion to the last, never parts of requests.
 * What was served is what was sent less what is inside, so completions keep
 * no sum of their own.
 */
void ek_meter_begin(struct ek_meter *m, struct ek_core_group *g)
{
	m->on = true;
	m->from = m->to = READ_ONCE(g->last_done);
	m->cost0 = g->sent_cost - atomic64_read(&g->in_flight_cost);
	m->n0 = g->sent - atomic_read(&g->in_flight);
	m->cost = m->n = 0;
}

void ek_meter_read(struct ek_meter *m, struct ek_core_group *g)
{
	m->to = READ_ONCE(g->last_done);
	m->cost = g->sent_cost - atomic64_read(&g->in_flight_cost) - m->cost0;
	m->n = g->sent - atomic_read(&g->in_flight) - m->n0;
}
