/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a weight means in a tree of groups: children divide their parent's share in
 * proportion to their weights, as cgroup v2 defines.
 *
 * Only nodes in use count. A node is in use while it has work of its own, or a child in
 * use. The node's own work competes with its children, with the node's weight. The root's
 * own work competes with the top-level nodes, which are its children. Let w_i be
 * the weight of the i-th node on the path from a node n_0 up to its top-level node n_k, and
 * sum_i the sum of the weights in use directly below n_i, including its own work. Then the
 * share of the own work of n_0 is
 *
 *	share = w_k * (w_0 / sum_0) * (w_0 / sum_1) * (w_1 / sum_2) * ... * (w_(k-1) / sum_k)
 *
 * in units of a top-level weight. So the shares below a top-level node always add up to
 * its weight. In a flat hierarchy, shares are the weights, whichever groups are in use. So
 * virtual times need no change when a group elsewhere in the tree becomes active or idle.
 *
 * Pure, like ek_math.h; the caller locks. The core includes it as core/share.h.
 */
#ifndef EK_SHARE_H
#define EK_SHARE_H

#include "ek_math.h"

/* A group's place in the tree. The root cgroup's node has no @parent. */
struct ek_node {
	struct ek_node *parent;
	u32 weight;	/* EK_WEIGHT_MIN..EK_WEIGHT_MAX */
	bool own;	/* it has work of its own: the group is active */
	u64 sum;	/* sum of the weights in use directly below; its own weight too if @own */
};

/* The top level. A group's part of the device is its share divided by @sum. */
struct ek_top {
	u64 sum;	/* sum of the weights in use at the top level, with the root's own work */
	u32 generation;	/* incremented when a share in use may have changed */
};

/*
 * Add @delta to the sum of weights below @n. If this brings @n into use or out of use,
 * the sum of the node above changes by the weight of @n, and so on upwards.
 */
static inline void ek_node_count(struct ek_top *top, struct ek_node *n,
				 s64 delta)
{
	for (; n->parent; n = n->parent) {
		bool used = n->sum;

		n->sum += delta;
		/* the other users of this node's share now get a different part of it */
		if (used && n->sum)
			WRITE_ONCE(top->generation, top->generation + 1);
		if (used == !!n->sum)
			return;
		delta = used ? -(s64)n->weight : n->weight;
	}
	WRITE_ONCE(top->sum, top->sum + delta);
}

/* The node's own work begins. */
static inline void ek_node_join(struct ek_top *top, struct ek_node *n)
{
	n->own = true;
	ek_node_count(top, n, n->weight);
	/* the share of @n has to be computed again, even if no other share changed */
	if (n->parent && n->parent->parent)
		WRITE_ONCE(top->generation, top->generation + 1);
}

/* The node's own work ends. */
static inline void ek_node_leave(struct ek_top *top, struct ek_node *n)
{
	n->own = false;
	ek_node_count(top, n, -(s64)n->weight);
}

static inline void ek_node_set_weight(struct ek_top *top, struct ek_node *n,
				      u32 weight)
{
	s64 delta = (s64)weight - n->weight;

	WRITE_ONCE(n->weight, weight);
	if (n->own) {
		if (n->parent)
			n->sum += delta;
		else
			WRITE_ONCE(top->sum, top->sum + delta);
	}
	/* if it is in use, its weight also counts at the level above */
	if (n->parent && n->sum) {
		if (n->parent->parent)
			n->parent->sum += delta;
		else
			WRITE_ONCE(top->sum, top->sum + delta);
	}
	WRITE_ONCE(top->generation, top->generation + 1);
}

/* The number of fraction bits with which ek_node_share() computes. */
#define EK_FRACTION_SHIFT	40

/*
 * The share of the own work of @n, which must have own work. EK_SHARE_ONE is the share of
 * a top-level weight of 1.
 *
 * The result is first computed as a fraction of the top-level node's weight. All factors of
 * this fraction are at most 1. So the 2^-40 that a division cuts off is only multiplied by
 * the one weight at the end, and the error is at most the last bit of the share.
 */
static inline u32 ek_node_share(const struct ek_node *n)
{
	u64 part = 1ULL << EK_FRACTION_SHIFT;
	u32 weight = n->weight;

	for (; n->parent; n = n->parent) {
		part = div64_u64(part * weight, n->sum);
		weight = n->weight;
	}
	part = (part * weight) >> (EK_FRACTION_SHIFT - EK_SHARE_SHIFT);
	return max_t(u64, part, 1);
}

#endif /* EK_SHARE_H */
