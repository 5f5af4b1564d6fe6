// SPDX-License-Identifier: GPL-2.0-only
/*
 * fifo: an I/O scheduler that serves requests in order of arrival and ignores
 * weights. The tests of the lab use it: its bench must miss the targets for shares.
 * It is also a short example of a scheduler that the lab builds from one file.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/version.h>

#include "elevator.h"
#include "blk-mq.h"
#include "blk-mq-sched.h"

struct fifo_data {
	spinlock_t lock;	/* requests */
	struct list_head requests;
};

static void fifo_insert_requests(struct blk_mq_hw_ctx *hctx,
				 struct list_head *list, blk_insert_t flags)
{
	struct fifo_data *fifo = hctx->queue->elevator->elevator_data;

	spin_lock_irq(&fifo->lock);
	if (flags & BLK_MQ_INSERT_AT_HEAD)
		list_splice_init(list, &fifo->requests);
	else
		list_splice_tail_init(list, &fifo->requests);
	spin_unlock_irq(&fifo->lock);
}

static struct request *fifo_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct fifo_data *fifo = hctx->queue->elevator->elevator_data;
	struct request *rq;

	spin_lock_irq(&fifo->lock);
	rq = list_first_entry_or_null(&fifo->requests, struct request,
				      queuelist);
	if (rq)
		list_del_init(&rq->queuelist);
	spin_unlock_irq(&fifo->lock);
	return rq;
}

static bool fifo_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct fifo_data *fifo = hctx->queue->elevator->elevator_data;

	return !list_empty_careful(&fifo->requests);
}

/* The elevator core requires this function. fifo keeps no data per request. */
static void fifo_finish_request(struct request *rq)
{
}

static void *fifo_alloc_data(struct request_queue *q)
{
	struct fifo_data *fifo = kzalloc_node(sizeof(*fifo), GFP_KERNEL,
					      q->node);

	if (!fifo)
		return NULL;
	spin_lock_init(&fifo->lock);
	INIT_LIST_HEAD(&fifo->requests);
	return fifo;
}

/* all hardware queues share one list */
static void fifo_start(struct request_queue *q, struct elevator_queue *eq)
{
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	q->elevator = eq;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)

static void fifo_free_data(void *data)
{
	kfree(data);
}

static int fifo_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	fifo_start(q, eq);
	return 0;
}

#define FIFO_LIFE_OPS				\
	.alloc_sched_data = fifo_alloc_data,	\
	.free_sched_data = fifo_free_data,	\
	.init_sched = fifo_init_sched

#else

static int fifo_init_sched(struct request_queue *q, struct elevator_type *e)
{
	struct elevator_queue *eq = elevator_alloc(q, e);

	if (!eq)
		return -ENOMEM;
	eq->elevator_data = fifo_alloc_data(q);
	if (!eq->elevator_data) {
		kobject_put(&eq->kobj);
		return -ENOMEM;
	}
	fifo_start(q, eq);
	return 0;
}

static void fifo_exit_sched(struct elevator_queue *e)
{
	kfree(e->elevator_data);
}

#define FIFO_LIFE_OPS				\
	.init_sched = fifo_init_sched,		\
	.exit_sched = fifo_exit_sched

#endif

static struct elevator_type fifo_elevator = {
	.ops = {
		FIFO_LIFE_OPS,
		.insert_requests	= fifo_insert_requests,
		.dispatch_request	= fifo_dispatch_request,
		.has_work		= fifo_has_work,
		.finish_request		= fifo_finish_request,
	},
	.elevator_name	= "fifo",
	.elevator_owner	= THIS_MODULE,
};

static int __init fifo_init(void)
{
	return elv_register(&fifo_elevator);
}

static void __exit fifo_exit(void)
{
	elv_unregister(&fifo_elevator);
}

module_init(fifo_init);
module_exit(fifo_exit);

MODULE_ALIAS("fifo-iosched");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("FIFO I/O scheduler: no weights");
