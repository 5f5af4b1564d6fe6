// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exports entry points and state of the policy core as symbols, for test_core.py. There is one
 * core with up to GROUPS groups, which are named by number. Times are in ns.
 */
#include <stdlib.h>
/* ek-sim and the kernel are built without this warning, too */
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "../src/core/budget.c"
#include "../src/core/cost.c"
#include "../src/core/gate.c"
#include "../src/core/guard.c"
#include "../src/core/mode.c"
#include "../src/core/order.c"
#include "../src/core/hidden.c"
#include "../src/core/stall.c"
#include "../src/core/turn.c"
#include "../src/core/core.c"

#define GROUPS 64

static struct ek_core core;
static struct ek_core_group root, groups[GROUPS];
static struct ek_req reqs[GROUPS][64];
static u32 oldest[GROUPS], inside[GROUPS];

void shim_core(u32 tags, u32 nr, u32 weight);
void shim_core(u32 tags, u32 nr, u32 weight)
{
	ek_core_init(&core, tags, 0);
	ek_core_group_init(&core, &root, NULL, 100);
	for (u32 i = 0; i < nr; i++) {
		ek_core_group_init(&core, &groups[i], &root, i ? 100 : weight);
		oldest[i] = inside[i] = 0;
	}
}

void shim_arrive(u32 g, u64 now);
void shim_arrive(u32 g, u64 now)
{
	ek_core_arrive(&core, &groups[g], now);
}

int shim_admit(u32 free, u64 now);
int shim_admit(u32 free, u64 now)
{
	struct ek_core_group *g = ek_core_admit(&core, free, now);

	return g ? (int)(g - groups) : -1;
}

void shim_ungrant(u32 g);
void shim_ungrant(u32 g)
{
	ek_core_ungrant(&core, &groups[g]);
}

void shim_insert(u32 g, u32 op, u32 bytes, bool urgent, u64 now);
void shim_insert(u32 g, u32 op, u32 bytes, bool urgent, u64 now)
{
	struct ek_req r = { .op = (u8)op, .bytes = bytes, .urgent = urgent };

	ek_core_insert(&core, &groups[g], &r, now);
}

void shim_remove(u32 g, u32 op, u32 bytes);
void shim_remove(u32 g, u32 op, u32 bytes)
{
	struct ek_req r = { .op = (u8)op, .bytes = bytes };

	ek_core_remove(&core, &groups[g], &r);
}

/* Picks the next group, and dispatches a request of it. Returns the group, or -1. */
int shim_serve(u32 op, u32 bytes, bool urgent, u64 now);
int shim_serve(u32 op, u32 bytes, bool urgent, u64 now)
{
	u64 wake = U64_MAX;
	struct ek_core_group *g = ek_core_pick(&core, now, &wake);
	struct ek_req *r;
	u32 i;

	if (!g)
		return -1;
	i = (u32)(g - groups);
	r = &reqs[i][(oldest[i] + inside[i]++) % 64];
	*r = (struct ek_req){ .op = (u8)op, .bytes = bytes, .urgent = urgent && g->urgent };
	ek_core_dispatch(&core, g, r, now);
	return (int)i;
}

/* The group to serve next. Or -1: then *@wake is when to ask again, or U64_MAX for no time. */
int shim_pick(u64 now, u64 *wake);
int shim_pick(u64 now, u64 *wake)
{
	struct ek_core_group *g;

	*wake = U64_MAX;
	g = ek_core_pick(&core, now, wake);
	return g ? (int)(g - groups) : -1;
}

/* Dispatches a request of @g, the group picked. */
void shim_dispatch(u32 g, u32 op, u32 bytes, bool urgent, u64 now);
void shim_dispatch(u32 g, u32 op, u32 bytes, bool urgent, u64 now)
{
	struct ek_req *r = &reqs[g][(oldest[g] + inside[g]++) % 64];

	*r = (struct ek_req){ .op = (u8)op, .bytes = bytes, .urgent = urgent };
	ek_core_dispatch(&core, &groups[g], r, now);
}

/* Sends a request of @g at once, if the core allows it. Returns whether it went. */
bool shim_quick(u32 g, u32 op, u32 bytes, u64 now);
bool shim_quick(u32 g, u32 op, u32 bytes, u64 now)
{
	struct ek_req *r = &reqs[g][(oldest[g] + inside[g]) % 64];

	*r = (struct ek_req){ .op = (u8)op, .bytes = bytes };
	if (!ek_core_quick(&core, &groups[g], r, now))
		return false;
	inside[g]++;
	return true;
}

void shim_depart(u32 g);
void shim_depart(u32 g)
{
	ek_core_depart(&core, &groups[g]);
}

void shim_promote(u32 g);
void shim_promote(u32 g)
{
	ek_core_promote(&core, &groups[g]);
}

void shim_set_weight(u32 g, u32 weight);
void shim_set_weight(u32 g, u32 weight)
{
	ek_core_set_weight(&core, &groups[g], weight);
}

/* The allowance of @g for service out of turn, in ns of device time. */
s64 shim_pass_left(u32 g);
s64 shim_pass_left(u32 g)
{
	return groups[g].pass_left;
}

/* The largest allowance of a light group, in ns. */
s64 shim_pass_most(void);
s64 shim_pass_most(void)
{
	return (s64)(core.t.turn_ms * EK_MS) / EK_PASS_PART;
}

/* The percentage of its share of the time by which a group's allowance is refilled. */
u32 shim_pass_refill(void);
u32 shim_pass_refill(void)
{
	return (u32)((EK_PASS_REFILL * 100 + EK_ONE / 2) / EK_ONE);
}

bool shim_light(u32 g);
bool shim_light(u32 g)
{
	return groups[g].light;
}

/* Is @g light, and does it pause? */
bool shim_apart(u32 g);
bool shim_apart(u32 g)
{
	return groups[g].apart;
}

/*
 * Is @g in the trees and lists where its state says it must be? Returns 0, or the number of the
 * rule that is broken.
 */
int shim_misplaced(u32 g);
int shim_misplaced(u32 g)
{
	struct ek_core_group *e = &groups[g];
	struct llist_node *at;
	u32 released = 0, unknown = 0;

	if (e->apart && e->placed)
		return 1;
	if (e->apart && !e->light)
		return 2;
	/* an active group in no tree must own the turn, or be apart: otherwise nobody serves it */
	if (e->active && !e->placed && !e->apart && core.turn.g != e)
		return 3;
	if (e->apart && e->queued && list_empty(&e->pass_node))
		return 4;
	if (e->queued && !e->active)
		return 5;
	/* a group added to this list twice would close it to a ring, or drop others from it */
	for (at = core.released.first; at; at = at->next)
		if (++released > GROUPS)
			return 6;
	/* only a group that competes has to be measured: trials of modes and the guard wait for it */
	for (u32 i = 0; i < GROUPS; i++)
		unknown += groups[i].active && !groups[i].known && !groups[i].apart;
	return core.nr_unknown == unknown ? 0 : 7;
}

bool shim_complete(u32 g, bool requeued, u64 now);
bool shim_complete(u32 g, bool requeued, u64 now)
{
	if (!inside[g])
		return false;
	ek_core_complete(&core, &groups[g], &reqs[g][oldest[g]++ % 64], requeued, now);
	inside[g]--;
	return true;
}

void shim_set_rate(u32 g, u64 ns_per_byte);
void shim_set_rate(u32 g, u64 ns_per_byte)
{
	groups[g].rate = ns_per_byte << EK_Q;
	groups[g].rate_op = groups[g].op = EK_OP_READ;
	groups[g].rate_class = groups[g].class = ek_size_class(4096);
	groups[g].cache[EK_OP_READ].bytes = 0;
	groups[g].growing = false;
	ek_cost_known(&core, &groups[g], true);
}

void shim_exit(u32 g);
void shim_exit(u32 g)
{
	ek_core_group_exit(&core, &groups[g]);
}

/* The rate of @g, in ns per byte, q16. */
u64 shim_rate(u32 g);
u64 shim_rate(u32 g)
{
	return groups[g].rate;
}

u64 shim_vtime(u32 g);
u64 shim_vtime(u32 g)
{
	return groups[g].vtime;
}

u64 shim_cost(u32 g, u32 op, u32 bytes);
u64 shim_cost(u32 g, u32 op, u32 bytes)
{
	return ek_cost(&core, &groups[g], (u8)op, bytes);
}

/* the pool of reads of 4 KiB has this rate, and @g is one of its groups, or not */
void shim_pool(u32 g, bool alike, u64 ns_per_byte);
void shim_pool(u32 g, bool alike, u64 ns_per_byte)
{
	struct ek_cost_cell *cell = &core.cell[EK_OP_READ][ek_size_class(4096)];

	cell->pool = ns_per_byte << EK_Q;
	ek_cost_alike(&core, &groups[g], alike);
	cell->members = alike ? 2 : 0;
	cell->shared = -(u64)EK_SHARED_NS;
}

/* the group that starves, or -1; only where the next check begins changes */
int shim_starving(u64 now);
int shim_starving(u64 now)
{
	struct ek_core_group *g = ek_guard_starving(&core, now);

	return g ? (int)(g - groups) : -1;
}

/* ns of this epoch in which no group had a request */
u64 shim_epoch_idle(void);
u64 shim_epoch_idle(void)
{
	return core.mode.epoch_idle;
}

void shim_charge(u32 g, u64 issued, u64 now);
void shim_charge(u32 g, u64 issued, u64 now)
{
	ek_core_charge(&core, &groups[g], issued, now);
}

s64 shim_debt(u32 g);
s64 shim_debt(u32 g)
{
	return atomic64_read(&groups[g].debt);
}

/* A sum of all counts and of non-empty lists: 0 when no request and no active group is left. */
u64 shim_left(u32 nr);
u64 shim_left(u32 nr)
{
	u64 left = core.nr_queued + core.nr_waiting + (u64)atomic_read(&core.in_flight) +
		   (u64)atomic64_read(&core.in_flight_cost) + core.nr_active + core.nr_unknown +
		   core.top.sum;

	for (u32 i = 0; i < nr; i++)
		left += groups[i].queued + groups[i].granted;
	return left + !list_empty(&core.served) + !list_empty(&core.urgent) +
	       !list_empty(&core.passing) + !list_empty(&core.measured) +
	       !list_empty(&core.unmeasured) + !list_empty(&core.idle);
}

/* A node of the test of the tree in sim/kernel.h. */
struct number {
	struct rb_node node;
	int value;
	bool in;
};

static bool number_before(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct number, node)->value < rb_entry(b, struct number, node)->value;
}

/* Adds each value to the tree, or erases it if it is there. Returns 0 if the tree stays sorted. */
int shim_tree(const int *values, u32 nr);
int shim_tree(const int *values, u32 nr)
{
	struct rb_root_cached tree = RB_ROOT_CACHED;
	struct number *numbers = calloc(256, sizeof(*numbers));
	u32 in = 0, seen, i;
	int bad = 0;

	for (i = 0; i < nr && !bad; i++) {
		struct number *n = &numbers[values[i] & 255];
		struct rb_node *at;
		int last = -1;

		n->value = values[i] & 255;
		if (n->in)
			rb_erase_cached(&n->node, &tree);
		else
			rb_add_cached(&n->node, &tree, number_before);
		n->in = !n->in;
		in += n->in ? 1 : -1U;
		for (seen = 0, at = rb_first_cached(&tree); at; at = rb_next(at), seen++) {
			bad |= rb_entry(at, struct number, node)->value <= last;
			last = rb_entry(at, struct number, node)->value;
		}
		bad |= seen != in;
	}
	free(numbers);
	return bad;
}

/* a turn shows @ns ns of hidden time */
void shim_hidden_saw(u64 ns);
void shim_hidden_saw(u64 ns)
{
	ek_hidden_saw(&core, ns, 0);
}

/* what a write of @bytes is charged for hidden time, ns */
u64 shim_hidden_cost(u32 bytes);
u64 shim_hidden_cost(u32 bytes)
{
	return ek_hidden_cost(&core, EK_OP_WRITE, bytes);
}
