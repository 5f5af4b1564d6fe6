/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernel versions that evenkeel supports. 6.12 and 7.3 are built and
 * tested, 6.18 is only built. For versions between these, the conditions follow the kernel's
 * git history.
 */
#ifndef EK_COMPAT_H
#define EK_COMPAT_H

#include <linux/version.h>
#include <linux/hrtimer.h>
#include <linux/sched/mm.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "evenkeel needs Linux 6.12 or later"
#endif
#ifndef CONFIG_BLK_CGROUP
#error "evenkeel needs CONFIG_BLK_CGROUP=y: its groups are cgroups"
#endif
#ifndef CONFIG_64BIT
#error "evenkeel needs a 64-bit kernel: it keeps 64-bit counters without locks"
#endif

/* If iocost is built into the kernel, it owns the file io.weight. */
#ifdef CONFIG_BLK_CGROUP_IOCOST
#define EK_WEIGHT_FILE "evenkeel.weight"
#else
#define EK_WEIGHT_FILE "weight"
#endif

static inline void ek_hrtimer_setup(struct hrtimer *timer,
				    enum hrtimer_restart (*fn)(struct hrtimer *),
				    enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = fn;
#endif
}

/*
 * The initialisation of elevators changed in several steps. Long-term kernels took over some
 * of them (6.18 did between 6.18.2 and 6.18.35), so a version number does not show which a
 * kernel has. Kbuild looks into the kernel's headers instead, and defines
 *   EK_GIVEN_QUEUE     if the block layer allocates the elevator_queue and passes it to
 *                      init_sched
 *   EK_GIVEN_DATA      if the block layer also has alloc_sched_data allocate the elevator's
 *                      data, before it freezes the queue
 *   EK_DEPTH_OF_QUEUE  if depth_updated is called once for a request queue, instead of once
 *                      for each hardware queue
 *   EK_END_IO_OF_BATCH if the end_io function of a request has a third parameter, a batch
 */

/*
 * With this, the debugfs files of an elevator outlive it for a moment. In this moment the
 * queue has another elevator or none, so a reader needs the elevator lock. Without this, the
 * files are removed first, under the elevator lock, so a reader must not wait for the lock.
 */
#if defined(EK_GIVEN_QUEUE) || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define EK_DEBUGFS_OUTLIVES
#endif

static inline void ek_elevator_lock(struct request_queue *q)
{
#ifdef EK_DEBUGFS_OUTLIVES
	mutex_lock(&q->elevator_lock);
#endif
}

static inline void ek_elevator_unlock(struct request_queue *q)
{
#ifdef EK_DEBUGFS_OUTLIVES
	mutex_unlock(&q->elevator_lock);
#endif
}

/*
 * Set the time at which @rq was allocated. From 6.13 on, the kernel sets it only for its own
 * accounting, which queue/iostats can switch off.
 */
static inline void ek_rq_time_init(struct request *rq)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	if (!blk_queue_io_stat(rq->q))
		rq->start_time_ns = ktime_get_ns();
#endif
}

/*
 * The next request that this task starts gets the present time, not an older one from the plug.
 * The same as blk_plug_invalidate_ts(), which has different parameters, also within a long-term
 * kernel. In some kernels, a task inherits the flag at fork() and has no plug. Process context.
 */
static inline void ek_plug_time_expire(void)
{
	if (unlikely(current->flags & PF_BLOCK_TS)) {
		if (current->plug)
			current->plug->cur_ktime = 0;
		current->flags &= ~PF_BLOCK_TS;
	}
}

/*
 * Begin a change of the setting that @input names: "MAJ:MIN BODY". On success, @ctx has the
 * blkg of @blkcg on that device, and BODY. The queue lock is held, and ek_blkg_conf_end() must
 * follow.
 *
 * The block layer allocates memory under blkcg_mutex (radix_tree_preload). A change of the
 * elevator takes blkcg_mutex while the queue is frozen. So reclaim must not wait for I/O here
 * (noio).
 */
static inline int ek_blkg_conf_begin(struct blkg_conf_ctx *ctx, char *input,
				     struct blkcg *blkcg,
				     const struct blkcg_policy *policy)
{
	unsigned int noio = memalloc_noio_save();
	int ret;

	blkg_conf_init(ctx, input);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0)
	ret = blkg_conf_open_bdev(ctx);
	if (!ret) {
		ret = blkg_conf_prep(blkcg, policy, ctx);
		if (ret)
			blkg_conf_close_bdev(ctx);
	}
#else
	ret = blkg_conf_prep(blkcg, policy, ctx);
	if (ret)
		blkg_conf_exit(ctx);
#endif
	memalloc_noio_restore(noio);
	return ret;
}

static inline void ek_blkg_conf_end(struct blkg_conf_ctx *ctx)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0)
	blkg_conf_unprep(ctx);
	blkg_conf_close_bdev(ctx);
#else
	blkg_conf_exit(ctx);
#endif
}

#endif /* EK_COMPAT_H */
