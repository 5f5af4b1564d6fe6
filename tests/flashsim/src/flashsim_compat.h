/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels for which flashsim is built: 6.12 and later. */
#ifndef FLASHSIM_COMPAT_H
#define FLASHSIM_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "flashsim needs Linux 6.12 or later"
#endif

static inline void ek_fs_hrtimer_setup(struct hrtimer *timer,
				       enum hrtimer_restart (*fn)(struct hrtimer *))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer->function = fn;
#endif
}

/* Since 6.14 requests are merged by default, and a driver can only opt out. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#define EK_FS_MQ_FLAGS	0
#else
#define EK_FS_MQ_FLAGS	BLK_MQ_F_SHOULD_MERGE
#endif

#endif /* FLASHSIM_COMPAT_H */
