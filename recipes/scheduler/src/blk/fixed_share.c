// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fixed share: a cgroup with a fixed share of P % is served as by a device of its own that is
 * 100/P times slower. The source is Nagao et al., "Implementation and Evaluation of I/O
 * Performance Regulating Method to Suppress Decrease in I/O Throughput". Numbers in
 * parentheses are the paper's equations.
 *
 * A group is "regulated" while it is served by its fixed share. The ideal time of a request is
 * 100/P times its service time (3). The service time is learned by direction and size, from
 * all completions of all groups: the time since the preceding completion, or since the device
 * was idle (4).
 *  - A request must not take longer than its ideal time. So regulated requests go to the
 *    device first, and the requests of others in the device are limited by the cap (5, 6:
 *    ek_fixed_cap()).
 *  - A request must not take less. So its completion is held back until it is due. If a
 *    request completes late, the next requests are due earlier.
 *
 * Beyond the paper:
 *
 *  - Several requests of a group at once are served one after the other, as on the slower
 *    device: each is due its ideal time after the preceding one.
 *  - The search for the cap begins with the paper's cap. While regulated requests are on time,
 *    the cap rises. If they are late on average, the cap falls: see ek_search_round().
 *  - Samples during a flush of the device's cache hardly count for the service time.
 *    Otherwise each fsync() of any group would make regulated groups slower for long.
 *
 * Only bios are held back: the request itself is complete, and its tag is free. At insertion,
 * each bio of the request gets one more remaining count, as if it had been split. This count
 * ends when the request is due. No field of the bio is replaced. Other counts of the bio may
 * remain after this; nothing here waits for them.
 */
#include "ek.h"
#include "trace.h"

#include <linux/part_stat.h>
#include <linux/slab.h>

#include "blk.h"

/* A group counts for the cap until this time (jiffies) after its last request. */
#define EK_FIXED_RECENT	HZ

/* The length of a round, in completions of regulated requests: later; and in the first phase. */
#define EK_FIXED_ROUND	32
#define EK_FIXED_ROUND_FIRST	16

/*
 * While a request waits until it may go: the longest time (ns) until the next check for a
 * reason to send it at once, such as a freeze of the queue.
 */
#define EK_FIXED_LOOK_NS	(50 * NSEC_PER_MSEC)

/* A request is due earlier than usual by at most this many of its ideal times. */
#define EK_FIXED_CARRY	4

/*
 * One regulated request, from its insertion until its bios end. Until the request completes,
 * the request owns the job; after that, the job's timer does. Only @node is shared.
 */
struct ek_job {
	struct ek_group *g;	/* holds a reference */
	struct list_head node;	/* in ek_fixed.jobs while held back; under ek_fixed.lock */
	struct hrtimer timer;	/* expires at @due */
	struct rcu_head rcu;
	u64 begin;		/* when the request was allocated, ns */
	u64 due;		/* when its bios may end, ns */
	u32 bytes;
	bool write;
	u32 nr;			/* number of @bios */
	struct bio *bios[] __counted_by(nr);
};

static struct ek_job *ek_rq_job(struct request *rq)
{
	return (struct ek_job *)rq->elv.icq;
}

static void ek_rq_set_job(struct request *rq, struct ek_job *job)
{
	rq->elv.icq = (struct io_cq *)job;
}

/* End the bios of @job, and free it. Any context; the caller holds no lock. */
static void ek_job_end(struct ek_job *job)
{
	struct ek_group *g = job->g;
	u32 i;

	for (i = 0; i < job->nr; i++) {
		struct bio *bio = job->bios[i];

		/* the last remaining count: the bio ends as if it had never been split */
		if (atomic_read(&bio->__bi_remaining) == 1)
			bio_clear_flag(bio, BIO_CHAIN);
		bio_endio(bio);
	}
	kfree_rcu(job, rcu);
	ek_group_put(g);
}

static enum hrtimer_restart ek_job_due(struct hrtimer *timer)
{
	struct ek_job *job = container_of(timer, struct ek_job, timer);
	struct ek_fixed *fixed = &job->g->ek->fixed;
	u64 now = ktime_get_ns();
	unsigned long flags;

	spin_lock_irqsave(&fixed->lock, flags);
	list_del(&job->node);
	/* the timer itself may fire late: this counts as lateness of the request */
	if (now > job->due && job->due == job->g->fixed_free)
		WRITE_ONCE(job->g->fixed_late, now - job->due);
	spin_unlock_irqrestore(&fixed->lock, flags);
	ek_job_end(job);
	return HRTIMER_NORESTART;
}

/*
 * The request of @job completed at @now: set the time at which it is due. Called under
 * ek_fixed.lock, in the order of completions.
 */
static void ek_job_schedule(struct ek_fixed *fixed, struct ek_job *job, u64 now)
{
	struct ek_group *g = job->g;
	u64 mean = fixed->service[job->write][ek_size_class(job->bytes)].mean;
	u32 percent = READ_ONCE(g->fixed);
	u64 begin = job->begin;
	u64 ideal;

	job->due = now;
	/* no service time is known yet, or the fixed share has ended: hold nothing back */
	if (!mean || !percent || fixed->stopping)
		return;
	ideal = ek_fixed_ideal(mean, percent);
	/* make up for the lateness of the last request */
	begin -= min(g->fixed_late, EK_FIXED_CARRY * ideal);
	begin = ek_later(begin, g->fixed_free);
	job->due = begin + ideal;
	WRITE_ONCE(g->fixed_free, job->due);
	WRITE_ONCE(g->fixed_late, now > job->due ? now - job->due : 0);
	g->fixed_ios++;
	g->fixed_ideal_ns += ideal;
	g->fixed_actual_ns += max(now, job->due) - job->begin;
	if (g->fixed_late > ideal / 64)
		g->fixed_nr_late++;
	fixed->round++;
	fixed->round_ideal += ideal;
	fixed->round_actual += max(now, job->due) - job->begin;
}

/*
 * @rq is about to be inserted. If its group is regulated, attach a job, so that its
 * completion can be held back. Without memory for the job, @rq completes when it is served,
 * which is better than a failed request. Process or softirq context; the caller holds no lock.
 */
void ek_fixed_hook(struct ek_data *ek, struct request *rq)
{
	struct ek_group *g;
	struct ek_job *job;
	struct bio *bio;
	u32 nr = 0;

	if (!rq->bio || !(rq->rq_flags & RQF_USE_SCHED) || ek_rq_group(rq) ||
	    (req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE) ||
	    (rq->cmd_flags & REQ_POLLED))
		return;
	g = ek_bio_group(ek, rq->bio);
	if (!READ_ONCE(g->fixed) || !READ_ONCE(g->regulated))
		return;
	__rq_for_each_bio(bio, rq)
		nr++;
	job = kzalloc(struct_size(job, bios, nr), GFP_NOWAIT | __GFP_NOWARN);
	if (!job)
		return;
	job->nr = nr;
	job->g = g;
	ek_group_get(g);
	job->begin = rq->start_time_ns;
	job->bytes = blk_rq_bytes(rq);
	job->write = op_is_write(req_op(rq));
	ek_hrtimer_setup(&job->timer, ek_job_due, HRTIMER_MODE_ABS_SOFT);
	nr = 0;
	__rq_for_each_bio(bio, rq) {
		bio_inc_remaining(bio);
		job->bios[nr++] = bio;
	}
	ek_rq_set_job(rq, job);
	atomic_inc(&ek->fixed_tags);
}

/*
 * @rq completed at @now, or is freed without having been served. Its bios have ended, except
 * for the count that the job holds. End the job now, or hold it back until it is due. Any
 * context; the caller holds no lock.
 */
void ek_fixed_complete(struct ek_data *ek, struct request *rq, u64 now)
{
	struct ek_job *job = ek_rq_job(rq);
	struct ek_fixed *fixed = &ek->fixed;
	bool held = true;
	unsigned long flags;
	u32 i;

	if (!job)
		return;
	ek_rq_set_job(rq, NULL);
	atomic_dec(&ek->fixed_tags);
	for (i = 0; i < job->nr; i++)
		held &= !job->bios[i]->bi_status;
	spin_lock_irqsave(&fixed->lock, flags);
	ek_job_schedule(fixed, job, now);
	ek_account_ns(job->g, job->write, EK_HIST_TOTAL,
		      max(now, job->due) - job->begin);
	trace_ek_fixed(ek, job->g, job->begin, now, job->due);
	held &= now < job->due;
	if (held) {
		list_add_tail(&job->node, &fixed->jobs);
		hrtimer_start(&job->timer, ns_to_ktime(job->due),
			      HRTIMER_MODE_ABS_SOFT);
	}
	spin_unlock_irqrestore(&fixed->lock, flags);
	if (!held)
		ek_job_end(job);
}

/*
 * Did the device flush its cache since the last call, or does it flush now? Flushes do not
 * pass through the elevator, so this asks the block layer's counters. Under ek_fixed.lock.
 */
static bool ek_fixed_flushed(struct ek_fixed *fixed, struct request *rq)
{
	struct blk_flush_queue *fq = rq->mq_hctx->fq;
	unsigned long flushes;
	bool any;

	/* other CPUs change this counter without a lock; a slightly old value is harmless */
	flushes = data_race(part_stat_read(rq->q->disk->part0,
					   ios[STAT_FLUSH]));
	any = flushes != fixed->flushes;
	fixed->flushes = flushes;
	/* these bits have a lock of their own; an old value is harmless, too */
	return any || data_race(fq->flush_pending_idx != fq->flush_running_idx);
}

/*
 * @rq of any group completed at @now: learn its service time by equation (4). This is the time
 * since the preceding completion, or since the device was last idle, whichever is later.
 *
 * For the second time, the paper takes the dispatch of this very request. But a busy device
 * may serve another request while this one is being dispatched, so that time would be too
 * short.
 */
void ek_fixed_learn(struct ek_data *ek, struct request *rq, u64 now)
{
	struct ek_fixed *fixed = &ek->fixed;
	/* blk_rq_bytes() is 0 by now */
	u32 bytes = rq->stats_sectors << SECTOR_SHIFT;
	int dir = op_is_write(req_op(rq));
	int size = ek_size_class(bytes);
	unsigned long flags;
	bool flushed;
	u64 begin;

	spin_lock_irqsave(&fixed->lock, flags);
	begin = max(fixed->last_done, READ_ONCE(fixed->busy_since));
	flushed = ek_fixed_flushed(fixed, rq);
	/* a completion on another CPU may be noted after a later one: then count it as 0 ns */
	if (fixed->last_done && bytes && !ek_rq_erases(rq))
		ek_service_learn(&fixed->service[dir][size],
				 now > begin ? now - begin : 0, flushed);
	fixed->last_done = max(fixed->last_done, now);
	spin_unlock_irqrestore(&fixed->lock, flags);
}

/*
 * Has @g used its fixed share lately? It has if it has requests now: fixed_used may be old
 * if its queue never runs empty.
 */
static bool ek_fixed_recent(struct ek_group *g)
{
	return g->queued || ek_group_in_flight(g) ||
	       !time_after(jiffies, g->fixed_used + EK_FIXED_RECENT);
}

/* Update the cap: the rule of the paper (5, 6), plus the result of the search. */
static void ek_fixed_cap(struct ek_data *ek)
{
	struct ek_fixed *fixed = &ek->fixed;
	struct ek_group *g, *h;
	u32 cap = U32_MAX, others;

	list_for_each_entry(g, &fixed->groups, fixed_node) {
		if (!ek_fixed_recent(g))
			continue;
		others = 0;
		list_for_each_entry(h, &fixed->groups, fixed_node)
			others += h != g && h->fixed >= g->fixed &&
				  ek_fixed_recent(h);
		cap = min(cap, ek_fixed_allowed(g->fixed, others));
	}
	fixed->rule = cap;
	if (cap == U32_MAX)
		fixed->cap = cap;
	else
		fixed->cap = ek->fixed_cap ?: max((s32)cap + fixed->search.bonus, 1);
}

/* If a round of regulated requests is over, let the search learn from the time it took. */
static void ek_fixed_adapt(struct ek_fixed *fixed)
{
	struct ek_search *s = &fixed->search;
	unsigned long flags;

	spin_lock_irqsave(&fixed->lock, flags);
	if (fixed->round >= (s->first ? EK_FIXED_ROUND_FIRST : EK_FIXED_ROUND)) {
		ek_search_round(s,
				ek_permille(fixed->round_actual, fixed->round_ideal),
				fixed->held);
		fixed->held = false;
		fixed->round = 0;
		fixed->round_ideal = 0;
		fixed->round_actual = 0;
	}
	spin_unlock_irqrestore(&fixed->lock, flags);
	s->bonus = max(s->bonus, 1 - (s32)min(fixed->rule, 1000U));
}

/* Update the search and the cap. Called at most once per jiffy, under ek_data.lock. */
void ek_fixed_tick(struct ek_data *ek)
{
	lockdep_assert_held(&ek->lock);
	ek->fixed.tick = jiffies;
	ek_fixed_adapt(&ek->fixed);
	ek_fixed_cap(ek);
}

/*
 * A request of @g is about to be queued, and none is queued yet. If @g has nothing in the
 * device and no grants, whether @g is regulated follows its setting from now on. It must not
 * change at another time. Otherwise the core and the fixed shares would both count some of
 * its requests.
 */
void ek_fixed_enter(struct ek_data *ek, struct ek_group *g)
{
	lockdep_assert_held(&ek->lock);
	if (!g->pending && !ek_group_in_flight(g))
		ek_group_regulate(ek, g, g->fixed);
	if (!g->regulated)
		return;
	g->fixed_used = jiffies;
	if (ek->fixed.cap == U32_MAX)
		ek_fixed_cap(ek);
}

/* @g has requests queued and none in the device: it is regulated from now on. */
void ek_fixed_convert(struct ek_data *ek, struct ek_group *g)
{
	lockdep_assert_held(&ek->lock);
	ek_group_regulate(ek, g, true);
	g->fixed_used = jiffies;
	ek_fixed_cap(ek);
}

/*
 * Is a request of @g, the first of its class, for a hardware queue whose last CPU is being
 * taken offline? The CPU hotplug code waits until such requests are done.
 */
static bool ek_fixed_cpu_leaves(struct ek_group *g)
{
	struct request *rq;
	int i;

	for (i = 0; i < EK_CLASSES; i++) {
		rq = list_first_entry_or_null(&g->fifo[i], struct request,
					      queuelist);
		if (rq && test_bit(BLK_MQ_S_INACTIVE, &rq->mq_hctx->state))
			return true;
	}
	return false;
}

/*
 * The regulated group that may be served now, or NULL. A group has one request at a time in
 * the device, and its next request goes when the preceding one was due. Of several groups,
 * the highest fixed share is first, then the order of arrival. With NULL, ek_fixed.until is
 * the time (ns) at which a group may be served, or 0 if there is none.
 */
struct ek_group *ek_fixed_first(struct ek_data *ek)
{
	struct ek_group *g, *next, *best = NULL;
	u64 now, at;

	ek->fixed.until = 0;
	now = ktime_get_ns();
	list_for_each_entry_safe(g, next, &ek->fixed.ready, fixed_ready) {
		if (atomic_read(&g->fixed_flight))
			continue;
		if (!g->fixed) {
			/* its fixed share was removed: serve it by weight from now on */
			ek_group_regulate(ek, g, false);
			continue;
		}
		/*
		 * In three cases others wait for the requests of @g: the queue is being
		 * frozen, a flush waits for its data, or a CPU is being taken offline. Then
		 * send them at once, whenever they are due.
		 */
		at = READ_ONCE(ek->q->mq_freeze_depth) || g->awaiting_flush ||
		     ek_fixed_cpu_leaves(g) ? 0 : READ_ONCE(g->fixed_free);
		if (at > now) {
			/* check again soon whether one of the three cases applies */
			at = min(at, now + EK_FIXED_LOOK_NS);
			if (!ek->fixed.until || at < ek->fixed.until)
				ek->fixed.until = at;
			continue;
		}
		if (!best || g->fixed > best->fixed)
			best = g;
	}
	return best;
}

/*
 * @rq, the only request of @g in the device, is being dispatched: note when it is due and how
 * long it should take.
 */
void ek_fixed_expect(struct ek_data *ek, struct ek_group *g, struct request *rq)
{
	int size = ek_size_class(blk_rq_bytes(rq));
	int dir = op_is_write(req_op(rq));
	u64 mean = READ_ONCE(ek->fixed.service[dir][size].mean);
	u64 begin = ek_later(rq->start_time_ns - READ_ONCE(g->fixed_late),
			     READ_ONCE(g->fixed_free));

	lockdep_assert_held(&ek->lock);
	g->fixed_used = jiffies;
	g->fixed_mean = mean;
	g->fixed_due = begin + (g->fixed ? ek_fixed_ideal(mean, g->fixed) : 0);
}

/*
 * Would one more request of the groups without a fixed share make a regulated request late?
 * @flight requests are in the device, including regulated ones. The order in which the device
 * serves them is unknown: it may serve all others before a regulated one. While no request of
 * the others is in the device, one may always go.
 */
static bool ek_fixed_too_many(struct ek_data *ek, u32 flight)
{
	u32 own = atomic_read(&ek->fixed_in_flight);
	struct ek_group *g;
	s64 after;
	u64 now;

	lockdep_assert_held(&ek->lock);
	if (flight <= own)
		return false;
	if (flight - own >= ek->fixed.cap)
		return true;
	if (!own)
		return false;
	now = ktime_get_ns();
	/*
	 * @after: the number of requests that are expected to be served until a regulated one
	 * completes. search.bonus corrects it by experience. It may even be negative: then a
	 * regulated request may complete late, because later ones make up for it.
	 */
	after = (s64)flight + 1 - ek->fixed.search.bonus;
	list_for_each_entry(g, &ek->fixed.groups, fixed_node)
		if (g->regulated && atomic_read(&g->fixed_flight) &&
		    (s64)(now - g->fixed_due) > -after * (s64)g->fixed_mean)
			return true;
	return false;
}

/* As ek_fixed_too_many(). If so, also note that the cap held requests back in this round. */
bool ek_fixed_full(struct ek_data *ek, u32 flight)
{
	bool full = ek_fixed_too_many(ek, flight);

	ek->fixed.held |= full;
	return full;
}

/*
 * Has the cgroup of @g been removed? Dirty pages may keep the policy data of a removed cgroup
 * for long, and a new cgroup of the same name may exist by then. Under queue_lock: while the
 * blkg is online, it holds a reference on its cgroup.
 */
static bool ek_group_is_gone(struct ek_group *g)
{
	return !g->pd.online || css_is_dying(&g->pd.blkg->blkcg->css);
}

/* The sum of the fixed shares of all groups except @g, in percent. Under queue_lock. */
static u32 ek_fixed_others_percent(struct ek_data *ek, struct ek_group *g)
{
	struct ek_group *other;
	u32 sum = 0;

	lockdep_assert_held(&ek->q->queue_lock);
	list_for_each_entry(other, &ek->fixed.groups, fixed_node)
		if (other != g && !ek_group_is_gone(other))
			sum += other->fixed;
	return sum;
}

/*
 * Set the fixed share of @g to @percent; 0: none, @g is served by weight. -ENOSPC: all fixed
 * shares would sum up to more than 100 %. Called under queue_lock, which is not needed if
 * @percent is 0.
 */
int ek_fixed_set(struct ek_group *g, u32 percent)
{
	struct ek_data *ek = g->ek;
	unsigned long flags;
	bool first;
	int ret = 0;

	spin_lock_irqsave(&ek->lock, flags);
	first = !ek->fixed.nr;
	if (percent && ek_fixed_others_percent(ek, g) + percent > 100) {
		ret = -ENOSPC;
	} else {
		if (!g->fixed && percent) {
			list_add_tail(&g->fixed_node, &ek->fixed.groups);
			WRITE_ONCE(ek->fixed.nr, ek->fixed.nr + 1);
		} else if (g->fixed && !percent) {
			list_del_init(&g->fixed_node);
			WRITE_ONCE(ek->fixed.nr, ek->fixed.nr - 1);
		}
		WRITE_ONCE(g->fixed, percent);
		/* the search begins again */
		ek->fixed.search = (struct ek_search){ .first = true };
		spin_lock(&ek->fixed.lock);
		ek->fixed.round = 0;
		ek->fixed.round_ideal = 0;
		ek->fixed.round_actual = 0;
		/* without fixed shares, completions were not noted: the old time is wrong */
		if (first)
			ek->fixed.last_done = 0;
		spin_unlock(&ek->fixed.lock);
		ek_fixed_cap(ek);
		/* its waiting submitters move between ek_fixed.gate and the core */
		ek_gate_sort(ek, g);
		if (ek->nr_waiting)
			ek_gate_run(ek);
	}
	spin_unlock_irqrestore(&ek->lock, flags);
	return ret;
}

void ek_fixed_init(struct ek_data *ek)
{
	struct ek_fixed *fixed = &ek->fixed;

	spin_lock_init(&fixed->lock);
	INIT_LIST_HEAD(&fixed->groups);
	INIT_LIST_HEAD(&fixed->ready);
	INIT_LIST_HEAD(&fixed->gate);
	INIT_LIST_HEAD(&fixed->jobs);
	fixed->cap = U32_MAX;
	fixed->rule = U32_MAX;
}

/*
 * End all held-back completions. The queue is frozen, so no request is left, only jobs whose
 * timers run. This waits for nothing but these timers. It must not wait for the end of a bio:
 * the freeze may prevent the submission of another part of the same bio.
 */
void ek_fixed_stop(struct ek_data *ek)
{
	struct ek_fixed *fixed = &ek->fixed;
	struct ek_job *job;

	spin_lock_irq(&fixed->lock);
	fixed->stopping = true;
	while (!list_empty(&fixed->jobs)) {
		job = list_first_entry(&fixed->jobs, struct ek_job, node);
		if (hrtimer_try_to_cancel(&job->timer) == 1) {
			list_del(&job->node);
			spin_unlock_irq(&fixed->lock);
			ek_job_end(job);
		} else {
			/* the timer's function runs now, and ends the job by itself */
			spin_unlock_irq(&fixed->lock);
			schedule_timeout_uninterruptible(1);
		}
		spin_lock_irq(&fixed->lock);
	}
	spin_unlock_irq(&fixed->lock);
	/* the function of the last timer may still be running */
	synchronize_rcu();
}
