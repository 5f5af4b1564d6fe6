// SPDX-License-Identifier: GPL-2.0-only
/*
 * Order: which group is next.
 *
 * Policy: service of a group adds cost / share to its virtual time. The group with the
 * least virtual time is next.
 *  - TURNS: this group has the device alone for a turn. With more than EK_MANY active
 *    groups, turn.c chooses the group whose next request is due first instead.
 *  - TOGETHER: all groups have requests in the device. Dispatch waits for a group that
 *    has nothing to send only while the group has less than it was promised: its share of
 *    the time that passed.
 * A group that pauses for a short time is still owed what it lacked before the pause.
 * Invariant: other groups do not lead a group that has less than it was promised by more
 * than a turn, or TOGETHER by more than lead_ms and one request.
 * Source: start-time fair queueing (Goyal, Vin, Cheng, 1996), whose bound is in ek_math.h;
 * for many groups WF2Q (Bennett, Zhang, 1996).
 */
#include "order.h"
#include "budget.h"
#include "cost.h"
#include "hidden.h"
#include "turn.h"

/* The most debt that a group has left after a pause, in ns of its own service. */
#define EK_DEBT_MAX		EK_SEC
/* After a pause of this length (ns) or longer, a group is owed nothing. */
#define EK_OWED_NS		EK_SEC
/* The most that a group may be owed after a pause, in ns of service of the whole device. */
#define EK_OWED_MOST		(500 * EK_MS)
/*
 * Every EK_IDLE_NS, at most EK_IDLE_LOOKS of the groups without queued requests are checked
 * for whether they are still active.
 */
#define EK_IDLE_LOOKS		4
#define EK_IDLE_NS		(500 * EK_US)
/*
 * A turn waits for an owner without requests for 1 / EK_IDLE_BUSY of the time that the
 * owner was busy before. It waits for at least await_us / EK_IDLE_LEAST, and for at most
 * await_us.
 */
#define EK_IDLE_BUSY		4
#define EK_IDLE_LEAST		10
/*
 * A group that pauses regularly is waited for longer: for EK_AWAY_WAIT times its mean pause,
 * if this is at most 1 / EK_AWAY_BUSY of the time that the group was busy before. The mean is
 * a moving one over about EK_AWAY_MEAN pauses. A pause counts as at most EK_AWAY_MOST (ns).
 */
#define EK_AWAY_WAIT		2
#define EK_AWAY_BUSY		2
#define EK_AWAY_MEAN		4
#define EK_AWAY_MOST		(100 * EK_MS)
/* The most groups that ek_order_soonest() compares: it bounds the time under the lock. */
#define EK_SOONEST_LOOKS	256
/*
 * The promise stays within this service of the device (ns), or within the largest request,
 * of the least virtual time. So a promise that was kept or broken long ago does not count.
 */
#define EK_PROMISE_NS		(50 * EK_MS)

static struct ek_core_group *ek_rb_group(struct rb_node *n)
{
	return n ? rb_entry(n, struct ek_core_group, rb) : NULL;
}

static bool ek_rb_before(struct rb_node *a, const struct rb_node *b)
{
	return ek_before(rb_entry(a, struct ek_core_group, rb)->vtime,
			 rb_entry(b, struct ek_core_group, rb)->vtime);
}

static u32 ek_order_share(struct ek_core *c, struct ek_core_group *g)
{
	if (g->active && g->share_generation != c->top.generation) {
		g->share = ek_node_share(&g->node);
		g->share_generation = c->top.generation;
	}
	return g->share;
}

/* The virtual time that @ns of service spans for @g. @ns must be below 2^36. */
u64 ek_order_span(struct ek_core *c, struct ek_core_group *g, u64 ns)
{
	return div_u64(ns << (12 + EK_SHARE_SHIFT), ek_order_share(c, g));
}

/* The virtual time that passes while the device serves all active groups for @ns. */
u64 ek_order_lead(struct ek_core *c, u64 ns)
{
	return div64_u64(ns << 12, max_t(u64, c->top.sum, 1));
}

/* @ns times the share of @g, divided by the sum of all shares. @ns must be at most 4 s. */
u64 ek_order_part(struct ek_core *c, struct ek_core_group *g, u64 ns)
{
	return div64_u64((ns >> 6) * (ek_order_share(c, g) >> 2),
			 max_t(u64, c->top.sum << (EK_SHARE_SHIFT - 8), 1));
}

/* The time (ns, at most 2^52) in which the share of @g earns @g one request. */
u64 ek_order_round(struct ek_core *c, struct ek_core_group *g)
{
	u64 span = ek_order_span(c, g, ek_hidden_price(c, g));

	return min_t(u64, span, U64_MAX / max_t(u64, c->top.sum, 1)) * c->top.sum >> 12;
}

void ek_order_unplace(struct ek_core *c, struct ek_core_group *g)
{
	if (g->placed)
		rb_erase_cached(&g->rb, g->ready ? &c->ready : &c->awaited);
	g->placed = false;
}

/*
 * If @apart, @g gets no place in a tree from now on. Otherwise @g competes again, with a
 * debt of at most EK_DEBT_MAX. The caller places @g.
 */
void ek_order_apart(struct ek_core *c, struct ek_core_group *g, bool apart)
{
	if (g->apart == apart)
		return;
	g->apart = apart;
	if (g->active && !g->known)
		c->nr_unknown += apart ? -1 : 1;
	if (!apart)
		g->vtime = ek_bounded(g->vtime, c->vnow, ek_order_span(c, g, EK_DEBT_MAX));
}

/*
 * Put @g into the tree where it belongs (ready or awaited), at its virtual time. Two kinds
 * of group are in neither tree: the owner of the turn, and a light group that pauses.
 */
void ek_order_place(struct ek_core *c, struct ek_core_group *g)
{
	bool full;
	u32 limit;

	if (g->queued)
		list_del_init(&g->idle);
	else if (list_empty(&g->idle))
		list_add_tail(&g->idle, &c->idle);
	if (c->turn.g == g)
		return;
	if (g->apart) {
		ek_order_unplace(c, g);
		return;
	}
	limit = ek_budget_limit(c, g);
	full = (u32)atomic_read(&g->in_flight) >= limit;
	if (g->queued && full) {
		/*
		 * Ask for a release: the next completion of @g adds it to c->released, and
		 * ek_order_collect() places it again. If a completion made room meanwhile,
		 * and has not seen the request, withdraw it.
		 */
		atomic_cmpxchg(&g->capped, 0, 1);
		/*
		 * Pairs with ek_core_complete(). Either it sees @capped, or in_flight shows
		 * here that the request completed.
		 */
		smp_mb();
		full = (u32)atomic_read(&g->in_flight) >= limit ||
		       atomic_cmpxchg(&g->capped, 1, 0) != 1;
	}
	ek_order_unplace(c, g);
	g->ready = g->queued && !full;
	rb_add_cached(&g->rb, g->ready ? &c->ready : &c->awaited, ek_rb_before);
	g->placed = true;
}

/*
 * @g becomes active again. During its pause, an ideal device served the other groups: @g
 * loses its share of that time. What @g lacked before the pause, it still gets, if the pause
 * was shorter than EK_OWED_NS, such as one between two I/Os of 100 MB. What @g owed before
 * the pause, it still owes, up to EK_DEBT_MAX.
 */
static void ek_order_return(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	u64 away = now - min_t(u64, now, g->left), least = c->vnow;

	if (away < EK_OWED_NS && ek_before(g->vtime + ek_order_lead(c, away), least))
		least = ek_later(g->vtime + ek_order_lead(c, away),
				 least - ek_order_lead(c, EK_OWED_MOST));
	g->vtime = ek_bounded(g->vtime, least, ek_order_span(c, g, EK_DEBT_MAX));
}

void ek_order_activate(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	if (g->active)
		return;
	g->active = true;
	c->newcomer |= !g->sent;
	c->nr_active++;
	c->nr_unknown += !g->known && !g->apart;
	ek_node_join(&c->top, &g->node);
	g->share = ek_node_share(&g->node);
	g->share_generation = c->top.generation;
	ek_order_return(c, g, now);
	list_add_tail(&g->solo_node, g->known ? &c->measured : &c->unmeasured);
	ek_order_place(c, g);
}

/* When the last request of @g completed, or the time when it was last served if this is later. */
u64 ek_order_last(struct ek_core_group *g)
{
	return max_t(u64, READ_ONCE(g->last_done), g->served);
}

void ek_order_deactivate(struct ek_core *c, struct ek_core_group *g)
{
	/* it pauses before its first turn: its least latency is the best guess of its cost */
	if (!g->known && g->sent) {
		ek_cost_first(c, g);
		ek_cost_known(c, g, true);
		g->guessed = true;
	}
	ek_order_unplace(c, g);
	g->left = ek_order_last(g);
	list_del_init(&g->idle);
	list_del_init(&g->solo_node);
	ek_cost_alike(c, g, false);
	g->active = false;
	c->nr_active--;
	c->nr_unknown -= !g->known && !g->apart;
	ek_node_leave(&c->top, &g->node);
}

/* @g, which had no request, has one again: learn how long it was without one. */
void ek_order_back(struct ek_core_group *g, u64 now)
{
	u64 last = ek_order_last(g), away = now - min_t(u64, now, last);

	/* after its submitter, its request arrives: count the pause only once */
	if (!g->sent || !ek_before(g->busy, last))
		return;
	away = min_t(u64, away, EK_AWAY_MOST);
	g->away = g->away ? g->away - g->away / EK_AWAY_MEAN + away / EK_AWAY_MEAN : away;
}

/* When @g, which has no request, last had one. @busy: how long it was busy before (ns). */
static u64 ek_order_was_busy(struct ek_core_group *g, u64 *busy)
{
	u64 last = ek_order_last(g);

	*busy = last - min_t(u64, last, g->busy);
	return last;
}

/*
 * The time from which on @g, which has no request, has a pause: it has been without one for
 * longer than a part of the time for which it was busy before. So a task that reads one small
 * block after the other is given a short wait, and a task that prepares 100 MB a longer one.
 */
u64 ek_order_pause_at(struct ek_core *c, struct ek_core_group *g)
{
	u64 busy, last = ek_order_was_busy(g, &busy), most = c->t.await_us * EK_US;

	return last + clamp_t(u64, busy / EK_IDLE_BUSY, most / EK_IDLE_LEAST, most);
}

/*
 * The time until which a turn waits for its owner @g, which has no request: for a group that
 * pauses regularly, beyond the start of its pause.
 */
u64 ek_order_idle_until(struct ek_core *c, struct ek_core_group *g)
{
	u64 busy, last = ek_order_was_busy(g, &busy), until = ek_order_pause_at(c, g);

	if (c->t.await_us && EK_AWAY_WAIT * g->away <= busy / EK_AWAY_BUSY)
		until = max_t(u64, until, last + EK_AWAY_WAIT * g->away);
	return until;
}

/* Does @g have a request or a submitter, or is it about to send its next request? */
bool ek_order_expected(struct ek_core *c, struct ek_core_group *g, u64 now)
{
	return g->queued || g->waiting || g->granted || atomic_read(&g->in_flight) ||
	       (s64)(now - ek_order_last(g)) < (s64)(c->t.await_us * EK_US) ||
	       ek_before(now, ek_order_idle_until(c, g));
}

/* Deactivate groups that have been without a request for too long, a few at a time. */
static void ek_order_expire(struct ek_core *c, u64 now)
{
	struct ek_core_group *g;
	int i;

	c->idle_at = now;
	for (i = 0; i < EK_IDLE_LOOKS; i++) {
		g = list_first_entry_or_null(&c->idle, struct ek_core_group, idle);
		if (!g)
			break;
		if (ek_order_expected(c, g, now) || g == c->turn.g)
			list_move_tail(&g->idle, &c->idle);
		else
			ek_order_deactivate(c, g);
	}
}

/*
 * Bring the trees up to date: place groups that are below their limit again, deactivate
 * groups that are awaited no longer, and advance the core's virtual time.
 */
void ek_order_collect(struct ek_core *c, u64 now)
{
	struct llist_node *n, *next;
	struct ek_core_group *g;

	if (!llist_empty(&c->released)) {
		for (n = llist_del_all(&c->released); n; n = next) {
			next = n->next;
			g = container_of(n, struct ek_core_group, released);
			atomic_set(&g->capped, 0);
			if (g->active)
				ek_order_place(c, g);
		}
	}
	if (now - c->idle_at > EK_IDLE_NS)
		ek_order_expire(c, now);
	while ((g = ek_rb_group(rb_first_cached(&c->awaited))) &&
	       !ek_order_expected(c, g, now))
		ek_order_deactivate(c, g);
	g = ek_order_least(c);
	if (g)
		c->vnow = ek_later(c->vnow, g->vtime);
}

/* Charge @g for @ns, for requests of ek_core_quick(), and for what completions added. */
void ek_order_charge(struct ek_core *c, struct ek_core_group *g, u64 ns)
{
	s64 debt = atomic64_read(&g->debt) ? atomic64_xchg(&g->debt, 0) : 0;
	s64 due = (s64)(ns + g->unpaid) + debt;

	/* a refund may exceed this charge: the rest of the refund reduces the next charge */
	if (due < 0)
		atomic64_add(due, &g->debt);
	ns = clamp_t(s64, due, 0, 16 * EK_SEC);
	g->unpaid = 0;
	g->charged += ns;
	g->vtime += ek_order_span(c, g, ns);
}

/* @g was charged @ns too little (negative: too much). @g must be in no tree. */
void ek_order_adjust(struct ek_core *c, struct ek_core_group *g, s64 ns)
{
	ns = clamp_t(s64, ns, -(s64)(16 * EK_SEC), 16 * EK_SEC);
	g->charged += ns;
	g->pass_left -= ns;
	if (ns < 0)
		g->vtime -= ek_order_span(c, g, -ns);
	else
		g->vtime += ek_order_span(c, g, ns);
}

/* Of the groups that can send a request now, the one with the least virtual time, or NULL. */
struct ek_core_group *ek_order_first(struct ek_core *c)
{
	return ek_rb_group(rb_first_cached(&c->ready));
}

/* Of all groups that compete, the one with the least virtual time, or NULL. */
struct ek_core_group *ek_order_least(struct ek_core *c)
{
	struct ek_core_group *a = ek_rb_group(rb_first_cached(&c->ready));
	struct ek_core_group *b = ek_rb_group(rb_first_cached(&c->awaited));

	if (!a || (b && ek_before(b->vtime, a->vtime)))
		a = b;
	b = c->turn.g;
	return !a || (b && ek_before(b->vtime, a->vtime)) ? b : a;
}

/*
 * Among the groups that can send a request now and whose virtual time is at most @until:
 * the group whose next request is due first, or NULL. A request is due at the virtual time
 * that the group will have after it.
 */
struct ek_core_group *ek_order_soonest(struct ek_core *c, u64 until)
{
	struct rb_node *n = rb_first_cached(&c->ready);
	struct ek_core_group *g, *best = NULL;
	u64 due, least = 0;
	int looks;

	for (looks = 0; n && looks < EK_SOONEST_LOOKS; n = rb_next(n), looks++) {
		g = ek_rb_group(n);
		if (ek_before(until, g->vtime))
			break;
		due = g->vtime + ek_order_span(c, g, ek_hidden_price(c, g));
		if (!best || ek_before(due, least)) {
			best = g;
			least = due;
		}
	}
	return best;
}

/* Does a submitter of @g wait for a tag that no completion will free? */
static bool ek_order_stuck(struct ek_core *c, struct ek_core_group *g)
{
	return !g->queued && g->waiting && !atomic_read(&c->in_flight);
}

/* Pick no group now. The caller must ask again after at most await_us. */
struct ek_core_group *ek_order_hold(struct ek_core *c, u64 now, u64 *wake)
{
	c->nr_holds++;
	*wake = min_t(u64, *wake, now + c->t.await_us * EK_US);
	return NULL;
}

/*
 * The virtual time that every group is promised by the moment when the device has served
 * all that is in flight and @cost ns more. The promise advances with time, as on an ideal
 * device that serves all active groups at once. It stays near c->vnow: see EK_PROMISE_NS.
 */
static u64 ek_order_promise(struct ek_core *c, u32 cost, u64 now)
{
	u64 slack = ek_order_lead(c, max_t(u64, EK_PROMISE_NS, c->most_request));
	u64 inside = max_t(s64, atomic64_read(&c->in_flight_cost), 0) + cost;
	u64 lambda = max_t(u64, c->mode.lambda[EK_TOGETHER], EK_ONE);

	c->promise += ek_order_lead(c, min_t(u64, now - c->promise_at, EK_SEC));
	c->promise_at = now;
	if (ek_before(c->promise, c->vnow - slack))
		c->promise = c->vnow - slack;
	if (ek_before(c->vnow + slack, c->promise))
		c->promise = c->vnow + slack;
	return c->promise + ek_order_lead(c, ek_ratio(inside, lambda));
}

/*
 * TOGETHER: @least has the least virtual time, and @g the least of those that can send now.
 * Must @g wait for @least? Only if @least has less than it was promised, and @g leads it by
 * more than lead_ms.
 */
static bool ek_order_owed(struct ek_core *c, struct ek_core_group *least,
			  struct ek_core_group *g, u64 now)
{
	u64 promise = ek_order_promise(c, ek_cost(c, g, g->op, g->bytes), now);

	return ek_before(least->vtime, g->vtime) && ek_before(least->vtime, promise) &&
	       g->vtime - least->vtime > ek_order_lead(c, c->t.lead_ms * EK_MS) &&
	       !ek_order_stuck(c, least);
}

/* TOGETHER: the group to serve next, or NULL if none may send now. */
struct ek_core_group *ek_order_pick(struct ek_core *c, u64 now, u64 *wake)
{
	struct ek_core_group *least = ek_order_least(c), *g = ek_order_first(c);

	c->why = EK_WHY_ORDER;
	if (!g)
		return NULL;
	if (ek_order_owed(c, least, g, now) || !ek_budget_room(c, g, now))
		return ek_order_hold(c, now, wake);
	return g;
}
