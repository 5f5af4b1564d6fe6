// SPDX-License-Identifier: GPL-2.0-only
/*
 * evenkeel: a blk-mq I/O scheduler for boards with flash storage.
 *
 * Shares a device between cgroups by weight, at any size of I/O and with any
 * number of tags: start-time fair queueing over groups (ek_group.c), behind an
 * admission of requests that is fair itself (ek_gate.c).
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

/*
 * May somebody of another group wait for it? Metadata are read with locks held,
 * and memory is reclaimed by writing to swap, whoever's pages they are.
 */
static bool ek_is_urgent(blk_opf_t opf)
{
	return opf & REQ_SWAP || (opf & REQ_META && !op_is_write(opf));
}

/* Tags are few: whoever has his share of them waits. */
static noinline void ek_limit_closed(struct ek_data *ek, blk_opf_t opf,
				     struct blk_mq_alloc_data *data)
{
	bool async = !op_is_sync(opf);
	struct ek_group *g;

	if (READ_ONCE(ek->nr_active) > 1 || READ_ONCE(ek->fixed.nr))
		data->nr_tags = 1;
	g = ek_current_group(ek, opf);
	if (data->flags & BLK_MQ_REQ_NOWAIT) {
		/* must not sleep: -EAGAIN, as soon as one such request is in */
		if (!ek_gate_fits(ek, g, async)) {
			data->shallow_depth = 1;
			atomic_inc(&ek->nr_nowait_limited);
		}
	} else if (!ek_gate_free(ek, g, async)) {
		ek_gate_admit(ek, g, opf);
		data->nr_tags = 1;
	}
	ek_group_put(g);
}

static void ek_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct ek_data *ek = ek_queue_data(data->q);

	/*
	 * The flush machinery holds these back; they may never be inserted.
	 * Those that are only to be on the medium when they are done (REQ_FUA)
	 * come like any other.
	 */
	if (opf & REQ_PREFLUSH)
		return;
	if (ek_is_urgent(opf))
		return;
	if (unlikely(!ek_gate_open(ek))) {
		ek_limit_closed(ek, opf, data);
		return;
	}
	if (data->nr_tags <= 1)
		return;
	/* a batch passes with one look: of half the tags, one for each CPU */
	if (READ_ONCE(ek->nr_active) > 1 || READ_ONCE(ek->fixed.nr))
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

	/* one that is just being queued is not worth the lock */
	if (READ_ONCE(ek->nr_queued) && ek_bio_merge_queued(ek, bio, nr_segs))
		return true;
	if (unlikely(!ek_gate_open(ek) || ek_stash_left(ek)))
		ek_stash_bio(ek, bio);
	return false;
}

/* A synchronous bio must not wait as part of an asynchronous request. */
static bool ek_allow_merge(struct request_queue *q, struct request *rq,
			   struct bio *bio)
{
	struct ek_group *g = ek_rq_group(rq);

	/* nor one that is not held back as part of one that is */
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

/* A bio became part of @rq, which waits. */
static void ek_request_merged(struct request_queue *q, struct request *rq,
			      enum elv_merge type)
{
	ek_channel_note(ek_queue_data(q), rq);
}

/* @next became part of @rq. It may not have been inserted yet. */
static void ek_requests_merged(struct request_queue *q, struct request *rq,
			       struct request *next)
{
	struct ek_data *ek = ek_queue_data(q);
	struct ek_group *g = ek_rq_group(next);

	lockdep_assert_held(&ek->lock);
	if (g)
		ek_group_remove(ek, g, next);
	ek_unhash(q, next);
	/* request merges do not ask ek_allow_merge(): the sync part decides */
	if (op_is_sync(next->cmd_flags) && !op_is_sync(rq->cmd_flags)) {
		rq->cmd_flags |= REQ_SYNC;
		list_move_tail(&rq->queuelist,
			       &ek_rq_group(rq)->fifo[ek_rq_class(rq)]);
	}
	ek_channel_note(ek, rq);
}

/* Insertion */

static void ek_insert_request(struct ek_data *ek, struct request *rq,
			      blk_insert_t flags, struct list_head *free)
{
	struct request_queue *q = ek->q;
	struct ek_group *g;

	/*
	 * Requeued by the driver or told to go first: already paid for. And a
	 * request that a plug had cached for passthrough is not ours to account:
	 * we would never hear of its end.
	 */
	if (!(rq->rq_flags & RQF_USE_SCHED) || ek_rq_group(rq) ||
	    (flags & BLK_MQ_INSERT_AT_HEAD)) {
		list_add(&rq->queuelist, &ek->dispatch);
		WRITE_ONCE(ek->nr_ready, ek->nr_ready + 1);
		WRITE_ONCE(ek->on_hold, false);
		return;
	}
	g = ek_bio_group(ek, rq->bio);
	/*
	 * Not discards: the core merges several of them in a row without
	 * requests_merged(), and would free one that is still queued here.
	 */
	if (ek->nr_queued && !READ_ONCE(g->fixed) && !blk_discard_mergable(rq) &&
	    blk_mq_sched_try_insert_merge(q, rq, free)) {
		g->merged[op_is_write(req_op(rq))]++;
		g->pending = 0;
		return;
	}
	trace_block_rq_insert(rq);
	if (atomic_inc_return(&g->held) == 1)
		ek_group_get(g);
	rq->elv.priv[0] = g;
	if (rq_mergeable(rq) && !READ_ONCE(g->fixed)) {
		elv_rqhash_add(q, rq);
		if (!q->last_merge)
			q->last_merge = rq;
	}
	ek_group_add(ek, g, rq);
}

/*
 * For a request that comes alone, not from a plug, blk_mq_submit_bio() sends a
 * worker. In a kernel that can be preempted it runs at once: two context switches
 * for one request. There it is dispatched here, and the worker is not even woken;
 * but not by who is about to sleep, or may not, where queue_rq() might sleep.
 */
static bool ek_dispatch_here(struct blk_mq_hw_ctx *hctx, struct list_head *list)
{
	return IS_ENABLED(CONFIG_PREEMPTION) && list_is_singular(list) &&
	       task_is_running(current) &&
	       (!(hctx->flags & BLK_MQ_F_BLOCKING) ||
		!(list_first_entry(list, struct request, queuelist)->cmd_flags & REQ_NOWAIT));
}

static void ek_insert_requests(struct blk_mq_hw_ctx *hctx,
			       struct list_head *list, blk_insert_t flags)
{
	struct ek_data *ek = ek_queue_data(hctx->queue);
	bool here = ek_dispatch_here(hctx, list);
	struct request *rq, *next;
	LIST_HEAD(free);

	if (unlikely(READ_ONCE(ek->fixed.nr)) &&
	    !(flags & BLK_MQ_INSERT_AT_HEAD))
		list_for_each_entry(rq, list, queuelist)
			ek_fixed_hook(ek, rq);
	/* once it is inserted it may complete, and with it the last hold on us */
	if (here)
		percpu_ref_get(&hctx->queue->q_usage_counter);
	spin_lock_irq(&ek->lock);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		ek_insert_request(ek, rq, flags, &free);
	}
	/* insertion changes who is ahead */
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

	spin_lock_irq(&ek->lock);
	rq = list_first_entry_or_null(&ek->dispatch, struct request, queuelist);
	if (rq) {
		list_del_init(&rq->queuelist);
		WRITE_ONCE(ek->nr_ready, ek->nr_ready - 1);
	} else {
		rq = ek_next(ek);
		if (rq)
			ek_unhash(ek->q, rq);
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

/* @rq left the device, done or not. Any context. */
static void ek_rq_left_device(struct ek_data *ek, struct ek_group *g,
			      struct request *rq)
{
	struct ek_flight in = ek_rq_flight(rq);

	if (!in.kb)
		return;
	ek_rq_set_flight(rq, (struct ek_flight){});
	if (unlikely(in.channel != EK_CHANNEL_NONE))
		atomic_dec(&ek->channel_flight[in.channel]);
	atomic_sub(in.kb, &ek->in_flight_kb);
	if (unlikely(READ_ONCE(g->regulated)))
		atomic_dec(&ek->fixed_in_flight);
	/* before it is known to have left: see ek_group_expected() */
	if (unlikely(ek_rq_erases(rq))) {
		atomic_dec(&ek->erasing);
		atomic_dec(&g->erasing);
	}
	/* with nothing in the device it may change: see ek_fixed_enter() */
	smp_mb__before_atomic();
	atomic_dec(&g->in_flight);
	if (atomic_dec_and_test(&ek->in_flight))
		WRITE_ONCE(ek->idled, true);
	/* pairs with the barrier in ek_next(): one of us sees the other */
	smp_mb__after_atomic();
	if (READ_ONCE(ek->on_hold)) {
		WRITE_ONCE(ek->on_hold, false);
		blk_mq_run_hw_queues(ek->q, true);
	}
}

/* The request that is timed was completed: only its completion is here. */
static void ek_sampled(struct ek_data *ek, u64 now)
{
	u64 begin = READ_ONCE(ek->sample_at);
	u32 us = now > begin ? min_t(u64, div_u64(now - begin, 1000),
				     USEC_PER_SEC) : 0;
	u32 old;

	WRITE_ONCE(ek->sample, NULL);
	us = max(us, 1U);
	old = READ_ONCE(ek->small_us);
	WRITE_ONCE(ek->small_us, old ? ek_think(old, us) : us);
}

/* @rq left the device without having been served. */
static void ek_rq_unserved(struct ek_data *ek, struct ek_group *g,
			   struct request *rq)
{
	if (READ_ONCE(ek->sample) == rq)
		WRITE_ONCE(ek->sample, NULL);
	ek_rq_left_device(ek, g, rq);
}

/* Somebody wants to know of @rq when it was completed. */
static noinline void ek_completed_measured(struct ek_data *ek,
					   struct ek_group *g,
					   struct request *rq, u64 now)
{
	ek_account(g, rq, now);
	if (READ_ONCE(ek->sample) == rq)
		ek_sampled(ek, now);
	if (READ_ONCE(ek->fixed.nr))
		ek_fixed_learn(ek, rq, now);
	/* before its group may send the next, which is due after it */
	if (rq->elv.icq)
		ek_fixed_complete(ek, rq, now);
	ek_rq_left_device(ek, g, rq);
}

static void ek_completed_request(struct request *rq, u64 now)
{
	struct ek_data *ek = ek_queue_data(rq->q);
	struct ek_group *g = ek_rq_group(rq);

	if (!g)
		return;
	WRITE_ONCE(g->last_done, now);
	if (unlikely(READ_ONCE(g->histograms) || READ_ONCE(ek->sample) == rq ||
		     READ_ONCE(ek->fixed.nr) || rq->elv.icq))
		ek_completed_measured(ek, g, rq, now);
	else
		ek_rq_left_device(ek, g, rq);
}

/* The driver gives @rq back; it comes again through ek_insert_requests(). */
static void ek_requeue_request(struct request *rq)
{
	struct ek_group *g = ek_rq_group(rq);

	if (g)
		ek_rq_unserved(ek_queue_data(rq->q), g, rq);
}

/* The tag of @rq, which is of @g or of nobody, is free. Any context. */
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

/* The flush after the data of @rq is done, too. Under the flush queue's lock. */
static enum rq_end_io_ret ek_flush_ended(struct request *rq)
{
	struct ek_group *g = ek_rq_group(rq);

	if (g)
		atomic_dec(&g->flushing);
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
 * @rq is about to be freed, whether it was ever inserted or not; or its data are
 * written, and it waits with its tag for the flush that makes them last, which
 * the core tells nobody: then it is us who ends it.
 */
static void ek_finish_request(struct request *rq)
{
	struct ek_data *ek = ek_queue_data(rq->q);
	struct ek_group *g = ek_rq_group(rq);

	if (unlikely(rq->elv.icq))
		ek_fixed_complete(ek, rq, ktime_get_ns());
	if (g && unlikely(ek_rq_flight(rq).kb))
		ek_rq_unserved(ek, g, rq);
	if (unlikely(rq->rq_flags & RQF_FLUSH_SEQ) && !rq->flush.saved_end_io) {
		rq->flush.saved_end_io = ek_flush_end_io;
		if (g)
			atomic_inc(&g->flushing);
		/* the gate may have waited for its completion: ek_rq_left_device() has a barrier */
		if (READ_ONCE(ek->nr_waiting))
			ek_gate_kick(ek);
	} else {
		ek_tag_freed(ek, g, rq);
	}
}

static enum hrtimer_restart ek_hold_expired(struct hrtimer *timer)
{
	struct ek_data *ek = container_of(timer, struct ek_data, hold_timer);

	/*
	 * Who saw the timer armed for earlier did not arm it: what he wrote before
	 * must not be undone, and who waits be seen, after this has begun.
	 */
	smp_mb();
	if (READ_ONCE(ek->nr_waiting))
		ek_gate_kick(ek);
	WRITE_ONCE(ek->on_hold, false);
	blk_mq_run_hw_queues(ek->q, true);
	return HRTIMER_NORESTART;
}

/* Life */

/* REQ_NOWAIT beyond a group's share is limited to depth 1 */
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
	ek->backlogged = RB_ROOT_CACHED;
	ek->awaited = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&ek->dispatch);
	INIT_LIST_HEAD(&ek->gate);
	ek->tick = jiffies;
	ek->sampled = jiffies;
	ek->shared = jiffies;
	ek->light = jiffies;
	ek_hrtimer_setup(&ek->hold_timer, ek_hold_expired, HRTIMER_MODE_REL);
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

/* @eq has our data */
static int ek_start(struct request_queue *q, struct elevator_queue *eq)
{
	int ret;

	q->elevator = eq;
	ret = blkcg_activate_policy(q->disk, &ek_policy);
	if (ret) {
		q->elevator = NULL;
		return ret;
	}
	/* dispatch is for the whole queue, not by hardware queue */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	ek_window_init(ek_queue_data(q));
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
		  atomic_read(&ek->in_flight_kb),
		  "evenkeel: leaked: %d tags, %d in flight, %d KiB\n",
		  atomic_read(&ek->tags_used), atomic_read(&ek->in_flight),
		  atomic_read(&ek->in_flight_kb));
	for (i = 0; i < EK_CHANNELS_MAX; i++)
		channel |= atomic_read(&ek->channel_flight[i]);
	WARN_ON_ONCE(channel || atomic_read(&ek->fixed_tags) ||
		     atomic_read(&ek->fixed_in_flight));
	ek_groups_clear(ek);
	ek_stash_clear(ek);
	blkcg_deactivate_policy(ek->q->disk, &ek_policy);
	/* who looks (ek_stat_show) may do so under RCU alone; then nobody does */
	synchronize_rcu();
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
		.requeue_request	= ek_requeue_request,
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
