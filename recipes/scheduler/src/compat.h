/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that evenkeel builds on, 6.12 and later. */
#ifndef EK_COMPAT_H
#define EK_COMPAT_H

#include <linux/version.h>
#include <linux/hrtimer.h>

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
				    enum hrtimer_restart (*fn)(struct hrtimer *))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer->function = fn;
#endif
}

#endif /* EK_COMPAT_H */
