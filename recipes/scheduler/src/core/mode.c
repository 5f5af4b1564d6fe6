// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mode: turns or together.
 *
 * Policy: the better mode has the larger lambda. Lambda is the cost of all requests served,
 * in ns of device time, divided by the time that passed.
 *  - The core begins in mode TURNS, which needs no estimates of costs.
 *  - After each group had its first turn, the core tries TOGETHER with larger and larger
 *    scales. It keeps TOGETHER if lambda is larger than in TURNS.
 *  - The core makes turns longer if the ends of turns cost much. It keeps longer turns if
 *    they serve more.
 * An epoch is a period for which lambda is measured. After a change of mode, steps come
 * before the first epoch: shorter periods, whose lambda does not enter the mode's mean.
 * Invariant: the core compares modes by what they served, never by a model of the device.
 * Source: Seastar's dispatched/completed ratio (scylladb/seastar, PR 1766).
 */
#include "mode.h"
#include "budget.h"
#include "cost.h"
#include "order.h"
#include "turn.h"

/*
 * An epoch lasts at least EK_EPOCH_NS, and at least EK_EPOCH_REQUESTS times the cost of the
 * largest request, or the largest least latency if that is more. The same holds for a step.
 */
#define EK_EPOCH_NS		(300 * EK_MS)
#define EK_EPOCH_REQUESTS	12
#define EK_STEP_NS		(60 * EK_MS)
#define EK_STEP_REQUESTS	4
/* The scales that a trial of TOGETHER tests, one a step: the first, the factor, the last. */
#define EK_SCALE_FIRST		1
#define EK_SCALE_STEP		4
#define EK_SCALE_MOST		256
/* A larger scale replaces the best one so far if its lambda is above this part of the best. */
#define EK_STEP_GROWS		EK_PERCENT(103)
/* The longest time (ns) that the device may need for all that a scale lets into it. */
#define EK_INSIDE_NS		(400 * EK_MS)
/* A trial of TOGETHER succeeds if its lambda is at least this part of the lambda of TURNS. */
#define EK_BETTER		EK_PERCENT(105)
/* After a successful trial, TOGETHER ends when its lambda is below this part of it. */
#define EK_STAYS		EK_PERCENT(101)
/* If the lambda of TURNS is below this, the ends of turns cost much: turns become longer. */
#define EK_LOSS			EK_PERCENT(97)
/* The largest factor by which turns become longer. */
#define EK_STRETCH_MOST		4
/*
 * Turns stay twice as long only if lambda rises to this part of its earlier value. The core
 * compares after EK_STRETCH_EPOCHS epochs.
 */
#define EK_STRETCH_BETTER	EK_PERCENT(101)
#define EK_STRETCH_EPOCHS	6
/* If the lambda of TURNS is above this, the ends cost next to nothing: turns become shorter. */
#define EK_NO_ENDS		(EK_ONE - EK_ONE / 128)
/* If the lambda of TURNS is not above this, the costs are wrong: the ends are not the reason. */
#define EK_NO_LOSS		EK_PERCENT(80)
/*
 * The lambda of TURNS counts as known (settled), so that TOGETHER may be tried: if the last one
 * differs from 1 by less than EK_SETTLED, or if the last two differ from each other by less
 * than EK_SETTLED_SAME, or after EK_SETTLED_EPOCHS epochs. If groups read while writes have
 * hidden time, two equal values are chance, and do not count. But not before EK_SETTLED_LEAST
 * epochs: until then, each group has had few turns, and one turn alone may be far off. For
 * example, a submitter that begins prepares its first requests slowly. TOGETHER measures each
 * group too rarely to correct this.
 */
#define EK_SETTLED_LEAST	4
#define EK_SETTLED		EK_PERCENT(8)
#define EK_SETTLED_SAME		EK_PERCENT(3)
#define EK_SETTLED_EPOCHS	12
/*
 * Time from a failed trial of TOGETHER to the next trial, in ns. Each failure multiplies it by
 * 2, up to EK_GAP_MOST.
 */
#define EK_GAP_NS		(8 * EK_SEC)
#define EK_GAP_MOST		(64 * EK_SEC)
/*
 * The device has changed if, in mode TOGETHER, lambda is more than EK_ODD of its mean away
 * from the mean, in the same direction, for EK_ODD_EPOCHS epochs in a row.
 */
#define EK_ODD			EK_PERCENT(12)
#define EK_ODD_EPOCHS		4
/* Least time between two such changes, in ns. Each multiplies it by 2, up to EK_GAP_MOST. */
#define EK_CHANGE_NS		EK_SEC

/*
 * The cost of all requests completed since the start, in ns. Hidden time is no part of it: if
 * garbage is collected, longer turns may help, and a low lambda shows that.
 */
static u64 ek_mode_served(struct ek_core *c)
{
	return c->sent_cost - atomic64_read(&c->in_flight_cost);
}

/* A step or an epoch begins. */
static void ek_mode_epoch(struct ek_core *c, u64 now)
{
	c->mode.epoch = now;
	c->mode.epoch_idle = 0;
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
	/*
	 * The promise begins at its upper bound, see ek_order_promise(). So at first every
	 * group that others lead counts as one that has less than it was promised.
	 */
	c->promise = c->vnow + ek_order_lead(c, EK_SEC);
	ek_mode_epoch(c, now);
}

void ek_mode_init(struct ek_core *c, u64 now)
{
	struct ek_mode *m = &c->mode;

	/* the largest value possible, until epochs of TURNS measure it */
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

/* The device changed: go back to TURNS, and measure all groups again. */
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

static u64 ek_mode_apart(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/* Does @lambda show that the device changed? */
static bool ek_mode_odd(struct ek_mode *m, u64 lambda, u64 now)
{
	u64 mean = m->lambda[m->kind];

	if (m->tried[m->kind] < 2)
		return false;
	if (ek_mode_apart(lambda, mean) <= ek_mul(mean, EK_ODD))
		m->odd = 0;
	else if (lambda > mean)
		m->odd = max_t(s32, m->odd, 0) + 1;
	else
		m->odd = min_t(s32, m->odd, 0) - 1;
	return (m->odd >= EK_ODD_EPOCHS || m->odd <= -EK_ODD_EPOCHS) &&
	       now - m->changed > m->change_gap;
}

/* Does a measured group read? */
static bool ek_mode_reads(struct ek_core *c)
{
	struct ek_core_group *g;

	list_for_each_entry(g, &c->measured, solo_node)
		if (g->op == EK_OP_READ)
			return true;
	return false;
}

/*
 * Is the lambda of TURNS known well enough? It is 1, less what the ends of turns cost. When a
 * load has just begun, the measured value is wrong: rates are still guesses, and submitters
 * prepare their first requests.
 */
static bool ek_mode_settled(struct ek_core *c, struct ek_mode *m)
{
	if (m->tried[EK_TURNS] < EK_SETTLED_LEAST)
		return false;
	/* a reader's rate may still be wrong, because garbage is collected in its turns */
	return ek_mode_apart(m->last, EK_ONE) < EK_SETTLED ||
	       (m->same && !(c->hidden.rate && ek_mode_reads(c))) ||
	       m->tried[EK_TURNS] >= EK_SETTLED_EPOCHS;
}

/*
 * Make turns longer if their ends cost much, and shorter if their ends cost next to nothing.
 * A low lambda may have another reason, such as garbage collection. So longer turns are kept
 * only if they serve more.
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

/* An epoch of TURNS is over: adapt the length of turns, and perhaps try TOGETHER. */
static void ek_mode_turns(struct ek_core *c, u64 now)
{
	struct ek_mode *m = &c->mode;

	ek_mode_ends(m, now);
	if (now < m->next_trial || !ek_mode_settled(c, m))
		return;
	m->tried[EK_TOGETHER] = 0;
	ek_mode_set(c, EK_TOGETHER, now);
}

/* An epoch of TOGETHER, of @wall ns, is over: keep TOGETHER, or return to TURNS. */
static void ek_mode_together(struct ek_core *c, u64 wall, u64 now)
{
	struct ek_mode *m = &c->mode;
	u64 need = m->tried[EK_TOGETHER] > 1 ? EK_STAYS : EK_BETTER;

	/* the first epoch decides alone, and its count may be one request too high */
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

/* An epoch of @wall ns is over. Its lambda is @lambda. */
static void ek_mode_over(struct ek_core *c, u64 lambda, u64 wall, u64 now)
{
	struct ek_mode *m = &c->mode;
	u64 mean = m->lambda[m->kind];

	if (m->kind == EK_TOGETHER && ek_mode_odd(m, lambda, now)) {
		ek_mode_forget(c, now);
		return;
	}
	m->same = m->tried[m->kind] && ek_mode_apart(lambda, m->last) < EK_SETTLED_SAME;
	m->last = lambda;
	m->lambda[m->kind] = m->tried[m->kind] ? (3 * mean + lambda) / 4 : lambda;
	/* the highest lambda of TURNS is what turns can serve: the lower mean includes pauses */
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
 * A trial of TOGETHER: the step with the present scale is over, its lambda is @lambda. Set
 * the next scale and return true. If the next scale is too large, or would let more than
 * EK_INSIDE_NS of work into the device, set the best scale and return false.
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

/*
 * A request arrives. If no group had a request since the last completion, no mode could have
 * served anything: the epoch does not count this time.
 */
void ek_mode_arrival(struct ek_core *c, u64 now)
{
	u64 since = max_t(u64, READ_ONCE(c->last_done), c->mode.epoch);

	if (!c->nr_queued && !c->nr_waiting && !atomic_read(&c->in_flight) && now > since)
		c->mode.epoch_idle += now - since;
}

/* If the present step or epoch is over, evaluate it and begin the next. */
void ek_mode_step(struct ek_core *c, u64 now)
{
	struct ek_mode *m = &c->mode;
	u64 most = max_t(u32, c->most_latency, c->most_request);
	u64 wall = now - m->epoch - m->epoch_idle, lambda, need;

	/*
	 * Epochs of TURNS begin when all groups are measured. Epochs of TOGETHER begin
	 * again after each solo, because a solo is no part of an epoch.
	 */
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
	/* what one group alone is served tells nothing about either mode */
	if (c->nr_active < 2) {
		ek_mode_epoch(c, now);
	} else if (m->warm) {
		m->warm = m->kind == EK_TOGETHER && ek_mode_grows(c, lambda);
		ek_mode_epoch(c, now);
	} else {
		ek_mode_over(c, lambda, wall, now);
	}
}
