// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mode: turns or together.
 *
 * Policy: the better mode has the larger lambda: alone time served, divided by the time
 * that passed. Turns need no estimates, so the device begins with them, until each group
 * had one. Then TOGETHER is tried with larger and larger scales, and kept if it pays.
 * Turns are made longer if their ends cost much and longer ones serve more.
 * Invariant: modes are compared by what they served, never by a model of the device.
 * Source: Seastar's dispatched/completed ratio (scylladb/seastar, PR 1766).
 */
#include "order.h"
#include "budget.h"
#include "cost.h"
#include "turn.h"

/* An epoch is so long, and so many latencies and largest requests; a step is a part of it. */
#define EK_EPOCH_NS		(300 * EK_MS)
#define EK_EPOCH_REQUESTS	12
#define EK_STEP_NS		(60 * EK_MS)
#define EK_STEP_REQUESTS	4
/* Scales that are tried; a larger one has to serve so much more. */
#define EK_SCALE_FIRST		1
#define EK_SCALE_STEP		4
#define EK_SCALE_MOST		256
#define EK_STEP_GROWS		EK_PERCENT(103)
/* So long the device may be busy with what is inside. */
#define EK_INSIDE_NS		(400 * EK_MS)
/* Together is better by so much when it is tried. */
#define EK_BETTER		EK_PERCENT(105)
/* It is left when it is no better than this. */
#define EK_STAYS		EK_PERCENT(101)
/* Turns that serve less than this are made longer, at most so many times as long. */
#define EK_LOSS			EK_PERCENT(97)
#define EK_STRETCH_MOST		4
/* Twice as long has to serve so much more, shown after so many epochs. */
#define EK_STRETCH_BETTER	EK_PERCENT(101)
#define EK_STRETCH_EPOCHS	6
/* If they serve so much, they are made shorter again. */
#define EK_NO_ENDS		(EK_ONE - EK_ONE / 128)
/* Less than that is not lost at their ends: the costs are wrong. */
#define EK_NO_LOSS		EK_PERCENT(80)
/* TOGETHER is tried when turns serve so much, or the same twice, or after so many epochs. */
#define EK_SETTLED		EK_PERCENT(92)
#define EK_SETTLED_SAME		EK_PERCENT(3)
#define EK_SETTLED_EPOCHS	12
/* Between two trials; twice as long after each that fails. */
#define EK_GAP_NS		(8 * EK_SEC)
#define EK_GAP_MOST		(64 * EK_SEC)
/* A lambda that departs by so much, for so many epochs, shows that the device changed. */
#define EK_ODD			EK_PERCENT(12)
#define EK_ODD_EPOCHS		4
#define EK_CHANGE_NS		EK_SEC

static u64 ek_mode_served(struct ek_core *c)
{
	return c->sent_cost - atomic64_read(&c->in_flight_cost);
}

static void ek_mode_epoch(struct ek_core *c, u64 now)
{
	c->mode.epoch = now;
	c->mode.epoch_cost = ek_mode_served(c);
}

static void ek_mode_set(struct ek_core *c, u8 kind, u64 now)
{
	struct ek_mode *m = &c->mode;

	m->kind = kind;
	m->warm = true;
	m->best = 0;
	m->odd = 0;
	m->best_scale = EK_SCALE_FIRST;
	c->scale = EK_SCALE_FIRST;
	/* at first, nobody may lead those who have less than they were promised */
	c->promise = c->vnow + ek_order_lead(c, EK_SEC);
	ek_mode_epoch(c, now);
}

void ek_mode_init(struct ek_core *c, u64 now)
{
	struct ek_mode *m = &c->mode;

	/* turns serve at most 1; it is measured as soon as all rates are known */
	m->lambda[EK_TURNS] = EK_ONE;
	m->gap = EK_GAP_NS;
	m->stretch = 1;
	ek_mode_set(c, EK_TURNS, now);
}

static void ek_mode_stretch(struct ek_mode *m, u32 stretch)
{
	m->stretch_from = m->lambda[EK_TURNS];
	m->stretch = stretch;
	m->stretched = m->tried[EK_TURNS];
	m->stretch_pays = stretch == 1;
}

/* The device changed: what was learned in its former state is void. */
static void ek_mode_forget(struct ek_core *c, u64 now)
{
	struct ek_mode *m = &c->mode;
	struct ek_core_group *g;

	m->changed = now;
	m->change_gap = clamp_t(u64, 2 * m->change_gap, EK_CHANGE_NS, EK_GAP_MOST);
	m->tried[EK_TURNS] = 0;
	ek_mode_stretch(m, 1);
	while ((g = list_first_entry_or_null(&c->measured, struct ek_core_group, solo_node))) {
		ek_cost_known(c, g, false);
		list_move_tail(&g->solo_node, &c->unmeasured);
	}
	m->next_trial = now;
	ek_mode_set(c, EK_TURNS, now);
}

/* Does @lambda show that the device changed? */
static bool ek_mode_odd(struct ek_mode *m, u64 lambda, u64 now)
{
	u64 mean = m->lambda[m->kind];
	u64 off = lambda > mean ? lambda - mean : mean - lambda;

	if (m->tried[m->kind] < 2)
		return false;
	if (off <= ek_mul(mean, EK_ODD))
		m->odd = 0;
	else if (lambda > mean)
		m->odd = max_t(s32, m->odd, 0) + 1;
	else
		m->odd = min_t(s32, m->odd, 0) - 1;
	return (m->odd >= EK_ODD_EPOCHS || m->odd <= -EK_ODD_EPOCHS) &&
	       now - m->changed > m->change_gap;
}

/*
 * Is it known what turns serve? It is 1, less what their ends cost. At the start of a
 * load it is less: rates are guesses, and submitters prepare their first requests.
 */
static bool ek_mode_settled(struct ek_mode *m)
{
	return m->lambda[EK_TURNS] > EK_SETTLED || m->same ||
	       m->tried[EK_TURNS] >= EK_SETTLED_EPOCHS;
}

/*
 * Do the ends of turns cost too much, or next to nothing? What turns do not serve may be
 * lost elsewhere, as by garbage collection: longer turns are kept if they serve more.
 */
static void ek_mode_ends(struct ek_mode *m, u64 now)
{
	u64 lambda = m->lambda[EK_TURNS];

	if (m->stretch > 1 && lambda > EK_NO_ENDS) {
		ek_mode_stretch(m, m->stretch / 2);
	} else if (m->tried[EK_TURNS] - m->stretched < EK_STRETCH_EPOCHS) {
		return;
	} else if (!m->stretch_pays && lambda < ek_mul(m->stretch_from, EK_STRETCH_BETTER)) {
		m->stretch_gap = min_t(u64, max_t(u64, EK_GAP_NS, 2 * m->stretch_gap), EK_GAP_MOST);
		m->stretch_next = now + m->stretch_gap;
		ek_mode_stretch(m, m->stretch / 2);
	} else {
		m->stretch_pays = true;
		if (lambda < EK_LOSS && lambda > EK_NO_LOSS && m->stretch < EK_STRETCH_MOST &&
		    now >= m->stretch_next)
			ek_mode_stretch(m, 2 * m->stretch);
	}
}

static void ek_mode_turns(struct ek_core *c, u64 now)
{
	struct ek_mode *m = &c->mode;

	ek_mode_ends(m, now);
	if (c->nr_active < 2 || now < m->next_trial || !ek_mode_settled(m))
		return;
	m->tried[EK_TOGETHER] = 0;
	ek_mode_set(c, EK_TOGETHER, now);
}

static void ek_mode_together(struct ek_core *c, u64 wall, u64 now)
{
	struct ek_mode *m = &c->mode;
	u64 need = m->tried[EK_TOGETHER] > 1 ? EK_STAYS : EK_BETTER;

	/* an epoch may count a request too much at either end */
	if (m->tried[EK_TOGETHER] == 1)
		need += ek_ratio(c->most_request, wall);

	if (m->lambda[EK_TOGETHER] >= ek_mul(m->lambda[EK_TURNS], need)) {
		m->gap = EK_GAP_NS;
		return;
	}
	m->next_trial = now + m->gap;
	m->gap = min_t(u64, 2 * m->gap, EK_GAP_MOST);
	ek_mode_set(c, EK_TURNS, now);
}

/* An epoch is over: @lambda is what it served. */
static void ek_mode_over(struct ek_core *c, u64 lambda, u64 wall, u64 now)
{
	struct ek_mode *m = &c->mode;
	u64 mean = m->lambda[m->kind];

	if (m->kind == EK_TOGETHER && ek_mode_odd(m, lambda, now)) {
		ek_mode_forget(c, now);
		return;
	}
	m->same = (lambda > m->last ? lambda - m->last : m->last - lambda) < EK_SETTLED_SAME;
	m->last = lambda;
	m->lambda[m->kind] = m->tried[m->kind] ? (3 * mean + lambda) / 4 : lambda;
	/* turns that once served more can do so: what came before was a pause */
	if (m->kind == EK_TURNS && lambda > mean && lambda <= EK_ONE)
		m->lambda[m->kind] = lambda;
	m->tried[m->kind]++;
	ek_mode_epoch(c, now);
	if (m->kind == EK_TURNS)
		ek_mode_turns(c, now);
	else
		ek_mode_together(c, wall, now);
}

/*
 * TOGETHER has just begun: a step served @lambda. Try the next scale, unless the
 * device would be busy with it for too long; in the end, take the best.
 */
static bool ek_mode_grows(struct ek_core *c, u64 lambda)
{
	u64 two = 2 * (u64)max_t(u32, c->most_request, c->most_latency);
	struct ek_mode *m = &c->mode;

	if (lambda > ek_mul(m->best, EK_STEP_GROWS)) {
		m->best = lambda;
		m->best_scale = c->scale;
	}
	c->scale *= EK_SCALE_STEP;
	if (c->scale <= EK_SCALE_MOST &&
	    ek_ratio(two * c->scale, max_t(u64, lambda, EK_ONE)) <= EK_INSIDE_NS)
		return true;
	c->scale = m->best_scale;
	return false;
}

/* Is a step or an epoch over? */
void ek_mode_step(struct ek_core *c, u64 now)
{
	struct ek_mode *m = &c->mode;
	u64 most = max_t(u32, c->most_latency, c->most_request);
	u64 wall = now - m->epoch, lambda, need;

	/* turns are compared once they have measured everyone; a solo is no part of an epoch */
	if ((m->kind == EK_TURNS && c->nr_unknown) || (m->kind == EK_TOGETHER && c->turn.g)) {
		ek_mode_epoch(c, now);
		return;
	}
	need = m->warm ? max_t(u64, EK_STEP_NS, EK_STEP_REQUESTS * most) :
			 max_t(u64, EK_EPOCH_NS, EK_EPOCH_REQUESTS * most);
	if (wall < need)
		return;
	lambda = ek_ratio(ek_mode_served(c) - m->epoch_cost, wall);
	ek_budget_epoch(c);
	if (m->warm) {
		m->warm = m->kind == EK_TOGETHER && ek_mode_grows(c, lambda);
		ek_mode_epoch(c, now);
	} else {
		ek_mode_over(c, lambda, wall, now);
	}
}
