// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guard: service out of turn, which is debt.
 *
 * Policy: urgent requests go at once, and so do those of a light group, which uses less
 * than EK_PASS_REFILL of its share, while their share pays for them. A group starves if
 * it waits for longer than starve_ms, and for longer than the device or its weight
 * explain: it is served. All of this is charged to virtual time. Urgent requests beyond
 * their share, and starving groups, also need tokens, guard_percent of device time.
 * Invariant: flags and numbers give no group more than its share and that part; and
 * urgent requests leave half of the tokens to the starving.
 * Source: iocost's debt for urgent I/O (Heo et al., ASPLOS 2022).
 */
#include "guard.h"
#include "budget.h"
#include "order.h"
#include "turn.h"

/* tokens are kept for this time */
#define EK_TOKENS_NS	EK_SEC
/* Groups with urgent requests are looked at, so many at a time. */
#define EK_URGENT_LOOKS	8
/* service out of turn may put a group so far ahead */
#define EK_URGENT_LEAD	(200 * EK_MS)
/* A wait of so many of the largest requests is the device's doing, no starvation. */
#define EK_STARVE_REQUESTS	8
/* Nor is so much more than the time in which its weight gives a group one request. */
#define EK_STARVE_TIMES		EK_PERCENT(125)
/* Groups that may starve are looked at, so many at a time. */
#define EK_STARVE_LOOKS		4
/* A group may pass with at most this part of a turn. */
#define EK_PASS_PART	4
/* A group that uses less than this part of its share is light. */
#define EK_PASS_REFILL	EK_PERCENT(75)
#define EK_PASS_DEBT	2
/* So far back looks the refill. */
#define EK_PASS_NS	(2 * EK_SEC)
/* budgets are short for this time after a light group passed */
#define EK_SHORT_NS	EK_SEC

static s64 ek_tokens_most(struct ek_core *c)
{
	return div_u64(EK_TOKENS_NS * c->t.guard_percent, 100);
}

void ek_guard_init(struct ek_core *c, u64 now)
{
	INIT_LIST_HEAD(&c->served);
	INIT_LIST_HEAD(&c->urgent);
	INIT_LIST_HEAD(&c->passing);
	c->tokens = ek_tokens_most(c);
	c->tokens_at = now;
}

/* Are there more than @keep tokens? */
static bool ek_tokens(struct ek_core *c, s64 keep, u64 now)
{
	u64 since = min_t(u64, now - c->tokens_at, 100 * EK_SEC);

	c->tokens = min_t(s64, ek_tokens_most(c),
			  c->tokens + (s64)div_u64(since * c->t.guard_percent, 100));
	c->tokens_at = now;
	return c->tokens > keep;
}

/* Did @g, which is not idle, pause lately? A group that is only slowed down does not. */
static bool ek_guard_pauses(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	return now - g->paused < c->t.turn_ms * EK_MS;
}

/*
 * @g, which had nothing queued, has a request. Is it light? It may pass with tokens of
 * its own, which EK_PASS_REFILL of its share of the time refills. Its debt is at most
 * EK_PASS_DEBT turns: one whose turn it was, and that then waited for its next, does not
 * look light.
 */
void ek_guard_refill(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	s64 turn = c->t.turn_ms * EK_MS;
	u64 part = ek_order_part(c, g, min_t(u64, now - min_t(u64, now, g->pass_at), EK_PASS_NS));

	g->pass_at = now;
	g->pass_left = clamp_t(s64, g->pass_left + (s64)ek_mul(part, EK_PASS_REFILL),
			       -EK_PASS_DEBT * turn, turn / EK_PASS_PART);
	if (!atomic_read(&g->in_flight)) {
		if (!ek_before(now, ek_order_idle_until(c, g)))
			g->paused = now;
		g->busy = now;
	}
	g->light = g->pass_left > 0 && (g->known || g->guessed) && c->turn.g != g;
	ek_order_apart(c, g, g->light && ek_guard_pauses(c, g, now));
}

void ek_guard_insert(struct ek_core *c, struct ek_core_group *g, bool urgent, u64 now)
{
	if (g->queued == 1) {
		ek_guard_refill(c, g, now);
		g->served = now;
		list_add_tail(&g->served_node, &c->served);
	}
	if (urgent && !g->urgent++)
		list_add_tail(&g->urgent_node, &c->urgent);
	/* with its first request it may still be among those that wait for a tag */
	if (g->light && g->queued == 1)
		list_move_tail(&g->pass_node, &c->passing);
}

/* @g competes like others from now on; the caller places it. */
void ek_guard_heavy(struct ek_core *c, struct ek_core_group *g)
{
	g->light = false;
	list_del_init(&g->pass_node);
	ek_order_apart(c, g, false);
}

/* A request left the queue of @g. */
void ek_guard_leave(struct ek_core *c, struct ek_core_group *g, bool urgent, u32 cost, u64 now)
{
	bool served = now != g->served;

	g->served = now;
	g->pass_left -= cost;
	if (g->light && g->pass_left <= 0)
		ek_guard_heavy(c, g);
	if (!g->queued)
		list_del_init(&g->served_node);
	else if (served && c->served.prev != &g->served_node)
		list_move_tail(&g->served_node, &c->served);
	if (urgent && !--g->urgent)
		list_del_init(&g->urgent_node);
	if (!g->queued)
		list_del_init(&g->pass_node);
}

void ek_guard_spent(struct ek_core *c, u64 ns)
{
	c->tokens -= ns;
}

/* May a light group pass? No further ahead than one whose turn it is. */
bool ek_guard_may_pass(struct ek_core *c, struct ek_core_group *g)
{
	return !ek_before(c->vnow + ek_order_lead(c, c->t.turn_ms * EK_MS), g->vtime);
}

/* A group that waits for longer than this may starve. */
static u64 ek_starves(struct ek_core *c)
{
	return max_t(u64, c->t.starve_ms * EK_MS, (u64)EK_STARVE_REQUESTS *
		     max_t(u32, c->most_request, c->most_latency));
}

/* A group that starves, or NULL. The list is in the order in which groups began to wait. */
static struct ek_core_group *ek_guard_starving(struct ek_core *c, u64 now)
{
	u64 most = ek_starves(c);
	struct ek_core_group *g;
	int looks = 0;

	list_for_each_entry(g, &c->served, served_node) {
		if (now - g->served <= most || ++looks > EK_STARVE_LOOKS)
			break;
		if (now - g->served > ek_mul(ek_order_round(c, g), EK_STARVE_TIMES))
			return g;
	}
	return NULL;
}

/* May @g be served out of turn, by its share or by half of the tokens? */
bool ek_guard_affords(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	c->why = EK_WHY_AHEAD;
	if (!ek_before(c->vnow + ek_order_lead(c, EK_URGENT_LEAD), g->vtime))
		return true;
	c->why = EK_WHY_GUARD;
	return ek_tokens(c, ek_tokens_most(c) / 2, now);
}

static struct ek_core_group *ek_guard_urgent(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;
	int looks = 0;

	/* one that cannot afford it does not keep the others waiting */
	list_for_each_entry(g, &c->urgent, urgent_node) {
		if (ek_guard_affords(c, g, now))
			return g;
		if (++looks >= EK_URGENT_LOOKS)
			break;
	}
	return NULL;
}

static struct ek_core_group *ek_guard_light(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;

	g = list_first_entry_or_null(&c->passing, struct ek_core_group, pass_node);
	if (!g)
		return NULL;
	if (!ek_guard_may_pass(c, g)) {
		ek_guard_heavy(c, g);
		ek_order_place(c, g);
		return NULL;
	}
	/* perhaps it is only slowed down: a turn shows what it can do */
	if (g->apart && !ek_guard_pauses(c, g, now)) {
		ek_order_apart(c, g, false);
		ek_order_place(c, g);
	}
	c->nr_passed++;
	if (c->nr_active > 1)
		c->short_until = now + EK_SHORT_NS;
	c->why = EK_WHY_AHEAD;
	return g;
}

/* The group to serve out of turn, or NULL. */
struct ek_core_group *ek_guard_pick(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;

	g = ek_guard_urgent(c, now);
	if (!g)
		g = ek_guard_light(c, now);
	if (g)
		return g;
	/* first turns are long, and everyone gets one: nobody starves for them */
	if (c->nr_unknown && c->mode.kind == EK_TURNS)
		return NULL;
	g = ek_guard_starving(c, now);
	if (!g || !ek_tokens(c, 0, now))
		return NULL;
	c->why = EK_WHY_GUARD;
	return g;
}

void ek_core_promote(struct ek_core *c, struct ek_core_group *g)
{
	if (!g->urgent++)
		list_add_tail(&g->urgent_node, &c->urgent);
}
