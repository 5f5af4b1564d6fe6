// SPDX-License-Identifier: GPL-2.0-only
/*
 * evenkeel: a blk-mq I/O scheduler for boards with flash storage.
 *
 * It divides a device among cgroups by weight, at any size of I/O and with any number of
 * tags. This file has the elevator's methods; the policy is in ../core. The block layer calls
 * them for a request in this order: bio_merge (can the bio join a queued request?),
 * limit_depth (may the submitter take a tag?), prepare_request, insert_requests,
 * dispatch_request, completed_request, finish_request.
 */
#include "ek.h"

#include <linux/module.h>
#include <linux/slab.h>

#include <trace/events/block.h>

static struct ek_data *ek_queue_data(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/* Admission */

/* Few tags are free: let the submitter wait for its turn, or refuse if it must not sleep. */
static noinline void ek_limit_closed(struct ek_data *ek, blk_opf_t opf,
				     struct blk_mq_alloc_data *data)
{
	bool async = !op_is_sync(opf);
	struct ek_group *g;

	if (READ_ONCE(ek->core.nr_active) > 1 || READ_ONCE(ek->fixed.nr))
		data->nr_tags = 1;
	g = ek_current_group(ek, opf);
	if (data->flags & BLK_MQ_REQ_NOWAIT) {
		/* depth 1: the allocation fails with -EAGAIN unless its one slot is free */
		if (!ek_gate_fits(ek, g, async)) {
			data->shallow_depth = 1;
			atomic_inc(&ek->nr_nowait_limited);
		}
	} else {
		ek_gate_admit(ek, g, opf);
		data->nr_tags = 1;
	}
	ek_group_put(g);
}

static void ek_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct ek_data *ek = ek_queue_data(data->q);

	/*
	 * A request with REQ_PREFLUSH bypasses the gate: the flush machinery holds it back,
	 * and may never insert it. A request with only REQ_FUA passes the gate like any other.
	 */
	if (opf & REQ_PREFLUSH || ek_is_urgent(opf))
		return;
	if (unlikely(!ek_gate_open(ek))) {
		ek_limit_closed(ek, opf, data);
		return;
	}
	if (data->nr_tags <= 1)
		return;
	/* the submitter may take a batch of tags after this one check: bound the batch */
	if (READ_ONCE(ek->core.nr_active) > 1 || READ_ONCE(ek->fixed.nr))
		data->nr_tags = ek_batch(data->nr_tags,
					 READ_ONCE(ek->q->nr_requests),
					 num_online_cpus());
	else
		data->nr_tags = ek_gate_left(ek, data->nr_tags);
}

static void ek_prepare_request(struct request *rq)
{
	struct ek_data *ek = ek_queue_data(rq->q);

	ek_rq_time_init(rq);
	rq->elv.icq = NULL;
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = NULL;
	rq->fifo_time = 0;
	/* note the group now: the flush machinery clears REQ_PREFLUSH before it inserts @rq */
	if (unlikely(rq->cmd_flags & REQ_PREFLUSH)) {
		rq->fifo_time = (unsigned long)ek_current_group(ek, rq->cmd_flags);
		ek_rq_state(rq)->flusher = true;
	}
	atomic_inc(&ek->tags_used);
	if (atomic_read(&ek->granted))
		atomic_dec_if_positive(&ek->granted);
}

/* Merging */

static noinline bool ek_bio_merge_queued(struct ek_data *ek, struct bio *bio,
					 unsigned int nr_segs)
{
	struct request *free = NULL;
	bool merged;

	spin_lock_irq(&ek->lock);
	merged = blk_mq_sched_try_merge(ek->q, bio, nr_segs, &free);
	if (merged)
		ek_bio_group(ek, bio)->merged[op_is_write(bio_op(bio))]++;
	spin_unlock_irq(&ek->lock);

	if (free)
		blk_mq_free_request(free);
	return merged;
}

static bool ek_bio_merge(struct request_queue *q, struct bio *bio,
			 unsigned int nr_segs)
{
	struct ek_data *ek = ek_queue_data(q);

	/* racy check without the lock: a merge missed because of it does no harm */
	if (READ_ONCE(ek->nr_queued) && ek_bio_merge_queued(ek, bio, nr_segs))
		return true;
	if (unlikely(!ek_gate_open(ek) || ek_stash_left(ek)))
		ek_stash_bio(ek, bio);
	return false;
}

/*
 * A synchronous bio must not join an asynchronous request, which may wait for longer. No bio
 * joins a request of a group with a fixed share: the bio's completion could not be held back.
 */
static bool ek_allow_merge(struct request_queue *q, struct request *rq,
			   struct bio *bio)
{
	struct ek_group *g = ek_rq_group(rq);

	if (g && ek_group_is_fixed(g))
		return false;
	return op_is_sync(rq->cmd_flags) == op_is_sync(bio->bi_opf);
}

static void ek_unhash(struct request_queue *q, struct request *rq)
{
	elv_rqhash_del(q, rq);
	if (q->last_merge == rq)
		q->last_merge = NULL;
}

/* A bio became part of @rq, which is queued. */
static void ek_request_merged(struct request_queue *q, struct request *rq,
			      enum elv_merge type)
{
	ek_channel_note(ek_queue_data(q), rq);
}

/* @next was merged into @rq. @next may not have been inserted yet: then it has no group. */
static void ek_requests_merged(struct request_queue *q, struct request *rq,
			       struct request *next)
{
	struct ek_data *ek = ek_queue_data(q);
	struct ek_group *g = ek_rq_group(next);

	lockdep_assert_held(&ek->lock);
	if (g)
		ek_group_remove(ek, g, next);
	ek_unhash(q, next);
	/*
	 * Merges of two requests do not call ek_allow_merge(). If one is synchronous, the
	 * result is.
	 */
	if (op_is_sync(next->cmd_flags) && !op_is_sync(rq->cmd_flags)) {
		rq->cmd_flags |= REQ_SYNC;
		list_move_tail(&rq->queuelist,
			       &ek_rq_group(rq)->fifo[ek_rq_class(rq)]);
	}
	ek_channel_note(ek, rq);
}

/* Insertion */

/* Charge @g for a flush that it caused: it was issued at @since (ns) and is done now. */
static void ek_flush_done(struct ek_data *ek, struct ek_group *g, u64 since)
{
	ek_core_charge(&ek->core, &g->core, since, ktime_get_ns());
}

/*
 * @rq began with a flush, which is done. Charge the group in its fifo_time for the flush, and
 * release fifo_time for its use after insertion.
 */
static void ek_flusher_pays(struct ek_data *ek, struct request *rq)
{
	struct ek_group *g = (struct ek_group *)(unsigned long)rq->fifo_time;

	rq->fifo_time = 0;
	ek_rq_state(rq)->flusher = false;
	ek_flush_done(ek, g, rq->start_time_ns);
	ek_group_put(g);
}

static bool ek_rq_has_flusher(struct request *rq)
{
	return unlikely(ek_rq_state(rq)->flusher) && !ek_rq_group(rq);
}

/*
 * @rq is dispatched before all requests of groups: before the others of ek_data.dispatch if
 * @head, otherwise after them.
 */
static void ek_insert_first(struct ek_data *ek, struct request *rq, bool head)
{
	if (head)
		list_add(&rq->queuelist, &ek->dispatch);
	else
		list_add_tail(&rq->queuelist, &ek->dispatch);
	WRITE_ONCE(ek->nr_ready, ek->nr_ready + 1);
	WRITE_ONCE(ek->on_hold, false);
}

/* @alone: @rq is the only request of this insertion, so no other may merge with it now. */
static void ek_insert_request(struct ek_data *ek, struct request *rq,
			      blk_insert_t flags, bool alone, struct list_head *free)
{
	struct request_queue *q = ek->q;
	struct ek_group *g;

	/*
	 * Three kinds of request are not counted here. One that the driver requeued still
	 * counts as in the device, because it was charged. One for the head of the queue, and
	 * one that a plug had cached for passthrough, are not accounted, because the block
	 * layer does not report their completion to the elevator.
	 */
	if (!(rq->rq_flags & RQF_USE_SCHED) || ek_rq_group(rq) ||
	    (flags & BLK_MQ_INSERT_AT_HEAD)) {
		ek_insert_first(ek, rq, true);
		return;
	}
	g = ek_bio_group(ek, rq->bio);
	/*
	 * Discards are not merged here: the block layer merges several of them in a row
	 * without a call of requests_merged(). It would free a request that is still queued.
	 */
	if (ek->nr_queued && !READ_ONCE(g->fixed) && !blk_discard_mergable(rq) &&
	    blk_mq_sched_try_insert_merge(q, rq, free)) {
		g->merged[op_is_write(req_op(rq))]++;
		return;
	}
	trace_block_rq_insert(rq);
	if (atomic_inc_return(&g->held) == 1)
		ek_group_get(g);
	rq->elv.priv[0] = g;
	if (alone && ek_group_quick(ek, g, rq)) {
		ek_insert_first(ek, rq, false);
		return;
	}
	if (rq_mergeable(rq) && !READ_ONCE(g->fixed)) {
		elv_rqhash_add(q, rq);
		if (!q->last_merge)
			q->last_merge = rq;
	}
	ek_group_add(ek, g, rq);
}

/*
 * Should the submitter itself dispatch after the insertion of @list?
 *
 * If a single request does not come from a plug, blk_mq_submit_bio() schedules a worker to
 * dispatch it. On a preemptible kernel the worker runs at once, which costs two context
 * switches per request. There, the submitter dispatches instead, and the worker has nothing
 * to do. Two exceptions: the submitter is about to sleep, or dispatch may sleep.
 */
static bool ek_dispatch_here(struct blk_mq_hw_ctx *hctx, struct list_head *list)
{
	return IS_ENABLED(CONFIG_PREEMPTION) && list_is_singular(list) &&
	       task_is_running(current) && !(hctx->flags & BLK_MQ_F_BLOCKING);
}

/*
 * Must this task leave dispatch to the worker of @hctx?
 *
 * The driver's queue_rq() may sleep until the device has served an earlier request. The driver
 * of eMMC and SD cards does this. blk-mq dispatches as long as there are requests. So requests
 * of others could keep a submitter that dispatches for a second. Meanwhile it cannot send its
 * own next request, and its group loses its turn.
 */
static bool ek_leave_to_worker(struct blk_mq_hw_ctx *hctx)
{
	return hctx->flags & BLK_MQ_F_BLOCKING && current_work() != &hctx->run_work.work;
}

static void ek_insert_requests(struct blk_mq_hw_ctx *hctx,
			       struct list_head *list, blk_insert_t flags)
{
	struct ek_data *ek = ek_queue_data(hctx->queue);
	bool here = ek_dispatch_here(hctx, list);
	bool alone = list_is_singular(list);
	struct request *rq, *next;
	LIST_HEAD(free);

	list_for_each_entry(rq, list, queuelist) {
		if (rq->rq_flags & RQF_USE_SCHED && ek_rq_has_flusher(rq))
			ek_flusher_pays(ek, rq);
		if (unlikely(READ_ONCE(ek->fixed.nr)) &&
		    !(flags & BLK_MQ_INSERT_AT_HEAD))
			ek_fixed_hook(ek, rq);
	}
	/* an inserted request may complete at once, and with it the last reference on the queue */
	if (here)
		percpu_ref_get(&hctx->queue->q_usage_counter);
	spin_lock_irq(&ek->lock);
	ek->inserted = unlikely(READ_ONCE(ek->blaming)) ? ktime_get_ns() : 0;
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		ek_insert_request(ek, rq, flags, alone, &free);
	}
	/* an insertion may change which group gets the next tag */
	if (ek->nr_waiting)
		ek_gate_run(ek);
	spin_unlock_irq(&ek->lock);

	if (!list_empty(&free))
		blk_mq_free_requests(&free);
	if (here) {
		struct request_queue *q = hctx->queue;

		blk_mq_run_hw_queue(hctx, false);
		percpu_ref_put(&q->q_usage_counter);
	}
}

/* Dispatch and completion */

static struct request *ek_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct ek_data *ek = ek_queue_data(hctx->queue);
	struct request *rq;

	if (ek_leave_to_worker(hctx)) {
		blk_mq_run_hw_queue(hctx, true);
		return NULL;
	}
	spin_lock_irq(&ek->lock);
	rq = list_first_entry_or_null(&ek->dispatch, struct request, queuelist);
	if (rq) {
		list_del_init(&rq->queuelist);
		WRITE_ONCE(ek->nr_ready, ek->nr_ready - 1);
	} else {
		rq = ek_next(ek);
		if (rq)
			ek_unhash(ek->q, rq);
		/* a dispatch gives its group room at the gate: fewer requests are queued */
		if (rq && ek->nr_waiting)
			ek_gate_run(ek);
	}
	spin_unlock_irq(&ek->lock);
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	return rq;
}

static bool ek_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct ek_data *ek = ek_queue_data(hctx->queue);

	return READ_ONCE(ek->nr_ready) && !READ_ONCE(ek->on_hold);
}

/* @rq of @g completed at @now, and statistics or fixed shares need the time. */
static noinline void ek_completed_measured(struct ek_data *ek,
					   struct ek_group *g,
					   struct request *rq, u64 now)
{
	ek_account(g, rq, now);
	if (READ_ONCE(ek->fixed.nr))
		ek_fixed_learn(ek, rq, now);
	/* before ek_rq_left_device(): the group's next request is due after this one */
	if (rq->elv.icq)
		ek_fixed_complete(ek, rq, now);
}

static void ek_completed_request(struct request *rq, u64 now)
{
	struct ek_data *ek = ek_queue_data(rq->q);
	struct ek_group *g = ek_rq_group(rq);

	if (!g)
		return;
	if (unlikely(READ_ONCE(g->histograms) || READ_ONCE(ek->fixed.nr) ||
		     rq->elv.icq))
		ek_completed_measured(ek, g, rq, now);
	ek_rq_left_device(ek, g, rq, true, now);
}

/* The tag of @rq becomes free. @g is the group of @rq, or NULL. Any context. */
static inline void ek_tag_freed(struct ek_data *ek, struct ek_group *g,
				struct request *rq)
{
	rq->elv.priv[0] = NULL;
	if (g && atomic_dec_and_test(&g->held))
		ek_group_put(g);
	atomic_dec(&ek->tags_used);
	/* pairs with the barrier in ek_gate_admit() */
	smp_mb__after_atomic();
	if (READ_ONCE(ek->nr_waiting))
		ek_gate_kick(ek);
}

/* The flush that follows the data of @rq is done, too. Called under the flush queue's lock. */
static enum rq_end_io_ret ek_flush_ended(struct request *rq)
{
	struct ek_group *g = ek_rq_group(rq);

	if (g)
		ek_flush_done(ek_queue_data(rq->q), g, rq->fifo_time);
	ek_tag_freed(ek_queue_data(rq->q), g, rq);
	return RQ_END_IO_FREE;
}

#ifdef EK_END_IO_OF_BATCH
static enum rq_end_io_ret ek_flush_end_io(struct request *rq,
					  blk_status_t error,
					  const struct io_comp_batch *batch)
{
	return ek_flush_ended(rq);
}
#else
static enum rq_end_io_ret ek_flush_end_io(struct request *rq,
					  blk_status_t error)
{
	return ek_flush_ended(rq);
}
#endif

/*
 * Two cases. Either @rq is about to be freed, whether it was inserted or not. Or the data of
 * @rq are written, and @rq keeps its tag until the flush that makes them durable is done. The
 * block layer does not report the end of this flush to the elevator. So ek_flush_ended() is
 * hooked into the end of the request.
 */
static void ek_finish_request(struct request *rq)
{
	struct ek_data *ek = ek_queue_data(rq->q);
	struct ek_group *g = ek_rq_group(rq);

	if (unlikely(rq->elv.icq))
		ek_fixed_complete(ek, rq, ktime_get_ns());
	if (ek_rq_has_flusher(rq))
		ek_flusher_pays(ek, rq);
	if (g && unlikely(ek_rq_state(rq)->flight))
		ek_rq_left_device(ek, g, rq, false, ktime_get_ns());
	if (unlikely(rq->rq_flags & RQF_FLUSH_SEQ) && !rq->flush.saved_end_io) {
		rq->flush.saved_end_io = ek_flush_end_io;
		rq->fifo_time = ktime_get_ns();
	} else {
		ek_tag_freed(ek, g, rq);
	}
}

static enum hrtimer_restart ek_hold_expired(struct hrtimer *timer)
{
	struct ek_data *ek = container_of(timer, struct ek_data, hold_timer);

	/*
	 * A CPU that found the timer armed for an earlier time did not arm it again: see
	 * ek_hold_arm(). What this CPU wrote before must be visible here. Otherwise nobody
	 * would wake its waiters.
	 */
	smp_mb();
	/* a stale grant keeps the turn of its group, even if no other submitter waits for a tag */
	if (READ_ONCE(ek->nr_waiting) || !list_empty(&ek->grantees))
		ek_gate_kick(ek);
	WRITE_ONCE(ek->on_hold, false);
	blk_mq_run_hw_queues(ek->q, true);
	return HRTIMER_NORESTART;
}

/* Initialisation and exit */

/* ek_limit_closed() limits REQ_NOWAIT requests beyond a group's share to depth 1. */
static void ek_hctx_depth(struct blk_mq_hw_ctx *hctx)
{
	sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
}

static void *ek_alloc_data(struct request_queue *q)
{
	struct ek_data *ek = kzalloc_node(sizeof(*ek), GFP_KERNEL, q->node);

	if (!ek)
		return NULL;
	ek->stash = alloc_percpu(struct ek_stash);
	if (!ek->stash) {
		kfree(ek);
		return NULL;
	}
	ek->q = q;
	spin_lock_init(&ek->lock);
	spin_lock_init(&ek->blame_lock);
	ek_blame_init(&ek->blame, ktime_get_ns());
	ek_core_init(&ek->core, 1, ktime_get_ns());
	INIT_LIST_HEAD(&ek->groups);
	INIT_LIST_HEAD(&ek->dispatch);
	INIT_LIST_HEAD(&ek->writers);
	INIT_LIST_HEAD(&ek->grantees);
	ek_hrtimer_setup(&ek->hold_timer, ek_hold_expired, HRTIMER_MODE_ABS);
	ek_fixed_init(ek);
	ek_tunables_init(ek);
	return ek;
}

static void ek_free_data(void *data)
{
	struct ek_data *ek = data;

	if (!ek)
		return;
	free_percpu(ek->stash);
	kfree(ek);
}

/* Start the elevator on @q. The elevator_data of @eq are from ek_alloc_data(). */
static int ek_start(struct request_queue *q, struct elevator_queue *eq)
{
	int ret;

	q->elevator = eq;
	ret = blkcg_activate_policy(q->disk, &ek_policy);
	if (ret) {
		q->elevator = NULL;
		return ret;
	}
	/* one dispatch at a time serves all hardware queues */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}

static void ek_stop(struct elevator_queue *e)
{
	struct ek_data *ek = e->elevator_data;
	int channel = 0, i;

	ek_fixed_stop(ek);
	hrtimer_cancel(&ek->hold_timer);
	WARN_ON_ONCE(ek->nr_queued || ek->nr_ready || ek->nr_waiting ||
		     !list_empty(&ek->dispatch) || !list_empty(&ek->fixed.ready));
	WARN_ONCE(atomic_read(&ek->tags_used) || atomic_read(&ek->in_flight) ||
		  atomic_read(&ek->core.in_flight) ||
		  atomic64_read(&ek->core.in_flight_cost),
		  "evenkeel: leaked: %d tags, %d in flight, %d of the core\n",
		  atomic_read(&ek->tags_used), atomic_read(&ek->in_flight),
		  atomic_read(&ek->core.in_flight));
	for (i = 0; i < EK_CHANNELS_MAX; i++)
		channel |= atomic_read(&ek->channel_flight[i]);
	WARN_ON_ONCE(channel || atomic_read(&ek->fixed_tags) ||
		     atomic_read(&ek->fixed_in_flight));
	WARN_ON_ONCE(ek->blame.inside || ek->nr_sent);
	ek_stash_clear(ek);
	blkcg_deactivate_policy(ek->q->disk, &ek_policy);
	/* ek_stat_show() may still look at a group, which only RCU protects there */
	synchronize_rcu();
	WARN_ON_ONCE(!list_empty(&ek->groups));
	if (ek->timing)
		blk_stat_disable_accounting(ek->q);
}

static int ek_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int idx)
{
	ek_hctx_depth(hctx);
	return 0;
}

#ifdef EK_DEPTH_OF_QUEUE
static void ek_depth_updated(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		ek_hctx_depth(hctx);
}
#else
#define ek_depth_updated ek_hctx_depth
#endif

#ifdef EK_GIVEN_DATA

#define EK_LIFE_OPS				\
	.alloc_sched_data = ek_alloc_data,	\
	.free_sched_data = ek_free_data,	\
	.init_sched = ek_start,			\
	.exit_sched = ek_stop

#else

static int ek_start_with_data(struct request_queue *q,
			      struct elevator_queue *eq)
{
	int ret = -ENOMEM;

	eq->elevator_data = ek_alloc_data(q);
	if (eq->elevator_data)
		ret = ek_start(q, eq);
	if (ret)
		ek_free_data(eq->elevator_data);
	return ret;
}

static void ek_exit_sched(struct elevator_queue *e)
{
	ek_stop(e);
	ek_free_data(e->elevator_data);
}

#ifdef EK_GIVEN_QUEUE
#define ek_init_sched ek_start_with_data
#else
static int ek_init_sched(struct request_queue *q, struct elevator_type *e)
{
	struct elevator_queue *eq = elevator_alloc(q, e);
	int ret;

	if (!eq)
		return -ENOMEM;
	ret = ek_start_with_data(q, eq);
	if (ret)
		kobject_put(&eq->kobj);
	return ret;
}
#endif

#define EK_LIFE_OPS				\
	.init_sched = ek_init_sched,		\
	.exit_sched = ek_exit_sched

#endif

static struct elevator_type ek_elevator = {
	.ops = {
		EK_LIFE_OPS,
		.init_hctx		= ek_init_hctx,
		.depth_updated		= ek_depth_updated,
		.limit_depth		= ek_limit_depth,
		.prepare_request	= ek_prepare_request,
		.finish_request		= ek_finish_request,
		.allow_merge		= ek_allow_merge,
		.bio_merge		= ek_bio_merge,
		.request_merged		= ek_request_merged,
		.requests_merged	= ek_requests_merged,
		.insert_requests	= ek_insert_requests,
		.dispatch_request	= ek_dispatch_request,
		.has_work		= ek_has_work,
		.completed_request	= ek_completed_request,
	},
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs	= ek_debugfs_attrs,
#endif
	.elevator_attrs		= ek_attrs,
	.elevator_name		= "evenkeel",
	.elevator_owner		= THIS_MODULE,
};

static int __init ek_init(void)
{
	int ret = ek_cgroup_init();

	if (ret)
		return ret;
	ret = elv_register(&ek_elevator);
	if (ret)
		ek_cgroup_exit();
	return ret;
}

static void __exit ek_exit(void)
{
	elv_unregister(&ek_elevator);
	ek_cgroup_exit();
}

module_init(ek_init);
module_exit(ek_exit);

MODULE_ALIAS("evenkeel-iosched");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("evenkeel I/O scheduler: weights that hold on flash");
