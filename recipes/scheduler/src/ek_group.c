// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which group is next: start-time fair queueing over cgroups, with a short
 * wait for a group that is owed service and is about to ask for it.
 *
 * Active groups are in one of two trees by virtual time: @backlogged, those
 * with requests here, and @awaited, those without but with a request in the
 * device, a submitter at the gate, or a habit of coming back at once. When an
 * awaited group is behind the first backlogged one, serving the other would
 * give its turn away: a synchronous reader at depth 1 is in that state between
 * any two reads, and a group whose submitter waits for a tag is in it always.
 */
#include "ek.h"
#include "ek_trace.h"

/* sync requests served in a row while an async one of the same group waits */
#define EK_SYNC_STREAK	4

/* what is added to twice the mean think time, for its spread; us */
#define EK_THINK_SLACK_US	100

/* so many requests that move no data may be in the device: it does little else then */
#define EK_ERASES	2

/* how long, in ms, data wait here that everybody's flushes wait for */
#define EK_FLUSH_SMALL_MS	20U
#define EK_FLUSH_LARGE_MS	100U

void ek_group_init(struct ek_group *g, struct ek_data *ek,
		   struct ek_group *parent)
{
	int i;

	g->ek = ek;
	if (parent) {
		ek_group_get(parent);
		g->share_node.parent = &parent->share_node;
	}
	g->vtime = READ_ONCE(ek->vnow);
	/* not that in force: the first use computes it */
	g->share_generation = READ_ONCE(ek->top.generation) - 1;
	g->share = EK_SHARE_ONE;
	RB_CLEAR_NODE(&g->node);
	for (i = 0; i < EK_CLASSES; i++)
		INIT_LIST_HEAD(&g->fifo[i]);
	INIT_LIST_HEAD(&g->waiters);
	INIT_LIST_HEAD(&g->fixed_node);
	INIT_LIST_HEAD(&g->fixed_ready);
	INIT_LIST_HEAD(&g->gate);
}

static struct ek_group *ek_node_group(struct rb_node *node)
{
	return rb_entry_safe(node, struct ek_group, node);
}

static bool ek_node_before(struct rb_node *a, const struct rb_node *b)
{
	return ek_before(rb_entry(a, struct ek_group, node)->vtime,
			 rb_entry(b, struct ek_group, node)->vtime);
}

static struct rb_root_cached *ek_tree(struct ek_data *ek, struct ek_group *g)
{
	return g->backlogged ? &ek->backlogged : &ek->awaited;
}

void ek_group_update_share(struct ek_data *ek, struct ek_group *g)
{
	lockdep_assert_held(&ek->lock);
	/* one with submitters at the gate may be out of the race: regulated */
	if (!g->active) {
		WRITE_ONCE(g->share, g->share_node.weight << EK_SHARE_SHIFT);
		return;
	}
	WRITE_ONCE(g->share, ek_node_share(&g->share_node));
	g->ahead = ek_vtime(ek->ahead_kb, g->share);
	g->share_generation = ek->top.generation;
}

/* for how long a group that went is expected back */
#define EK_RECENT	HZ

/* so much in one to two seconds, at most, is little: 4 % of an eMMC; bytes */
#define EK_LITTLE	(8 * SZ_1M)

/*
 * @g becomes active: does it come now and then for a little? Not in between two
 * of its comings: a heavy one, too, looks idle for a moment when its submitter is
 * kept from running, by another's 100 MB that are being pinned, say.
 */
static bool ek_group_is_light(struct ek_group *g)
{
	u64 bytes = g->bytes[0] + g->bytes[1], served = bytes - g->came_bytes;
	unsigned long for_s = (jiffies - g->came_at) / HZ;

	if (for_s) {
		g->came_before = div_u64(served, min(for_s, 1UL << 30));
		g->came_bytes = bytes;
		g->came_at = jiffies;
		served = 0;
	}
	return g->came_before + served < EK_LITTLE;
}

/* @g becomes active: what does that mean for how much may be in the device? */
static void ek_group_became_active(struct ek_data *ek, struct ek_group *g)
{
	/* two that take turns are never there together */
	if (ek->nr_active > 1 || ek->last_active != g)
		ek->shared = jiffies;
	ek->last_active = g;
	if (ek_group_is_light(g))
		ek->light = jiffies;
}

/* What may be in the device while nobody is owed service, in KiB of cost. */
static u32 ek_window_room(struct ek_data *ek, struct ek_window *w)
{
	if (ek->nr_active == 1 && time_after(jiffies, ek->shared + EK_RECENT))
		return w->alone_kb;
	return time_after(jiffies, ek->light + EK_RECENT) ? w->beside_kb :
							    w->light_kb;
}

/* What the largest request of @g, which is active, spans of virtual time. */
static u64 ek_group_most(struct ek_data *ek, struct ek_group *g)
{
	return ek_vtime(queue_max_sectors(ek->q) / 2 + ek->request_kb,
			ek_group_share(ek, g));
}

/* Without effect on one that is active. */
void ek_group_activate(struct ek_data *ek, struct ek_group *g)
{
	lockdep_assert_held(&ek->lock);
	if (g->active || g->regulated)
		return;
	g->active = true;
	g->backlogged = g->queued;
	WRITE_ONCE(ek->nr_active, ek->nr_active + 1);
	ek_group_became_active(ek, g);
	ek_node_join(&ek->top, &g->share_node);
	g->vtime = ek_bounded(g->vtime, ek->vnow, ek_group_most(ek, g));
	rb_add_cached(&g->node, ek_tree(ek, g), ek_node_before);
	ek_group_get(g);
}

/* @g must be in the tree of awaited groups. May free it. */
static void ek_group_deactivate(struct ek_data *ek, struct ek_group *g)
{
	rb_erase_cached(&g->node, &ek->awaited);
	RB_CLEAR_NODE(&g->node);
	g->active = false;
	g->thought = false;
	if (ek->nr_active > 1)
		ek->shared = jiffies;
	WRITE_ONCE(ek->nr_active, ek->nr_active - 1);
	ek_node_leave(&ek->top, &g->share_node);
	ek_group_put(g);
}

/* From one tree to the other. */
static void ek_group_move(struct ek_data *ek, struct ek_group *g,
			  bool backlogged)
{
	rb_erase_cached(&g->node, ek_tree(ek, g));
	g->backlogged = backlogged;
	rb_add_cached(&g->node, ek_tree(ek, g), ek_node_before);
}

/* @g, which has nothing queued, leaves the race for what it has by weight. */
void ek_group_retire(struct ek_data *ek, struct ek_group *g)
{
	lockdep_assert_held(&ek->lock);
	if (g->backlogged)
		ek_group_move(ek, g, false);
	ek_group_deactivate(ek, g);
}

void ek_group_set_weight(struct ek_group *g, u32 weight)
{
	struct ek_data *ek = g->ek;
	unsigned long flags;

	spin_lock_irqsave(&ek->lock, flags);
	ek_node_set_weight(&ek->top, &g->share_node, weight);
	/* until it is active, when its place in the tree counts as well */
	if (!g->active)
		WRITE_ONCE(g->share, weight << EK_SHARE_SHIFT);
	if (ek->nr_waiting)
		ek_gate_run(ek);
	spin_unlock_irqrestore(&ek->lock, flags);
}

/* Put @g back in order after its virtual time grew. */
static void ek_group_reposition(struct ek_data *ek, struct ek_group *g)
{
	struct ek_group *next = ek_node_group(rb_next(&g->node));
	struct rb_root_cached *tree = ek_tree(ek, g);

	if (!next || !ek_before(next->vtime, g->vtime))
		return;
	rb_erase_cached(&g->node, tree);
	rb_add_cached(&g->node, tree, ek_node_before);
}

/* The group's mean think time learns that it took @us this time. */
static void ek_group_learn(struct ek_data *ek, struct ek_group *g, u64 us)
{
	u32 sample = min_t(u64, us, 4 * ek->think_max_us);

	g->think_us = ek_think(g->think_us, sample);
	g->thought = false;
}

/* ek_group_arrive(), without a call for each request */
static inline void ek_group_think_sample(struct ek_data *ek, struct ek_group *g,
					 u64 now)
{
	u64 done = READ_ONCE(g->last_done);

	if (!atomic_read(&g->in_flight) && !g->queued && !g->pending &&
	    list_empty(&g->waiters) && done && now > done)
		ek_group_learn(ek, g, div_u64(now - done, 1000));
}

/* The next request of @g is here at @now: how long did it think? */
void ek_group_arrive(struct ek_data *ek, struct ek_group *g, u64 now)
{
	ek_group_think_sample(ek, g, now);
}

void ek_group_add(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	u32 cost = ek_rq_cost_kb(ek, rq);

	lockdep_assert_held(&ek->lock);
	if (!g->queued) {
		/* one that came through the gate was noted there */
		ek_group_think_sample(ek, g, rq->start_time_ns);
		if (unlikely(g->fixed || g->regulated))
			ek_fixed_enter(ek, g);
		g->queued = 1;
		g->queued_kb = 0;
		g->served = jiffies;
		if (unlikely(g->regulated))
			list_add_tail(&g->fixed_ready, &ek->fixed.ready);
		else if (!g->active)
			ek_group_activate(ek, g);
		else if (!g->backlogged)
			ek_group_move(ek, g, true);
	} else {
		g->queued++;
	}
	list_add_tail(&rq->queuelist, &g->fifo[ek_rq_class(rq)]);
	g->awaiting_flush += ek_rq_awaits_flush(rq);
	ek_channel_note(ek, rq);
	WRITE_ONCE(ek->nr_queued, ek->nr_queued + 1);
	WRITE_ONCE(ek->nr_ready, ek->nr_ready + 1);
	g->queued_kb += cost;
	/* merges change the request's size, not what was added */
	rq->fifo_time = cost;
	g->request_kb = cost;
	g->pending = 0;
	WRITE_ONCE(ek->on_hold, false);
}

/* ek_group_remove(), likewise */
static inline void ek_group_take(struct ek_data *ek, struct ek_group *g,
				 struct request *rq)
{
	lockdep_assert_held(&ek->lock);
	list_del_init(&rq->queuelist);
	WRITE_ONCE(ek->nr_queued, ek->nr_queued - 1);
	WRITE_ONCE(ek->nr_ready, ek->nr_ready - 1);
	g->queued--;
	g->awaiting_flush -= ek_rq_awaits_flush(rq);
	g->queued_kb -= rq->fifo_time;
	if (unlikely(g->regulated) && !g->queued)
		list_del_init(&g->fixed_ready);
}

/* Take @rq out of its group's queue. */
void ek_group_remove(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	ek_group_take(ek, g, rq);
}

/*
 * The backlogged group with the least virtual time, or NULL. Those at the front
 * that have nothing queued any more are awaited from here on; not before, for
 * one that always has a request in the device and the next at hand would change
 * trees twice for each.
 */
static struct ek_group *ek_first_backlogged(struct ek_data *ek)
{
	struct ek_group *g;

	while ((g = ek_node_group(rb_first_cached(&ek->backlogged)))) {
		if (g->queued)
			return g;
		ek_group_move(ek, g, false);
	}
	return NULL;
}

/*
 * Is @g in the middle of something that others must not wait for? Its submitters
 * do for a tag, or for a flush, which itself may wait for what would be held back.
 * It stays active: it has its share of the tags.
 */
static bool ek_group_is_stuck(struct ek_group *g)
{
	return !list_empty(&g->waiters) || atomic_read(&g->flushing);
}

/*
 * Will @g, which has nothing queued, ask soon? @until gets the time in ns at
 * which to give up, or 0 when a completion is certain to end the wait.
 */
static bool ek_group_expected(struct ek_data *ek, struct ek_group *g, u64 now,
			      u64 *until)
{
	u32 flight = atomic_read(&g->in_flight);
	u64 window;

	*until = 0;
	/*
	 * Not for the end of a discard: it costs its group little and may take
	 * the device long, so that all others would wait for it each time.
	 */
	if (flight)
		return flight > (u32)atomic_read(&g->erasing);
	/* somebody else's completion frees the tag that it waits for */
	if (!list_empty(&g->waiters) && atomic_read(&ek->in_flight))
		return true;
	if (g->pending) {
		*until = g->pending_since + ek->think_max_us * NSEC_PER_USEC;
		if (now < *until)
			return true;
		g->pending = 0;
	}
	/* it cannot come without a tag, and none is about to be freed */
	if (ek_group_is_stuck(g))
		return false;
	if (g->think_us > ek->think_max_us)
		return false;
	window = min_t(u64, 2 * g->think_us + EK_THINK_SLACK_US,
		       ek->think_max_us);
	*until = READ_ONCE(g->last_done) + window * NSEC_PER_USEC;
	if (now < *until)
		return true;
	if (g->thought) {
		ek->nr_hold_expired++;
		ek_group_learn(ek, g, U64_MAX);
	}
	return false;
}

/*
 * The awaited group with the least virtual time, or NULL. Those that do not
 * come back leave the tree here.
 */
struct ek_group *ek_group_awaited(struct ek_data *ek, u64 now, u64 *until)
{
	struct ek_group *g;

	lockdep_assert_held(&ek->lock);
	ek_first_backlogged(ek);
	while ((g = ek_node_group(rb_first_cached(&ek->awaited)))) {
		if (ek_group_expected(ek, g, now, until))
			return g;
		if (ek_group_is_stuck(g))
			return NULL;
		ek_group_deactivate(ek, g);
	}
	return NULL;
}

/* All that do not come back leave, which keeps the shares of the others true. */
void ek_groups_prune(struct ek_data *ek, u64 now)
{
	struct rb_node *node, *next;
	u64 until;

	for (node = rb_first_cached(&ek->backlogged); node; node = next) {
		struct ek_group *g = ek_node_group(node);

		next = rb_next(node);
		if (!g->queued)
			ek_group_move(ek, g, false);
	}
	for (node = rb_first_cached(&ek->awaited); node; node = next) {
		struct ek_group *g = ek_node_group(node);

		next = rb_next(node);
		if (!ek_group_is_stuck(g) &&
		    !ek_group_expected(ek, g, now, &until))
			ek_group_deactivate(ek, g);
	}
}

/*
 * The awaited group that is owed more than may be postponed if @g is served
 * now, or NULL. What it is owed below @ahead_kb it gets later: its virtual time
 * stays behind and it is served first from then on, so the lag grows by that
 * once and not with time. ek_data.hold_until is then when to give it up, as
 * ek_group_expected() says.
 */
static struct ek_group *ek_group_owed(struct ek_data *ek, struct ek_group *g)
{
	struct ek_group *lead = ek_node_group(rb_first_cached(&ek->awaited));

	if (!lead || !ek_before(lead->vtime, g->vtime))
		return NULL;
	ek_group_share(ek, lead);
	if (!ek_before(lead->vtime + lead->ahead, g->vtime))
		return NULL;
	/* the first may leave */
	lead = ek_group_awaited(ek, ktime_get_ns(), &ek->hold_until);
	if (lead && ek_before(lead->vtime, g->vtime)) {
		ek_group_share(ek, lead);
		if (ek_before(lead->vtime + lead->ahead, g->vtime))
			return lead;
	}
	return NULL;
}

static struct request *ek_fifo_first(struct ek_group *g, enum ek_class class)
{
	return list_first_entry_or_null(&g->fifo[class], struct request,
					queuelist);
}

/*
 * The request of @g, which has some, to serve next. Reads go before synchronous
 * writes that came up to @read_lead_us earlier: each of them is then served as
 * if it had come that much later, and none waits for long. Asynchronous writes
 * have time, but are not passed over more than EK_SYNC_STREAK times in a row.
 */
static struct request *ek_group_first(struct ek_data *ek, struct ek_group *g)
{
	struct request *read = ek_fifo_first(g, EK_READ);
	struct request *write = ek_fifo_first(g, EK_WRITE_SYNC);
	struct request *async = ek_fifo_first(g, EK_WRITE_ASYNC);
	u64 latest = U64_MAX;

	if (async && (g->sync_streak >= EK_SYNC_STREAK || (!read && !write)))
		return async;
	if (write) {
		latest = write->start_time_ns +
			 ek->read_lead_us * (u64)NSEC_PER_USEC;
		if (!read || read->start_time_ns > latest)
			return write;
	}
	if (unlikely(ek->channels > 1) && ek_channel_on(ek))
		return ek_channel_first(ek, g, latest);
	return read;
}

static struct request *ek_serve(struct ek_data *ek, struct ek_group *g,
				struct request *rq, u32 cost)
{
	struct ek_flight in = { .kb = cost, .channel = EK_CHANNEL_NONE };
	bool erases = ek_rq_erases(rq);
	int dir = op_is_write(req_op(rq));

	if (ek_rq_class(rq) == EK_WRITE_ASYNC)
		g->sync_streak = 0;
	else
		g->sync_streak += !list_empty(&g->fifo[EK_WRITE_ASYNC]);

	/* before it leaves the queue: the group must not look idle between */
	atomic_inc(&g->in_flight);
	if (unlikely(erases)) {
		atomic_inc(&g->erasing);
		atomic_inc(&ek->erasing);
		ek->slice_erased = true;
		/* it takes no part of the window */
		in.kb = 1;
	}
	if (atomic_inc_return(&ek->in_flight) == 1) {
		if (time_after(jiffies, ek->sampled) && cost <= ek->ahead_kb &&
		    !erases) {
			ek->sampled = jiffies;
			WRITE_ONCE(ek->sample_at, ktime_get_ns());
			WRITE_ONCE(ek->sample, rq);
		}
		if (unlikely(ek->fixed.nr))
			WRITE_ONCE(ek->fixed.busy_since, ktime_get_ns());
	}
	atomic_add(in.kb, &ek->in_flight_kb);
	if (unlikely(ek->channels > 1)) {
		in.channel = ek_rq_channel(ek, rq);
		ek_debug_warn(ek_rq_class(rq) == EK_READ &&
			      in.channel != ek_rq_flight(rq).channel);
		if (in.channel != EK_CHANNEL_NONE)
			atomic_inc(&ek->channel_flight[in.channel]);
		g->reordered += ek_rq_class(rq) == EK_READ &&
				!list_is_first(&rq->queuelist,
					       &g->fifo[EK_READ]);
	}
	ek_rq_set_flight(rq, in);
	ek->window[dir].sent_kb += in.kb;
	trace_ek_dispatch(ek, g, rq, cost);
	if (likely(!erases))
		g->bytes[dir] += blk_rq_bytes(rq);
	g->ios[dir]++;

	ek_group_take(ek, g, rq);
	g->served = jiffies;
	if (unlikely(g->regulated)) {
		atomic_inc(&ek->fixed_in_flight);
		ek_fixed_expect(ek, g, rq);
		return rq;
	}
	WRITE_ONCE(ek->vnow, ek_later(ek->vnow, g->vtime));
	g->vtime += ek_vtime(cost, ek_group_share(ek, g));
	if (ek->nr_active > 1)
		ek_group_reposition(ek, g);
	return rq;
}

/*
 * For how many jiffies has @g, which has requests, waited too long? Where flushes
 * wait for one of them, sooner: a small one for itself, which costs nobody much; a
 * large one for its group, which else would have no weight.
 */
static long ek_group_overdue(struct ek_data *ek, struct ek_group *g, u64 now)
{
	u32 ms = ek->starve_ms;
	struct request *write;
	u64 age;

	if (unlikely(g->awaiting_flush)) {
		write = list_first_entry(&g->fifo[EK_WRITE_SYNC],
					 struct request, queuelist);
		if (ek_rq_cost_kb(ek, write) <= ek->ahead_kb) {
			age = now - min(now, write->start_time_ns);
			return nsecs_to_jiffies(age) -
			       msecs_to_jiffies(min(ms, EK_FLUSH_SMALL_MS));
		}
		ms = min(ms, EK_FLUSH_LARGE_MS);
	}
	return jiffies - g->served - msecs_to_jiffies(ms);
}

/* A group whose requests wait for longer than any should, at whatever weight. */
static struct request *ek_serve_starved(struct ek_data *ek, u64 now)
{
	struct ek_group *g, *starved = NULL;
	struct request *rq;
	struct rb_node *node;
	u64 vnow = ek->vnow;
	long over, most = 0;

	for (node = rb_first_cached(&ek->backlogged); node;
	     node = rb_next(node)) {
		g = ek_node_group(node);
		if (!g->queued || g->regulated)
			continue;
		over = ek_group_overdue(ek, g, now);
		if (over > most) {
			starved = g;
			most = over;
		}
	}
	if (!starved)
		return NULL;
	ek->nr_starved++;
	rq = ek_group_first(ek, starved);
	ek_serve(ek, starved, rq, ek_rq_cost_kb(ek, rq));
	/* out of turn: its virtual time is not the system's, nor a debt */
	WRITE_ONCE(ek->vnow, vnow);
	if (ek_before(vnow, starved->vtime))
		starved->vtime = ek_bounded(starved->vtime, vnow,
					    ek_group_most(ek, starved));
	ek_group_move(ek, starved, starved->backlogged);
	return rq;
}

/*
 * The first backlogged group, and in @first its request to serve next. With
 * EK_ERASES in the device that is none of those that move no data: on an eMMC a
 * discard is a command that all others wait for, however many it was given at
 * once. NULL in @first: there are only such.
 */
static struct ek_group *ek_first_ready(struct ek_data *ek,
				       struct request **first)
{
	struct ek_group *g = ek_first_backlogged(ek), *h;
	struct rb_node *node;

	*first = g ? ek_group_first(ek, g) : NULL;
	if (!g || likely(!ek_rq_erases(*first)) ||
	    atomic_read(&ek->erasing) < EK_ERASES)
		return g;
	for (node = rb_next(&g->node); node; node = rb_next(node)) {
		h = ek_node_group(node);
		if (!h->queued)
			continue;
		*first = ek_group_first(ek, h);
		if (!ek_rq_erases(*first))
			return h;
	}
	*first = NULL;
	return g;
}

/* What is looked at once a jiffy, not once a request. */
static struct request *ek_periodic_work(struct ek_data *ek)
{
	u64 now = ktime_get_ns();

	ek->tick = jiffies;
	ek_window_measure(ek, now);
	ek_groups_prune(ek, now);
	/* the shares of those that stay grew */
	if (ek->nr_waiting)
		ek_gate_run(ek);
	if (ek->fixed.nr)
		ek_fixed_tick(ek);
	return ek_serve_starved(ek, now);
}

/* The earliest wins: all that waits is looked at again when it fires. */
void ek_hold_arm(struct ek_data *ek, u64 now, u64 until)
{
	if (hrtimer_is_queued(&ek->hold_timer) &&
	    ktime_to_ns(hrtimer_get_expires(&ek->hold_timer)) <= until)
		return;
	hrtimer_start(&ek->hold_timer, ns_to_ktime(until > now ? until - now : 1),
		      HRTIMER_MODE_REL);
}

/*
 * Would the idle device be done with a small request before @lead comes back?
 * Then to hold it back keeps both waiting and serves nobody: the device is not
 * what they compete for.
 */
static bool ek_done_before(struct ek_data *ek, struct ek_group *lead)
{
	u32 us = READ_ONCE(ek->small_us);

	return us && lead->think_us >= us;
}

/*
 * The next request for the device, or NULL, either because there is none or
 * because holding back serves the weights: then a completion, an insertion or
 * the timer clears @on_hold and runs the queue again.
 *
 * What may be in the device is bounded (ek_window.c), for what is in it is out
 * of the scheduler's hands. A group may run ahead of an awaited one that it
 * should wait for only as far as @ahead_kb fill the device: small requests must
 * not idle a parallel device for the sake of one reader.
 */
struct request *ek_next(struct ek_data *ek)
{
	u32 flight, kb, cost, room;
	struct ek_group *g, *lead;
	struct ek_window *window;
	u64 now, until, fixed_until;
	struct request *rq;

	lockdep_assert_held(&ek->lock);
	if (!ek->nr_queued)
		return NULL;
	if (time_after(jiffies, ek->tick)) {
		rq = ek_periodic_work(ek);
		if (rq)
			return rq;
	}
again:
	lead = NULL;
	until = 0;
	fixed_until = 0;
	/* before what each group has there: ek_rq_left_device() counts that down first */
	flight = atomic_read_acquire(&ek->in_flight);
	kb = atomic_read(&ek->in_flight_kb);
	/* those are few, and what they ask for is kept free for them */
	if (unlikely(!list_empty(&ek->fixed.ready))) {
		g = ek_fixed_first(ek);
		if (g) {
			rq = ek_group_first(ek, g);
			return ek_serve(ek, g, rq, ek_rq_cost_kb(ek, rq));
		}
		fixed_until = ek->fixed.until;
	}
	g = ek_first_ready(ek, &rq);
	if (unlikely(!rq))
		goto hold;
	if (unlikely(ek->fixed.nr)) {
		/* one that is to be regulated begins with nothing in the device */
		if (g->fixed && !g->regulated) {
			if (atomic_read(&g->in_flight))
				goto hold;
			ek_fixed_convert(ek, g);
			goto again;
		}
		if (ek_fixed_full(ek, flight))
			goto hold;
	}
	cost = ek_rq_cost_kb(ek, rq);
	window = &ek->window[op_is_write(req_op(rq))];
	if (ek->nr_active == 1) {
		room = ek_window_room(ek, window);
	} else {
		lead = ek_group_owed(ek, g);
		if (lead)
			until = ek->hold_until;
		if (!lead)
			room = ek_window_room(ek, window);
		else if (flight || ek_done_before(ek, lead))
			/* what it has inside itself is not ahead of it */
			room = ek->ahead_kb + lead->request_kb *
			       atomic_read(&lead->in_flight);
		else
			room = 0;
	}
	/* or: nothing would end a hold */
	if (kb + cost <= room || (!flight && !until))
		return ek_serve(ek, g, rq, cost);
hold:
	WRITE_ONCE(ek->on_hold, true);
	/* pairs with the barrier in ek_rq_left_device() */
	smp_mb();
	if (atomic_read(&ek->in_flight) != flight) {
		WRITE_ONCE(ek->on_hold, false);
		goto again;
	}
	ek->nr_holds++;
	now = ktime_get_ns();
	/* a device that does not answer must not stop the starvation guard */
	if (until)
		lead->thought = true;
	else
		until = now + (ek->starve_ms + 10) * (u64)NSEC_PER_MSEC;
	if (fixed_until && fixed_until < until)
		until = fixed_until;
	trace_ek_hold(ek, lead, until);
	ek_hold_arm(ek, now, until);
	return NULL;
}

/* All groups leave the trees; the queue is frozen and empty. */
void ek_groups_clear(struct ek_data *ek)
{
	struct ek_group *g;

	spin_lock_irq(&ek->lock);
	WARN_ON_ONCE(ek_first_backlogged(ek));
	while ((g = ek_node_group(rb_first_cached(&ek->awaited))))
		ek_group_deactivate(ek, g);
	WARN_ON_ONCE(ek->top.sum || ek->nr_active);
	spin_unlock_irq(&ek->lock);
}
