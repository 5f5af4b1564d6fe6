/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Groups and shares: what a weight means in a tree of cgroups.
 *
 * Policy: children divide their parent's share in proportion to their weights. Only
 * groups in use count.
 * Invariant: the shares below a top-level node add up to its weight.
 * Source: the kernel's Documentation/admin-guide/cgroup-v2.rst, *Weights*.
 * The definitions are in ek_share.h, which has tests of its own (tests/test_share.py).
 */
#ifndef EK_CORE_SHARE_H
#define EK_CORE_SHARE_H

#include "../ek_share.h"

#endif /* EK_CORE_SHARE_H */
