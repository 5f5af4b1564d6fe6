/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels that evenkeel builds on. Built and tested are
 * 6.12 and 7.3, built is 6.18; where another change came between them is from
 * the kernel's history.
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

/* iocost owns the name io.weight where it is built in */
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
 * How an elevator begins changed in steps, and long-term series took over some
 * of them (6.18 between 6.18.2 and 6.18.35): no version says it. Kbuild looks
 * into the kernel's elevator.h and sets
 *   EK_GIVEN_QUEUE     the core allocates the elevator's queue, init_sched gets it
 *   EK_GIVEN_DATA      and by alloc_sched_data the elevator's data, while the
 *                      device is not yet frozen
 *   EK_DEPTH_OF_QUEUE  depth_updated is called for a queue, not for each of its
 *                      hardware queues
 */

/*
 * An elevator's debugfs files then outlive it for a moment, in which the queue
 * has another elevator or none. Before, they are removed first, under a lock
 * that a reader must not wait for.
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
 * When a request was allocated: later kernels leave it to their own accounting,
 * which can be switched off (queue/iostats).
 */
static inline void ek_rq_time_init(struct request *rq)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	if (!blk_queue_io_stat(rq->q))
		rq->start_time_ns = ktime_get_ns();
#endif
}

/*
 * Begin to change what @input, "MAJ:MIN BODY", names: on success @ctx has its
 * blkg and the body, the queue lock is held, and ek_blkg_conf_end() must follow.
 *
 * The core allocates (radix_tree_preload) under blkcg_mutex, which a change of
 * elevator takes with the queue frozen: reclaim must not wait for I/O there.
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
