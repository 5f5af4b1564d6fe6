// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guard: service out of turn, which is debt.
 *
 * Policy: three kinds of group are served out of turn, in this order:
 *  1. A group with an urgent request: while the group is ahead by at most EK_URGENT_LEAD;
 *     beyond that, while more than half of the tokens are left. At most
 *     EK_URGENT_NS of its requests are in the device out of turn: all writes of a buffered
 *     writer become urgent, and must not fill the device.
 *  2. A light group, which uses less than EK_PASS_REFILL of its share: while its allowance
 *     (pass_left) lasts.
 *  3. A starving group, while there are tokens. A group starves if it waits for longer than
 *     starve_ms, and for longer than the device or its weight explain.
 * All service out of turn is charged to the group's virtual time, as debt. Tokens are device
 * time: guard_percent of the time that passes.
 * Invariant: a group gets at most its share and guard_percent of the device, however many
 * requests it sends and whichever of them are urgent. Urgent requests leave half of the
 * tokens to starving groups.
 * Source: iocost's debt for urgent I/O (Heo et al., ASPLOS 2022).
 */
#include "guard.h"
#include "budget.h"
#include "cost.h"
#include "order.h"
#include "turn.h"

/* Tokens of this time (ns) are kept: at most guard_percent of it. */
#define EK_TOKENS_NS	EK_SEC
/* The most groups with urgent requests that one pick checks. */
#define EK_URGENT_LOOKS	8
/*
 * Urgent requests of a group that cost this much (ns) may be in the device out of turn, and one
 * more. A read that arrives has to wait for them.
 */
#define EK_URGENT_NS	(10 * EK_MS)
/* The most that urgent requests may put a group ahead without tokens, in ns of the device. */
#define EK_URGENT_LEAD	(200 * EK_MS)
/*
 * A group does not starve while its wait is shorter than this many of the largest requests:
 * the device itself causes such a wait.
 */
#define EK_STARVE_REQUESTS	8
/*
 * A group does not starve while its wait exceeds the time in which its weight earns it one
 * request by less than one part in EK_STARVE_PART of that time.
 */
#define EK_STARVE_PART		4
/* The most groups that one pick checks for starvation. The next pick goes on with others. */
#define EK_STARVE_LOOKS		4
/* The largest allowance of a light group is turn_ms / EK_PASS_PART. */
#define EK_PASS_PART	4
/* The part of its share that refills a group's allowance. A group that uses less is light. */
#define EK_PASS_REFILL	EK_PERCENT(75)
/* The lowest value of a group's allowance is -EK_PASS_DEBT * turn_ms. */
#define EK_PASS_DEBT	2
/* A refill counts at most this time (ns) since the last one. */
#define EK_PASS_NS	(2 * EK_SEC)
/* The budget is short for this time (ns) after a light group was served out of turn. */
#define EK_SHORT_NS	EK_SEC

/* The most tokens that can be kept, in ns. */
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

/* Refill the tokens. Are there more than @keep ns of them? */
static bool ek_tokens(struct ek_core *c, s64 keep, u64 now)
{
	u64 since = min_t(u64, now - c->tokens_at, 100 * EK_SEC);

	c->tokens = min_t(s64, ek_tokens_most(c),
			  c->tokens + (s64)div_u64(since * c->t.guard_percent, 100));
	c->tokens_at = now;
	return c->tokens > keep;
}

/*
 * Did @g have a pause that ended less than turn_ms ago? A group that others only slow down
 * has no pauses.
 */
static bool ek_guard_pauses(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	return now - g->paused < c->t.turn_ms * EK_MS;
}

/*
 * @g had nothing queued, and now has a request or a submitter that waits. Refill the
 * allowance of @g by EK_PASS_REFILL of its share of the time since the last refill. @g is
 * light if its allowance is positive, its cost is known, and it does not own the turn.
 *
 * A turn makes the allowance negative, by up to EK_PASS_DEBT turns. So a group that had a
 * turn and then waits for its next turn does not look light.
 */
void ek_guard_refill(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	s64 turn = c->t.turn_ms * EK_MS;
	u64 part = ek_order_part(c, g, min_t(u64, now - min_t(u64, now, g->pass_at), EK_PASS_NS));

	g->pass_at = now;
	g->pass_left = clamp_t(s64, g->pass_left + (s64)ek_mul(part, EK_PASS_REFILL),
			       -EK_PASS_DEBT * turn, turn / EK_PASS_PART);
	if (!atomic_read(&g->in_flight)) {
		if (!ek_before(now, ek_order_pause_at(c, g)))
			g->paused = now;
		ek_order_back(g, now);
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
	/* @pass_node may still be in gate_passing, from when @g had no request */
	if (g->light && g->queued == 1)
		list_move_tail(&g->pass_node, &c->passing);
}

/* @g is no longer light: it competes like other groups. The caller places it. */
void ek_guard_heavy(struct ek_core *c, struct ek_core_group *g)
{
	g->light = false;
	list_del_init(&g->pass_node);
	ek_order_apart(c, g, false);
}

/* A request of @g, which is charged @charge ns, left its queue. @urgent: it was urgent. */
void ek_guard_leave(struct ek_core *c, struct ek_core_group *g, bool urgent, u64 charge, u64 now)
{
	bool served = now != g->served;

	if (c->starve_next == g)
		c->starve_next = NULL;
	g->served = now;
	g->pass_left -= charge;
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

/* May light @g go out of turn? Not if it is ahead by more than turn_ms of device time. */
bool ek_guard_may_pass(struct ek_core *c, struct ek_core_group *g)
{
	return !ek_before(c->vnow + ek_order_lead(c, c->t.turn_ms * EK_MS), g->vtime);
}

/* The wait in ns from which on a group may starve. */
static u64 ek_starves(struct ek_core *c)
{
	return max_t(u64, c->t.starve_ms * EK_MS, (u64)EK_STARVE_REQUESTS *
		     max_t(u32, c->most_request, c->most_latency));
}

/* A group that starves, or NULL. c->served has the group that waited longest first. */
static struct ek_core_group *ek_guard_starving(struct ek_core *c, u64 now)
{
	struct ek_core_group *g = c->starve_next;
	u64 most = ek_starves(c), round;
	int looks;

	g = g ?: list_first_entry_or_null(&c->served, struct ek_core_group, served_node);
	c->starve_next = NULL;
	for (looks = 0; g && now - g->served > most; looks++) {
		if (looks == EK_STARVE_LOOKS) {
			c->starve_next = g;
			break;
		}
		round = ek_order_round(c, g);
		if (now - g->served > round + round / EK_STARVE_PART)
			return g;
		g = list_is_last(&g->served_node, &c->served) ? NULL :
		    list_next_entry(g, served_node);
	}
	return NULL;
}

/*
 * May @g be served out of turn? Yes, if it is ahead by at most EK_URGENT_LEAD, or if more
 * than half of the tokens are left. c->why records which of the two.
 */
bool ek_guard_affords(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	c->why = EK_WHY_AHEAD;
	if (!ek_before(c->vnow + ek_order_lead(c, EK_URGENT_LEAD), g->vtime))
		return true;
	c->why = EK_WHY_GUARD;
	return ek_tokens(c, ek_tokens_most(c) / 2, now);
}

/* May @g have one more request in the device out of turn? */
static bool ek_guard_fits(struct ek_core *c, struct ek_core_group *g)
{
	u64 inside = max_t(s32, atomic_read(&g->out_of_turn), 0);

	return inside * ek_cost(c, g, g->op, g->bytes) < EK_URGENT_NS;
}

static struct ek_core_group *ek_guard_urgent(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;
	int looks = 0;

	/* a group that cannot afford it must not block the groups after it in the list */
	list_for_each_entry(g, &c->urgent, urgent_node) {
		if (ek_guard_fits(c, g) && ek_guard_affords(c, g, now))
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
	/* without pauses, it may look light only because others slow it down: let it compete */
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
	/* first turns are long, and each group gets one: a wait for them is no starvation */
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
