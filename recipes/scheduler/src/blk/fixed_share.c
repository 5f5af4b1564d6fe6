// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fixed share: a cgroup that asks for P % of the device is served as
 * by a device of its own that is 100/P times slower (the third paper, S3).
 *
 * A request's ideal time is 100/P times its service time (3), which is learned
 * for its direction and size from every completion: the time since the one
 * before it, or since the device was idle (4). It must not take longer, so
 * the requests of others in the device are limited (5, 6: ek_fixed_cap()), and
 * those of regulated groups go first. It must not take less, so its completion
 * is held back until it is due, and what came late is carried over to the next.
 *
 * Beyond the paper:
 *
 *  - Several requests at once are served in turn, as the slower device would:
 *    each is due its ideal time after the one before it.
 *  - The paper's cap is where the search for the right one begins. While
 *    regulated requests are on time there is room for more of the others, and
 *    when service times vary so much that what is late cannot be made up for,
 *    there is less: the cap follows the accuracy (ek_search_round()).
 *  - What takes long because the device's cache was flushed is not learned from:
 *    each fsync() of anybody's would make a regulated group slower for long.
 *
 * What is held back are bios: the request is complete, and its tag free. Each
 * bio of a request that is inserted gets one more count of what remains of it,
 * as if it had been split, and that is ended when it is due. Nothing of the bio
 * is replaced, and what else remains of it is not waited for here.
 */
#include "ek.h"
#include "trace.h"

#include <linux/part_stat.h>
#include <linux/slab.h>

#include "blk.h"

/* a group counts for the cap for this long after its last request */
#define EK_FIXED_RECENT	HZ

/* regulated completions between two looks at how long they took; at first */
#define EK_FIXED_ROUND	32
#define EK_FIXED_ROUND_FIRST	16

/* the longest time without a look at whether the queue is being frozen */
#define EK_FIXED_LOOK_NS	(50 * NSEC_PER_MSEC)

/* what is made up for, in ideal times */
#define EK_FIXED_CARRY	4

/*
 * One request of a regulated group. It belongs to the request until that is
 * complete, then to its timer; nothing but @node is shared.
 */
struct ek_job {
	struct ek_group *g;	/* a reference */
	struct list_head node;	/* in ek_fixed.jobs while held back; under ek_fixed.lock */
	struct hrtimer timer;
	struct rcu_head rcu;
	u64 begin;		/* ns: when the request was allocated */
	u64 due;		/* ns */
	u32 bytes;
	bool write;
	u32 nr;
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

/* Give the bios back. Any context, without locks; frees @job. */
static void ek_job_end(struct ek_job *job)
{
	struct ek_group *g = job->g;
	u32 i;

	for (i = 0; i < job->nr; i++) {
		struct bio *bio = job->bios[i];

		/* the last part: it ends as the bio that it was */
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
	/* a timer is late, too */
	if (now > job->due && job->due == job->g->fixed_free)
		WRITE_ONCE(job->g->fixed_late, now - job->due);
	spin_unlock_irqrestore(&fixed->lock, flags);
	ek_job_end(job);
	return HRTIMER_NORESTART;
}

/*
 * The request is complete at @now: when is it due? Under ek_fixed.lock, in the
 * order of completion.
 */
static void ek_job_schedule(struct ek_fixed *fixed, struct ek_job *job, u64 now)
{
	struct ek_group *g = job->g;
	u64 mean = fixed->service[job->write][ek_size_class(job->bytes)].mean;
	u32 percent = READ_ONCE(g->fixed);
	u64 begin = job->begin;
	u64 ideal;

	job->due = now;
	/* nothing is known of such requests yet, or it was set free meanwhile */
	if (!mean || !percent || fixed->stopping)
		return;
	ideal = ek_fixed_ideal(mean, percent);
	/* what the last one came too late is made up for */
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
 * @rq of a regulated group is about to be inserted: have its completion wait
 * for us. Process or softirq context, without locks. Without memory it is not
 * regulated, which is better than to fail it.
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
 * @rq is complete at @now, and its bios but for what we hold, or it is freed
 * without that. Any context, without locks.
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
 * Was the device's cache flushed since the last call, or is it now? No flush
 * passes through here. Under ek_fixed.lock.
 */
static bool ek_fixed_flushed(struct ek_fixed *fixed, struct request *rq)
{
	struct blk_flush_queue *fq = rq->mq_hctx->fq;
	unsigned long flushes;
	bool any;

	/* other CPUs count, and it matters little just when that is seen */
	flushes = data_race(part_stat_read(rq->q->disk->part0,
					   ios[STAT_FLUSH]));
	any = flushes != fixed->flushes;
	fixed->flushes = flushes;
	/* nor these bits, which are under a lock of their own */
	return any || data_race(fq->flush_pending_idx != fq->flush_running_idx);
}

/*
 * A request of anybody's was completed at @now: how long did the device take?
 * Since the completion before it, or since it had anything to do again: S3 (4),
 * which takes the time since the dispatch of this very request for the latter.
 * But a device that is busy goes on with another while we are about to dispatch.
 */
void ek_fixed_learn(struct ek_data *ek, struct request *rq, u64 now)
{
	struct ek_fixed *fixed = &ek->fixed;
	/* its data are gone from it by now */
	u32 bytes = rq->stats_sectors << SECTOR_SHIFT;
	int dir = op_is_write(req_op(rq));
	int size = ek_size_class(bytes);
	unsigned long flags;
	bool flushed;
	u64 begin;

	spin_lock_irqsave(&fixed->lock, flags);
	begin = max(fixed->last_done, READ_ONCE(fixed->busy_since));
	flushed = ek_fixed_flushed(fixed, rq);
	/* another CPU's may be noted after a later one: then it took no time */
	if (fixed->last_done && bytes && !ek_rq_erases(rq))
		ek_service_learn(&fixed->service[dir][size],
				 now > begin ? now - begin : 0, flushed);
	fixed->last_done = max(fixed->last_done, now);
	spin_unlock_irqrestore(&fixed->lock, flags);
}

/* Does @g use what it asked for? Its queue may never run empty. */
static bool ek_fixed_recent(struct ek_group *g)
{
	return g->queued || ek_group_in_flight(g) ||
	       !time_after(jiffies, g->fixed_used + EK_FIXED_RECENT);
}

/* As many requests of others may be in the device: (5) and (6), and what was learned. */
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

/* The cap follows how long the last round of regulated requests took. */
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

/* Once a jiffy, under ek_data.lock. */
void ek_fixed_tick(struct ek_data *ek)
{
	lockdep_assert_held(&ek->lock);
	ek->fixed.tick = jiffies;
	ek_fixed_adapt(&ek->fixed);
	ek_fixed_cap(ek);
}

/*
 * A request of @g comes and it has nothing here: is it regulated from now on?
 * Only between two of its requests, or weights and regulation would both count
 * some of them.
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

/* @g has requests, none in the device, and is regulated from now on. */
void ek_fixed_convert(struct ek_data *ek, struct ek_group *g)
{
	lockdep_assert_held(&ek->lock);
	ek_group_regulate(ek, g, true);
	g->fixed_used = jiffies;
	ek_fixed_cap(ek);
}

/*
 * Does one wait in @g that is the next of its kind, and the last CPU of its
 * hardware queue is being taken away? Who does so waits for it.
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
 * The regulated group that may be served now: one request at a time, each when
 * the one before it is due, higher fixed share first, then in order of arrival.
 * NULL: none; ek_fixed.until is the time in ns when one may be, or 0.
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
			/* the fixed share ended: by weight, from here on */
			ek_group_regulate(ek, g, false);
			continue;
		}
		/*
		 * Who freezes the queue waits for all that is in it, and a flush
		 * for data that one follows: not to be on time, but to be done.
		 */
		at = READ_ONCE(ek->q->mq_freeze_depth) || g->awaiting_flush ||
		     ek_fixed_cpu_leaves(g) ? 0 : READ_ONCE(g->fixed_free);
		if (at > now) {
			/* look again now and then whether that is so */
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

/* @rq of @g, the only one of it, goes to the device: when has it to be done? */
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
 * Would one more request of the others, beside @flight in the device, make a
 * regulated one late? The device may serve all that is in it before it, and does
 * not tell the order. Never full of nothing.
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
	 * How many are not served before it in spite of that was learned; more
	 * than there are when it may be late, and be made up for.
	 */
	after = (s64)flight + 1 - ek->fixed.search.bonus;
	list_for_each_entry(g, &ek->fixed.groups, fixed_node)
		if (g->regulated && atomic_read(&g->fixed_flight) &&
		    (s64)(now - g->fixed_due) > -after * (s64)g->fixed_mean)
			return true;
	return false;
}

/* The same, and it is noted that the cap mattered. */
bool ek_fixed_full(struct ek_data *ek, u32 flight)
{
	bool full = ek_fixed_too_many(ek, flight);

	ek->fixed.held |= full;
	return full;
}

/*
 * Is the cgroup of @g removed? What was written in it may keep its policy data
 * for long, while another of its name has come. Under queue_lock: while the blkg
 * is online it holds its cgroup.
 */
static bool ek_group_is_gone(struct ek_group *g)
{
	return !g->pd.online || css_is_dying(&g->pd.blkg->blkcg->css);
}

/* What all but @g ask for, in percent. Under queue_lock. */
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
 * @percent of the device for @g, 0: by weight. -ENOSPC: more than there is.
 * Under queue_lock, but to set it to 0.
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
		/* the search begins anew */
		ek->fixed.search = (struct ek_search){ .first = true };
		spin_lock(&ek->fixed.lock);
		ek->fixed.round = 0;
		ek->fixed.round_ideal = 0;
		ek->fixed.round_actual = 0;
		/* nobody noted it before */
		if (first)
			ek->fixed.last_done = 0;
		spin_unlock(&ek->fixed.lock);
		ek_fixed_cap(ek);
		/* its submitters wait elsewhere, for other numbers of tags */
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
 * The queue is frozen: no request is left, but completions that wait are. All of
 * them have a timer, so that nothing else is waited for: what the freezing
 * itself keeps from being submitted may be another part of the same bio.
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
			/* it runs just now, and goes by itself */
			spin_unlock_irq(&fixed->lock);
			schedule_timeout_uninterruptible(1);
		}
		spin_lock_irq(&fixed->lock);
	}
	spin_unlock_irq(&fixed->lock);
	/* the last timer may still be on its way out of here */
	synchronize_rcu();
}
