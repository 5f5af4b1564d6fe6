// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cost: the device time of a request when its group runs alone.
 *
 * Policy: a group's rate (ns per byte) is the mean of what its turns took,
 * over about EK_MEMORY_NS of device time. A group that had no turn yet, and
 * other sizes of a group that had, follow a table of all groups' rates.
 * Invariant: the sum of cost over time is 1 for any group that runs alone.
 * Source: f-Util of Gimbal (Min et al., SIGCOMM 2021) is the currency.
 */
#include "cost.h"

/* Of a device that was never measured: 100 MB/s and 40 us. The first turn corrects it. */
#define EK_GUESS_RATE	(10 * EK_ONE)
#define EK_GUESS_BYTES	4096
/* A reader remembers quiet turns so many times as long as others while there are writers. */
#define EK_QUIET_MEMORY	8
/* So many turns in a row that differ by half or more: the device changed. */
#define EK_OFF_TURNS	3
/* Unsized operations: the mean counts so many. */
#define EK_MEAN		4

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

/* ns per byte of @g for a request of @class, by its own rate and the table's ratio */
static u64 ek_group_rate(struct ek_core *c, struct ek_core_group *g, u8 op, u8 class)
{
	u64 mine;

	if (!g->rate)
		return ek_cell_rate(c, op, class);
	if (op == g->rate_op && class == g->rate_class)
		return g->rate;
	mine = ek_cell_rate(c, g->rate_op, g->rate_class);
	return ek_mul(g->rate, ek_ratio(ek_cell_rate(c, op, class), mine));
}

/* ns of device time of a request of @g, at least 1 */
u32 ek_cost(struct ek_core *c, struct ek_core_group *g, u8 op, u32 bytes)
{
	struct ek_cost_cache *cache;
	u64 ns;

	if (op >= EK_DIRS)
		return clamp_t(u64, READ_ONCE(c->special[op]), 1, U32_MAX);
	cache = &g->cache[op];
	if (likely(cache->bytes == bytes))
		return cache->cost;
	ns = ek_mul(ek_group_rate(c, g, op, ek_size_class(bytes)), bytes);
	cache->bytes = bytes;
	cache->cost = clamp_t(u64, ns, 1, U32_MAX);
	return cache->cost;
}

static void ek_cost_set_rate(struct ek_core_group *g, u64 rate)
{
	int op;

	g->rate = max_t(u64, rate, 1);
	for (op = 0; op < EK_DIRS; op++)
		g->cache[op].bytes = 0;
}

/* @g has no rate: the table's, or by the least latency if only that is known */
void ek_cost_first(struct ek_core *c, struct ek_core_group *g)
{
	struct ek_cost_cell *cell = &c->cell[g->op][g->class];
	u64 rate = ek_cell_rate(c, g->op, g->class);

	if (!cell->rate && READ_ONCE(cell->least))
		rate = ((u64)READ_ONCE(cell->least) << EK_Q) / max_t(u32, g->bytes, 1);
	g->rate_op = g->op;
	g->rate_class = g->class;
	ek_cost_set_rate(g, rate);
}

/* Keeps the count of active groups without a rate of their own. */
void ek_cost_known(struct ek_core *c, struct ek_core_group *g, bool known)
{
	if (g->active)
		c->nr_unknown += (s32)g->known - (s32)known;
	g->known = known;
}

/* Does @wall / @cost say, again and again, that the device is another now? */
static bool ek_cost_changed(struct ek_core_group *g, u64 wall, u64 cost)
{
	if (2 * wall > 3 * cost)
		g->off = g->off > 0 ? g->off + 1 : 1;
	else if (3 * wall < 2 * cost)
		g->off = g->off < 0 ? g->off - 1 : -1;
	else
		g->off = 0;
	if (g->off < EK_OFF_TURNS && g->off > -EK_OFF_TURNS)
		return false;
	g->off = 0;
	return true;
}

/* @g ran alone: @wall ns for what was charged as @cost ns. @noisy: others may have slowed it. */
void ek_cost_learn(struct ek_core *c, struct ek_core_group *g, u64 wall, u64 cost, bool noisy)
{
	struct ek_cost_cell *cell = &c->cell[g->op][g->class];
	u64 memory;

	/* the rate becomes that of what the group sends now */
	g->rate = ek_group_rate(c, g, g->op, g->class);
	g->rate_op = g->op;
	g->rate_class = g->class;
	if (!g->known || ek_cost_changed(g, wall, cost))
		g->memory = 0;
	/* by definition, cost and time were equal for what the rate remembers */
	memory = g->memory * (noisy && wall > cost ? EK_QUIET_MEMORY : 1);
	ek_cost_set_rate(g, ek_mul(g->rate, ek_ratio(memory + wall, memory + cost)));
	g->memory = min_t(u64, g->memory + wall, EK_MEMORY_NS);
	if (!cell->rate || g->rate < cell->rate || g->limit >= cell->depth) {
		cell->rate = g->rate;
		cell->depth = g->growing ? 0 : g->limit;
	}
	ek_cost_known(c, g, true);
}

/* @r completed: the least latency of its kind, and what unsized work took */
void ek_cost_saw(struct ek_core *c, struct ek_core_group *g, struct ek_req *r,
		 u64 now)
{
	u64 took = min_t(u64, now - r->issued, U32_MAX), mean;
	struct ek_cost_cell *cell;

	if (r->op >= EK_DIRS) {
		/* until the completion before, the device did other work */
		took = min_t(u64, took, now - min_t(u64, now, READ_ONCE(c->last_done)));
		mean = READ_ONCE(c->special[r->op]);
		WRITE_ONCE(c->special[r->op], mean ? mean - mean / EK_MEAN + took / EK_MEAN : took);
		atomic64_add((s64)took - r->cost, &g->debt);
		return;
	}
	if (READ_ONCE(g->least) - 1 < took)
		return;
	WRITE_ONCE(g->least, max_t(u32, took, 1));
	cell = &c->cell[r->op][ek_size_class(r->bytes)];
	if (READ_ONCE(cell->least) - 1 >= took)
		WRITE_ONCE(cell->least, max_t(u32, took, 1));
}

/*
 * A meter counts from one completion to the last, never parts of requests. What
 * was served is what was sent less what is inside, so completions keep no sum.
 */
void ek_meter_begin(struct ek_meter *m, struct ek_core_group *g, u64 from)
{
	m->on = true;
	m->from = from;
	m->to = from;
	m->cost0 = g->sent_cost - atomic64_read(&g->in_flight_cost);
	m->n0 = g->sent - atomic_read(&g->in_flight);
	m->cost = 0;
	m->n = 0;
}

void ek_meter_read(struct ek_meter *m, struct ek_core_group *g)
{
	m->to = max_t(u64, m->from, READ_ONCE(g->last_done));
	m->cost = g->sent_cost - atomic64_read(&g->in_flight_cost) - m->cost0;
	m->n = g->sent - atomic_read(&g->in_flight) - m->n0;
}
