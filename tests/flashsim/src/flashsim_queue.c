// SPDX-License-Identifier: GPL-2.0-only
/*
 * The blk-mq driver: submits requests to the timing model, and completes them at
 * the time that the model computes. Each device has one timer.
 *
 * Invariant: a request is completed exactly once. It belongs to the model from
 * ek_flash_submit() until it is reaped, aborted or taken. Each of these happens
 * under model_lock and at most once, and the function that got the request back
 * completes it.
 *
 * With blocking=1 the driver works like the mmc driver: queue_rq takes one request
 * at a time, and sleeps until the device is ready for it (ek_flash_waits_before(),
 * ek_flash_waits_after()). So without CQE one request is prepared while another is
 * in the device, and all others stay in the scheduler.
 *
 * Who completes a request also depends on CQE, as in mmc_blk_mq_req_done(). With CQE
 * the interrupt does (here the timer), as in drivers of other devices. Without CQE
 * queue_rq does if it waits for the device, after it has sent its own request; else a
 * worker does.
 */
#include "flashsim.h"

#define CREATE_TRACE_POINTS
#include "flashsim_trace.h"

struct ek_fs_cmd {
	struct ek_flash_req req;
	unsigned long epoch;	/* the epoch that this flush makes durable */
	blk_status_t error;
};

static struct workqueue_struct *ek_fs_complete_wq;

size_t ek_fs_cmd_size(void)
{
	return sizeof(struct ek_fs_cmd);
}

static struct ek_fs_cmd *ek_fs_to_cmd(struct ek_flash_req *req)
{
	return container_of(req, struct ek_fs_cmd, req);
}

static void ek_fs_complete_rq(struct request *rq)
{
	struct ek_fs_cmd *cmd = blk_mq_rq_to_pdu(rq);

	blk_mq_end_request(rq, cmd->error);
}

/* Count and trace a request just before its completion. */
static void ek_fs_account(struct ek_fs_dev *dev, struct ek_flash_req *req)
{
	struct ek_fs_cmd *cmd = ek_fs_to_cmd(req);

	lockdep_assert_held(&dev->model_lock);
	if (req->op <= EK_FS_WRITE) {
		struct ek_fs_region *region =
			&dev->region[ek_flash_region(&dev->params, req->sector)];

		region->ios[req->op]++;
		region->bytes[req->op] += req->bytes;
		region->ns[req->op] += req->done - req->arrive;
	} else if (req->op == EK_FS_FLUSH && !cmd->error) {
		/* flushes may complete in another order than they began */
		if (dev->store.durable < cmd->epoch)
			WRITE_ONCE(dev->store.durable, cmd->epoch);
	}
	if (cmd->error)
		dev->errors++;
	trace_flashsim_request(dev->name, req, blk_mq_rq_from_pdu(cmd)->tag,
			       blk_status_to_errno(cmd->error));
}

/* Move the requests that are done to @done, and set the timer for the next one. */
static void ek_fs_reap(struct ek_fs_dev *dev, u64 now, struct ek_fs_list *done)
{
	struct ek_flash_req *req;
	u64 next;

	lockdep_assert_held(&dev->model_lock);
	while ((req = ek_flash_reap(dev->model, now))) {
		ek_fs_account(dev, req);
		req->next = NULL;
		if (done->tail)
			done->tail->next = req;
		else
			done->head = req;
		done->tail = req;
	}
	next = ek_flash_next(dev->model);
	/*
	 * Set the timer only if it must expire earlier. A timer that expires too early finds
	 * nothing done and is set again.
	 */
	if (next < dev->armed) {
		dev->armed = next;
		hrtimer_start(&dev->timer, ns_to_ktime(next), HRTIMER_MODE_ABS);
	}
}

/*
 * Requests have left the model. Call this before they are completed, because the
 * device may be removed after its last request is completed.
 */
static void ek_fs_wake(struct ek_fs_dev *dev)
{
	if (wq_has_sleeper(&dev->idle))
		wake_up(&dev->idle);
}

static void ek_fs_complete_all(struct ek_fs_dev *dev, struct ek_fs_list *done)
{
	struct ek_flash_req *req = done->head, *next;

	if (req)
		ek_fs_wake(dev);
	for (; req; req = next) {
		next = req->next;
		blk_mq_complete_request(blk_mq_rq_from_pdu(ek_fs_to_cmd(req)));
	}
}

/* Take the requests that the timer found done. Empty with CQE. */
static struct ek_fs_list ek_fs_take_done(struct ek_fs_dev *dev)
{
	struct ek_fs_list done = dev->done;

	lockdep_assert_held(&dev->model_lock);
	dev->done = (struct ek_fs_list){};
	return done;
}

/* Complete the requests that the timer found done. Process context. */
static void ek_fs_complete_done(struct ek_fs_dev *dev)
{
	struct ek_flash_req *req, *next;
	struct ek_fs_list done;
	unsigned long flags;

	spin_lock_irqsave(&dev->model_lock, flags);
	done = ek_fs_take_done(dev);
	spin_unlock_irqrestore(&dev->model_lock, flags);
	for (req = done.head; req; req = next) {
		next = req->next;
		blk_mq_complete_request_direct(blk_mq_rq_from_pdu(ek_fs_to_cmd(req)),
					       ek_fs_complete_rq);
	}
}

void ek_fs_complete_work(struct work_struct *work)
{
	ek_fs_complete_done(container_of(work, struct ek_fs_dev, complete));
}

enum hrtimer_restart ek_fs_timer(struct hrtimer *timer)
{
	struct ek_fs_dev *dev = container_of(timer, struct ek_fs_dev, timer);
	bool defer = ek_flash_completes_later(&dev->params), queue = false;
	struct ek_fs_list done = {};
	unsigned long flags;

	spin_lock_irqsave(&dev->model_lock, flags);
	dev->armed = EK_FS_NEVER;
	ek_fs_reap(dev, ktime_get_ns(), defer ? &dev->done : &done);
	if (dev->done.head) {
		/* a sleeper saw the device busy under this lock; it takes the list */
		queue = !wq_has_sleeper(&dev->idle);
		if (!queue)
			wake_up(&dev->idle);
	}
	spin_unlock_irqrestore(&dev->model_lock, flags);
	if (queue)
		queue_work(ek_fs_complete_wq, &dev->complete);
	ek_fs_complete_all(dev, &done);
	return HRTIMER_NORESTART;
}

/* The injected fault for this request, if any. A request that fails takes its normal time. */
static blk_status_t ek_fs_fault(struct ek_fs_dev *dev, const struct ek_flash_req *req)
{
	if (dev->fail_every && ++dev->fail_count >= dev->fail_every) {
		dev->fail_count = 0;
		return BLK_STS_IOERR;
	}
	if (dev->fail_sectors && req->op <= EK_FS_WRITE &&
	    req->sector < dev->fail_lba + dev->fail_sectors &&
	    req->sector + (req->bytes >> SECTOR_SHIFT) > dev->fail_lba)
		return BLK_STS_MEDIUM;
	return BLK_STS_OK;
}

static bool ek_fs_is_idle(struct ek_fs_dev *dev)
{
	unsigned long flags;
	bool idle;

	spin_lock_irqsave(&dev->model_lock, flags);
	idle = !dev->model->inside;
	spin_unlock_irqrestore(&dev->model_lock, flags);
	return idle;
}

/* Abort the request that hangs, if there is one. */
static void ek_fs_abort_hung(struct ek_fs_dev *dev)
{
	struct ek_fs_list done = {};
	struct ek_flash_req *req;
	unsigned long flags;
	u64 now;

	spin_lock_irqsave(&dev->model_lock, flags);
	now = ktime_get_ns();
	req = ek_flash_hung(dev->model);
	if (req && ek_flash_abort(dev->model, req, now)) {
		ek_fs_to_cmd(req)->error = BLK_STS_TIMEOUT;
		dev->timeouts++;
		ek_fs_account(dev, req);
		req->next = NULL;
		done.head = req;
		done.tail = req;
	}
	ek_fs_reap(dev, now, &done);
	spin_unlock_irqrestore(&dev->model_lock, flags);
	ek_fs_complete_all(dev, &done);
}

/*
 * Sleep until no request is in the device.
 *
 * The block layer's timeout waits for queue_rq, so it cannot abort a request for
 * which queue_rq waits. So this function has a timeout, as the mmc core has.
 */
static void ek_fs_wait_idle(struct ek_fs_dev *dev)
{
	while (!wait_event_timeout(dev->idle, ek_fs_is_idle(dev), dev->tags.timeout))
		ek_fs_abort_hung(dev);
}

/* Returns false if queue_rq works on another request. */
static bool ek_fs_issue_begin(struct ek_fs_dev *dev)
{
	unsigned long flags;
	bool begin;

	spin_lock_irqsave(&dev->model_lock, flags);
	begin = !dev->issuing;
	dev->issuing = true;
	spin_unlock_irqrestore(&dev->model_lock, flags);
	return begin;
}

static void ek_fs_issue_end(struct ek_fs_dev *dev)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->model_lock, flags);
	dev->issuing = false;
	spin_unlock_irqrestore(&dev->model_lock, flags);
}

static blk_status_t ek_fs_issue(struct ek_fs_dev *dev, struct request *rq)
{
	struct ek_fs_cmd *cmd = blk_mq_rq_to_pdu(rq);
	struct ek_fs_list done = {};
	unsigned long flags;
	blk_status_t error;
	enum ek_fs_op op;
	bool cut;
	u64 now;

	switch (req_op(rq)) {
	case REQ_OP_READ:
		cmd->req.op = EK_FS_READ;
		break;
	case REQ_OP_WRITE:
		cmd->req.op = EK_FS_WRITE;
		break;
	case REQ_OP_FLUSH:
		cmd->req.op = EK_FS_FLUSH;
		break;
	case REQ_OP_DISCARD:
		cmd->req.op = EK_FS_DISCARD;
		break;
	default:
		return BLK_STS_NOTSUPP;
	}
	op = cmd->req.op;
	cmd->req.sector = req_op(rq) == REQ_OP_FLUSH ? 0 : blk_rq_pos(rq);
	cmd->req.bytes = req_op(rq) == REQ_OP_FLUSH ? 0 : blk_rq_bytes(rq);
	cmd->req.fua = rq->cmd_flags & REQ_FUA;
	cmd->req.state = EK_FS_IDLE;
	cmd->epoch = 0;
	blk_mq_start_request(rq);

	spin_lock_irqsave(&dev->model_lock, flags);
	error = dev->cut ? BLK_STS_OFFLINE : BLK_STS_OK;
	cmd->error = error ?: ek_fs_fault(dev, &cmd->req);
	spin_unlock_irqrestore(&dev->model_lock, flags);
	if (error)
		return error;
	if (dev->params.memory_backed && !cmd->error)
		cmd->error = ek_fs_store_rq(&dev->store, rq, &cmd->epoch);
	if (ek_flash_waits_before(&dev->params, op))
		ek_fs_wait_idle(dev);

	spin_lock_irqsave(&dev->model_lock, flags);
	/* also without power: the timer leaves what it found done to a process that waits */
	done = ek_fs_take_done(dev);
	cut = dev->cut;
	if (!cut) {
		now = ktime_get_ns();
		ek_flash_submit(dev->model, &cmd->req, now);
		ek_fs_reap(dev, now, &done);
	}
	spin_unlock_irqrestore(&dev->model_lock, flags);
	ek_fs_complete_all(dev, &done);
	if (cut)
		return BLK_STS_OFFLINE;
	/* @rq may be completed and reused by now. No other request enters: issuing is set. */
	if (ek_flash_waits_after(&dev->params, op)) {
		ek_fs_wait_idle(dev);
		ek_fs_complete_done(dev);
	}
	return BLK_STS_OK;
}

static blk_status_t ek_fs_queue_rq(struct blk_mq_hw_ctx *hctx,
				   const struct blk_mq_queue_data *bd)
{
	struct ek_fs_dev *dev = hctx->queue->queuedata;
	blk_status_t error;

	if (!dev->params.blocking)
		return ek_fs_issue(dev, bd->rq);
	if (!ek_fs_issue_begin(dev))
		return BLK_STS_RESOURCE;
	error = ek_fs_issue(dev, bd->rq);
	ek_fs_issue_end(dev);
	return error;
}

/*
 * Abort a request that hangs. A request that waits behind it is not aborted: the
 * device continues as soon as the hanging request is gone.
 */
static enum blk_eh_timer_return ek_fs_timeout(struct request *rq)
{
	struct ek_fs_dev *dev = rq->q->queuedata;
	struct ek_fs_cmd *cmd = blk_mq_rq_to_pdu(rq);
	struct ek_fs_list done = {};
	unsigned long flags;
	u64 now;

	spin_lock_irqsave(&dev->model_lock, flags);
	if (cmd->req.state == EK_FS_IDLE) {
		/* not submitted to the model yet, or already being completed */
		spin_unlock_irqrestore(&dev->model_lock, flags);
		return blk_mq_request_completed(rq) ? BLK_EH_DONE : BLK_EH_RESET_TIMER;
	}
	now = ktime_get_ns();
	if (!cmd->req.hung || !ek_flash_abort(dev->model, &cmd->req, now)) {
		ek_fs_reap(dev, now, &done);
		spin_unlock_irqrestore(&dev->model_lock, flags);
		ek_fs_complete_all(dev, &done);
		return BLK_EH_RESET_TIMER;
	}
	cmd->error = BLK_STS_TIMEOUT;
	dev->timeouts++;
	ek_fs_account(dev, &cmd->req);
	ek_fs_reap(dev, now, &done);
	spin_unlock_irqrestore(&dev->model_lock, flags);
	ek_fs_wake(dev);
	blk_mq_complete_request(rq);
	ek_fs_complete_all(dev, &done);
	return BLK_EH_DONE;
}

/* Cut the power: all requests in the device fail, and so do all later ones. */
void ek_fs_cut_power(struct ek_fs_dev *dev)
{
	struct ek_fs_list done = {};
	struct ek_flash_req *req;
	unsigned long flags;

	spin_lock_irqsave(&dev->model_lock, flags);
	dev->cut = true;
	/* requests that are done before the cut succeed */
	ek_fs_reap(dev, ktime_get_ns(), &done);
	while ((req = ek_flash_take(dev->model))) {
		ek_fs_to_cmd(req)->error = BLK_STS_IOERR;
		ek_fs_account(dev, req);
		req->next = done.head;
		if (!done.head)
			done.tail = req;
		done.head = req;
	}
	spin_unlock_irqrestore(&dev->model_lock, flags);
	ek_fs_complete_all(dev, &done);
}

void ek_fs_restore_power(struct ek_fs_dev *dev)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->model_lock, flags);
	ek_flash_init(dev->model, &dev->params, ktime_get_ns());
	dev->cut = false;
	spin_unlock_irqrestore(&dev->model_lock, flags);
}

int ek_fs_queue_init(void)
{
	/* as the mmc driver's queue */
	ek_fs_complete_wq = alloc_workqueue("flashsim_complete", WQ_MEM_RECLAIM | WQ_HIGHPRI, 0);
	return ek_fs_complete_wq ? 0 : -ENOMEM;
}

void ek_fs_queue_exit(void)
{
	destroy_workqueue(ek_fs_complete_wq);
}

const struct blk_mq_ops ek_fs_mq_ops = {
	.queue_rq = ek_fs_queue_rq,
	.complete = ek_fs_complete_rq,
	.timeout = ek_fs_timeout,
};
