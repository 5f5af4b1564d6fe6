// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cost: the device time of a request when its group runs alone.
 *
 * Policy: each group has a rate, in ns per byte. The rate is the mean over the group's turns,
 * about EK_MEMORY_NS of device time. Groups are alike if their rates differ by no more than
 * turns differ by chance. A pool has the mean of their rates, and all of
 * them are charged at it. A table has measured rates by direction and size class (c->cell). Its
 * rates are used for a group that had no turn yet, and for requests unlike those that the group's
 * rate was measured with.
 * Invariant: the charges of a group that runs alone add up to the time that it ran. For
 * groups that are alike, the charges of all of them add up to the time that all of them ran.
 * Source: device time as the currency is f-Util of Gimbal (Min et al., SIGCOMM 2021).
 */
#include "cost.h"

/*
 * The guess for a device that was never measured, which the first turn corrects. Each request
 * takes EK_GUESS_RATE ns per byte (q16; 100 MB/s), and in addition the time that
 * EK_GUESS_BYTES take (40 us).
 */
#define EK_GUESS_RATE	(10 * EK_ONE)
#define EK_GUESS_BYTES	4096
/*
 * After recent writes, a reader's turn that looks slow changes the reader's rate less: the
 * memory of the rate counts this many times.
 */
#define EK_QUIET_MEMORY	8
/*
 * The device has changed if this many turns of a group in a row took half more than its rate
 * says, or a third less.
 */
#define EK_OFF_TURNS	3
/*
 * A group is alike if its rate departs from that of the pool by no more than EK_ALIKE plus
 * EK_ALIKE_NOISE times the group's noise. 80 % of the noise is two standard errors of a mean of
 * ten turns.
 */
#define EK_ALIKE	EK_PERCENT(2)
#define EK_ALIKE_NOISE	EK_PERCENT(80)
/* If this many turns in a row are of groups that are not alike, the pool begins again. */
#define EK_STRAYS	4
/* The rate of a pool is the mean over up to this many times EK_MEMORY_NS. */
#define EK_POOL_MEMORY	4
/* How long (ns) the last group of a pool still counts as one of several. */
#define EK_SHARED_NS	EK_SEC
/*
 * The noise is a mean of about this many turns. The first turns of a writer can differ by half
 * or more: garbage collection happens in some of them.
 */
#define EK_NOISE_TURNS	8
#define EK_NOISE_OF_WRITER	EK_PERCENT(50)
/* The cost of an operation without a size is the mean of about this many of its kind. */
#define EK_MEAN		4

/* The rate for a direction and size class: of its cell, of the nearest cell, or a guess. */
static u64 ek_cell_rate(struct ek_core *c, u8 op, u8 class)
{
	u64 rate = c->cell[op][class].rate;
	int i;

	/* of two classes that are equally near, the larger: it costs less per byte */
	for (i = 1; !rate && i < EK_SIZES; i++) {
		if (class + i < EK_SIZES && c->cell[op][class + i].rate)
			rate = c->cell[op][class + i].rate;
		else if (class >= i && c->cell[op][class - i].rate)
			rate = c->cell[op][class - i].rate;
	}
	return rate ?: EK_GUESS_RATE + EK_GUESS_RATE * EK_GUESS_BYTES / (512U << class);
}

/* Is @g one of several groups that are alike? A group that left less than 1 s ago counts. */
bool ek_cost_pooled(struct ek_core *c, struct ek_core_group *g)
{
	struct ek_cost_cell *cell = &c->cell[g->rate_op][g->rate_class];

	return g->alike && (cell->members > 1 ||
			    READ_ONCE(c->last_done) - cell->shared < EK_SHARED_NS);
}

static void ek_cost_forget_cache(struct ek_core_group *g)
{
	int op;

	for (op = 0; op < EK_DIRS; op++)
		g->cache[op].bytes = 0;
}

/*
 * Set whether @g is alike. Before rate_op or rate_class of @g change, the caller must clear
 * it: @g is counted in the cell that they name.
 */
void ek_cost_alike(struct ek_core *c, struct ek_core_group *g, bool alike)
{
	struct ek_cost_cell *cell = &c->cell[g->rate_op][g->rate_class];

	alike = alike && g->active;
	if (cell->members > 1)
		cell->shared = READ_ONCE(c->last_done);
	cell->members += (s32)alike - (s32)g->alike;
	if (g->alike != alike)
		ek_cost_forget_cache(g);
	g->alike = alike;
}

/* The rate (ns per byte, q16) at which @g is charged for requests like those of its rate. */
static u64 ek_charged_rate(struct ek_core *c, struct ek_core_group *g)
{
	return ek_cost_pooled(c, g) ? c->cell[g->rate_op][g->rate_class].pool : g->rate;
}

/*
 * The rate (ns per byte, q16) of @g for requests of @op and @class. If the group's rate was
 * measured with other requests, it is multiplied by the ratio of two rates of the table.
 */
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

/* The cost of a request of @g, in ns of device time, at least 1. */
u32 ek_cost(struct ek_core *c, struct ek_core_group *g, u8 op, u32 bytes)
{
	struct ek_cost_cache *cache;
	u64 ns;

	if (op >= EK_DIRS)
		return clamp_t(u64, READ_ONCE(c->special[op]), 1, U32_MAX);
	cache = &g->cache[op];
	if (likely(cache->bytes == bytes && cache->prices == c->prices))
		return cache->cost;
	/* the rate of the pool changed: all requests sent so far were charged at an older one */
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
	g->rate = max_t(u64, rate, 1);
	ek_cost_forget_cache(g);
}

/* Give @g, which has no measured rate, that of the table; if empty, by the least latency. */
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
 * @g has no measured rate. If there is a pool for the requests that @g sends, presume that @g
 * is like the pool's groups: @g is charged at the pool's rate until turns of @g are measured.
 * Returns false if there is no such pool.
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

/* Set whether the rate of @g is known. nr_unknown counts active groups, not apart, without. */
void ek_cost_known(struct ek_core *c, struct ek_core_group *g, bool known)
{
	if (g->active && !g->apart)
		c->nr_unknown += (s32)g->known - (s32)known;
	g->known = known;
}

/*
 * A turn of @g took @wall ns for requests that cost @cost ns. Do EK_OFF_TURNS such turns in a
 * row show that the device changed?
 */
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

/*
 * @rate is a mean over @memory ns. The new mean: according to @rate, a turn cost @cost ns, and it
 * took @wall ns.
 */
static u64 ek_cost_mean(u64 rate, u64 memory, u64 wall, u64 cost)
{
	return max_t(u64, 1, ek_mul(rate, ek_ratio(memory + wall, memory + cost)));
}

/* The pool of @cell learns from a turn: @wall ns for requests that cost @cost ns by its rate. */
static void ek_pool_learn(struct ek_core *c, struct ek_cost_cell *cell, u64 wall, u64 cost)
{
	cell->pool = ek_cost_mean(cell->pool, cell->memory, wall, cost);
	cell->memory = min_t(u64, cell->memory + wall, EK_POOL_MEMORY * EK_MEMORY_NS);
	c->prices++;
}

/*
 * A turn of @g took @wall ns, and its requests cost @cost ns at @rate. If @g is like the
 * other groups of @cell, the pool of @cell learns from the turn. Without a pool, or after
 * EK_STRAYS turns of groups that are not alike, the pool begins again with the rate of @g.
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

/*
 * @g ran alone for @wall ns; its requests were charged as @cost ns. Update its rate, the
 * table and the pool. @noisy: hidden time of earlier writes may have slowed @g.
 */
void ek_cost_learn(struct ek_core *c, struct ek_core_group *g, u64 wall, u64 cost, bool noisy)
{
	struct ek_cost_cell *cell = &c->cell[g->op][g->class];
	u64 memory, rate, charged = ek_group_rate(c, g, g->op, g->class);

	if (g->op == g->rate_op && g->class == g->rate_class && g->rate)
		/* convert @cost from the rate charged, perhaps the pool's, to the group's own */
		cost = max_t(u64, 1, ek_mul(cost, ek_ratio(g->rate, charged)));
	else
		/* from now on, the rate is for the direction and size that the group sends now */
		ek_cost_set_rate(g, charged);
	ek_cost_alike(c, g, false);
	g->rate_op = g->op;
	g->rate_class = g->class;
	rate = g->rate;
	if (!g->known || ek_cost_changed(g, wall, cost)) {
		g->memory = 0;
		g->noise = g->op == EK_OP_READ ? 0 : EK_NOISE_OF_WRITER;
	} else {
		g->noise -= g->noise / EK_NOISE_TURNS;
		g->noise += min_t(u64, ek_ratio(ek_off(wall, cost), cost), EK_ONE) / EK_NOISE_TURNS;
	}
	/*
	 * The new rate is the old one * (memory + wall) / (memory + cost). By definition,
	 * requests served within the memory of the rate cost as much as they took.
	 */
	memory = g->memory * (noisy && wall > cost ? EK_QUIET_MEMORY : 1);
	ek_cost_set_rate(g, ek_cost_mean(rate, memory, wall, cost));
	g->memory = min_t(u64, g->memory + wall, EK_MEMORY_NS);
	if (!cell->rate || g->rate < cell->rate || g->limit >= cell->depth) {
		cell->rate = g->rate;
		cell->depth = g->growing ? 0 : g->limit;
	}
	ek_pool_join(c, g, cell, wall, cost, rate);
	ek_cost_known(c, g, true);
}

/*
 * @r of @g completed. Update the least latencies; or for an operation without a size, update
 * its mean and charge @g for the difference.
 */
void ek_cost_saw(struct ek_core *c, struct ek_core_group *g, struct ek_req *r,
		 u64 now)
{
	u64 took = min_t(u64, now - r->issued, U32_MAX), mean;
	struct ek_cost_cell *cell;

	if (r->op >= EK_DIRS) {
		/* until the last completion, the device served other requests */
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
 * A meter counts the service of @g from @from, the time of a completion, to the last
 * completion, so it never counts a part of a request. Service is what was sent less what is
 * in flight. So completions need not keep a sum.
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

/* Update @m up to the last completion of @g. */
void ek_meter_read(struct ek_meter *m, struct ek_core_group *g)
{
	m->to = max_t(u64, m->from, READ_ONCE(g->last_done));
	m->cost = g->sent_cost - atomic64_read(&g->in_flight_cost) - m->cost0;
	m->n = g->sent - atomic_read(&g->in_flight) - m->n0;
}
