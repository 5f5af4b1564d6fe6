/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Groups and shares: what a weight means in a tree of cgroups.
 *
 * Policy: a child divides its parent's share; only groups in use count.
 * Invariant: the shares below a top-level node add up to its weight.
 * Source: the kernel's Documentation/admin-guide/cgroup-v2.rst, *Weights*.
 * The definitions are in ek_share.h, which is tested alone.
 */
#ifndef EK_CORE_SHARE_H
#define EK_CORE_SHARE_H

#include "../ek_share.h"

#endif /* EK_CORE_SHARE_H */
