/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that the policy core uses of its environment: integers, atomics, a list and a tree.
 * The kernel has its own. For user space, sim/kernel.h has replacements with the same
 * names. The core must use nothing else of the kernel or of libc.
 */
#ifndef EK_CORE_TYPES_H
#define EK_CORE_TYPES_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/rbtree.h>
#include <linux/string.h>
#include <linux/time64.h>
#else
#include "../sim/kernel.h"
#endif
#include "share.h"

#define EK_US	1000ULL
#define EK_MS	1000000ULL
#define EK_SEC	1000000000ULL

/* The number of fraction bits of a q16 value: a ratio, or a rate in nanoseconds per byte. */
#define EK_Q	16
/* The ratio 1 as a q16 value. */
#define EK_ONE	65536ULL	/* 2^EK_Q */
/* @p percent as a q16 ratio */
#define EK_PERCENT(p)	((p) * EK_ONE / 100)

/* The product of @a and @b, of which one is a q16 value. @a * @b must be below 2^64. */
static inline u64 ek_mul(u64 a, u64 b)
{
	return (a * b) >> EK_Q;
}

/* @a / @b as a q16 ratio; 0 if @b is 0. @a must be below 2^48: 78 hours in ns. */
static inline u64 ek_ratio(u64 a, u64 b)
{
	return b ? div64_u64(a << EK_Q, b) : 0;
}

#endif /* EK_CORE_TYPES_H */
