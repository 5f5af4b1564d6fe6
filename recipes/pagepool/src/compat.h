/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that evenkeel_pagepool builds on. */
#ifndef EK_POOL_COMPAT_H
#define EK_POOL_COMPAT_H

#include <linux/fprobe.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "evenkeel_pagepool needs Linux 6.12 or later"
#endif
#ifndef CONFIG_64BIT
#error "evenkeel_pagepool needs a 64-bit kernel: it keeps 64-bit counters without locks"
#endif

/* the registers that an fprobe passes to its handlers, and argument n of the probed function */
#ifdef EK_FTRACE_REGS
#define ek_regs struct ftrace_regs
#define ek_argument(regs, n) ftrace_regs_get_argument(regs, n)
#else
#define ek_regs struct pt_regs
#define ek_argument(regs, n) regs_get_kernel_argument(regs, n)
#endif

/* Set how many calls an fprobe follows at once. Kernels without this field have no limit. */
static inline void ek_limit_calls(struct fprobe *probe, int calls)
{
#ifdef EK_LIMITED_CALLS
	probe->nr_maxactive = calls;
#endif
}

/*
 * The list entry by which a dentry is a name of its inode. It is in a union, which has a name in
 * Linux 6.12 and none in later kernels.
 */
#ifdef EK_NAMED_UNION
#define EK_ALIAS d_u.d_alias
#else
#define EK_ALIAS d_alias
#endif

#endif
