// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cost: the device time of a request when its group runs alone.
 *
 * Policy: a group's rate (ns per byte) is the mean of what its turns took, over about
 * EK_MEMORY_NS of device time. Groups whose rates differ only by as much as turns do by
 * chance are alike: a pool has the mean of their rates, and all are charged at it. A
 * table of measured rates, by direction and size class, stands in for what is not known:
 * all of a group that had no turn yet, and other sizes of a group that had one.
 * Invariant: what a group that runs alone is charged adds up to the time that it ran; of
 * groups that are alike, what all of them are charged.
 * Source: the currency is f-Util of Gimbal (Min et al., SIGCOMM 2021).
 */
#include "cost.h"

/* Of a device that was never measured: 100 MB/s and 40 us. The first turn corrects it. */
#define EK_GUESS_RATE	(10 * EK_ONE)
#define EK_GUESS_BYTES	4096
/* A reader remembers quiet turns so many times as long as others while there are writers. */
#define EK_QUIET_MEMORY	8
/* So many turns in a row that differ by half or more: the device changed. */
#define EK_OFF_TURNS	3
/*
 * A group is alike if its rate departs from the pool's by no more than this and a part
 * of its noise: two standard errors of a mean of ten turns.
 */
#define EK_ALIKE	EK_PERCENT(2)
#define EK_ALIKE_NOISE	EK_PERCENT(80)
/* So many turns in a row of groups that are not alike: the pool is another kind's. */
#define EK_STRAYS	4
/* A pool remembers so many times as much as a group. */
#define EK_POOL_MEMORY	4
/* A pool is shared for so long after the last but one of its groups went. */
#define EK_SHARED_NS	EK_SEC
/* The noise is a mean of so many turns. */
#define EK_NOISE_TURNS	8
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

/* Is @g one of several groups that are alike? One that pauses for a moment counts. */
bool ek_cost_pooled(struct ek_core *c, struct ek_core_group *g)
{
	struct ek_cost_cell *cell = &c->cell[g->rate_op][g->rate_class];

	return g->alike && (cell->members > 1 ||
			    READ_ONCE(c->last_done) - cell->shared < EK_SHARED_NS);
}

/* Before the kind of requests changes that the rate of @g is of, it must not be alike. */
void ek_cost_alike(struct ek_core *c, struct ek_core_group *g, bool alike)
{
	struct ek_cost_cell *cell = &c->cell[g->rate_op][g->rate_class];

	alike = alike && g->active;
	if (cell->members > 1)
		cell->shared = READ_ONCE(c->last_done);
	cell->members += (s32)alike - (s32)g->alike;
	g->alike = alike;
}

/* ns per byte that @g is charged at, of the requests that its rate was measured with */
static u64 ek_charged_rate(struct ek_core *c, struct ek_core_group *g)
{
	return ek_cost_pooled(c, g) ? c->cell[g->rate_op][g->rate_class].pool : g->rate;
}

/* ns per byte of @g for a request of @class, by its own rate and the table's ratio */
static u64 ek_group_rate(struct ek_core *c, struct ek_core_group *g, u8 op, u8 class)
{
	u64 mine;

	if (!g->rate)
		return ek_cell_rate(c, op, class);
	if (op == g->rate_op && class == g->rate_class)
		return ek_charged_rate(c, g);
	mine = ek_cell_rate(c, g->rate_op, g->rate_class);
	return ek_mul(ek_charged_rate(c, g), ek_ratio(ek_cell_rate(c, op, class), mine));
}

/* ns of device time of a request of @g, at least 1 */
u32 ek_cost(struct ek_core *c, struct ek_core_group *g, u8 op, u32 bytes)
{
	struct ek_cost_cache *cache;
	u64 ns;

	if (op >= EK_DIRS)
		return clamp_t(u64, READ_ONCE(c->special[op]), 1, U32_MAX);
	cache = &g->cache[op];
	if (likely(cache->bytes == bytes && cache->prices == c->prices))
		return cache->cost;
	/* what is in the device was charged at the old price */
	if (g->alike && g->prices != c->prices)
		g->priced = g->sent;
	g->prices = c->prices;
	ns = ek_mul(ek_group_rate(c, g, op, ek_size_class(bytes)), bytes);
	cache->bytes = bytes;
	cache->prices = c->prices;
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
	ek_cost_alike(c, g, false);
	g->rate_op = g->op;
	g->rate_class = g->class;
	ek_cost_set_rate(g, rate);
}

/*
 * @g has no rate yet. Take it for one of the groups that send the same, if there are
 * any: it is charged as they are until its own turns tell. False if there are none.
 */
bool ek_cost_presume(struct ek_core *c, struct ek_core_group *g)
{
	struct ek_cost_cell *cell = &c->cell[g->op][g->class];

	if (!cell->pool)
		return false;
	ek_cost_alike(c, g, false);
	g->rate_op = g->op;
	g->rate_class = g->class;
	ek_cost_set_rate(g, cell->pool);
	ek_cost_alike(c, g, true);
	g->memory = 0;
	ek_cost_known(c, g, true);
	return true;
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

static u64 ek_off(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/* The pool of @cell learns from a turn: @wall ns for what it would charge as @cost ns. */
static void ek_pool_learn(struct ek_core *c, struct ek_cost_cell *cell, u64 wall, u64 cost)
{
	u64 ratio = ek_ratio(cell->memory + wall, cell->memory + cost);

	cell->pool = max_t(u64, 1, ek_mul(cell->pool, ratio));
	cell->memory = min_t(u64, cell->memory + wall, EK_POOL_MEMORY * EK_MEMORY_NS);
	c->prices++;
}

/*
 * Is @g, whose turn took @wall ns for what was @cost ns at @rate, like the other groups
 * of @cell? Then the pool learns from it. A pool that nobody is like any more begins
 * with @g.
 */
static void ek_pool_join(struct ek_core *c, struct ek_core_group *g, struct ek_cost_cell *cell,
			 u64 wall, u64 cost, u64 rate)
{
	u64 may = ek_mul(cell->pool, EK_ALIKE + ek_mul(g->noise, EK_ALIKE_NOISE));

	ek_cost_alike(c, g, cell->pool && ek_off(g->rate, cell->pool) <= may);
	if (g->alike) {
		cell->strays = 0;
		ek_pool_learn(c, cell, wall, ek_mul(cost, ek_ratio(cell->pool, rate)));
	} else if (!cell->pool || (g->memory >= EK_YOUNG_NS && ++cell->strays >= EK_STRAYS)) {
		cell->strays = 0;
		cell->pool = g->rate;
		cell->memory = g->memory;
		ek_cost_alike(c, g, true);
		c->prices++;
	}
}

/* @g ran alone: @wall ns for what was charged as @cost ns. @noisy: others may have slowed it. */
void ek_cost_learn(struct ek_core *c, struct ek_core_group *g, u64 wall, u64 cost, bool noisy)
{
	struct ek_cost_cell *cell = &c->cell[g->op][g->class];
	u64 memory, rate, charged = ek_group_rate(c, g, g->op, g->class);

	if (g->op == g->rate_op && g->class == g->rate_class && g->rate)
		/* by its own rate instead of the pool's */
		cost = max_t(u64, 1, ek_mul(cost, ek_ratio(g->rate, charged)));
	else
		/* the rate becomes that of what the group sends now */
		g->rate = charged;
	ek_cost_alike(c, g, false);
	g->rate_op = g->op;
	g->rate_class = g->class;
	if (!g->known || ek_cost_changed(g, wall, cost)) {
		g->memory = 0;
		g->noise = 0;
	} else {
		g->noise -= g->noise / EK_NOISE_TURNS;
		g->noise += min_t(u64, ek_ratio(ek_off(wall, cost), cost), EK_ONE) / EK_NOISE_TURNS;
	}
	rate = g->rate;
	/* by definition, cost and time were equal for what the rate remembers */
	memory = g->memory * (noisy && wall > cost ? EK_QUIET_MEMORY : 1);
	ek_cost_set_rate(g, ek_mul(g->rate, ek_ratio(memory + wall, memory + cost)));
	g->memory = min_t(u64, g->memory + wall, EK_MEMORY_NS);
	if (!cell->rate || g->rate < cell->rate || g->limit >= cell->depth) {
		cell->rate = g->rate;
		cell->depth = g->growing ? 0 : g->limit;
	}
	ek_pool_join(c, g, cell, wall, cost, rate);
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
