/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the policy core needs from its surroundings: integers, atomics, a list
 * and a tree. In the kernel these are the kernel's own; in user space they are
 * in sim/kernel.h. Nothing else of either world enters the core.
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

/* ratios, and nanoseconds per byte, have this many fraction bits */
#define EK_Q	16
#define EK_ONE	65536ULL	/* 2^EK_Q */
/* @p percent as a ratio */
#define EK_PERCENT(p)	((p) * EK_ONE / 100)

/* @a * @b / 2^16, for factors whose product is below 2^64 */
static inline u64 ek_mul(u64 a, u64 b)
{
	return (a * b) >> EK_Q;
}

/* @a / @b as a ratio; @a is below 2^48 (78 hours), a ratio of nothing is 0. */
static inline u64 ek_ratio(u64 a, u64 b)
{
	return b ? div64_u64(a << EK_Q, b) : 0;
}

#endif /* EK_CORE_TYPES_H */
