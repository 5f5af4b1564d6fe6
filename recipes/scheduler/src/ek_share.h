/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a weight means in a tree of groups: a child divides its parent's share,
 * as cgroup v2 defines weights.
 *
 * Only groups in use count. A node is in use while it has work of its own or a
 * child in use; its own work competes with its children at its own weight. The
 * share of a node's work is, over the nodes n from it up to the top level,
 *
 *	share = w * prod(w_n / sum_n),	sum_n = weights in use directly below n
 *
 * in units of a top-level weight: the shares below a top-level node always add
 * up to its weight, and a flat hierarchy's shares are its weights, whoever is
 * in use. So virtual time needs no change when groups come and go elsewhere.
 *
 * Pure, like ek_math.h; the caller locks. core/share.h is its name in the core.
 */
#ifndef EK_SHARE_H
#define EK_SHARE_H

#include "ek_math.h"

/* A group's place in the tree. @parent is NULL at the top: the root cgroup. */
struct ek_node {
	struct ek_node *parent;
	u32 weight;	/* EK_WEIGHT_MIN..EK_WEIGHT_MAX */
	bool own;	/* has work of its own */
	u64 sum;	/* weights in use directly below, with its own if @own */
};

/* The top level: all shares are relative to @sum. */
struct ek_top {
	u64 sum;	/* weights in use at the top level */
	u32 generation;	/* changes when a share that is in use may have changed */
};

/*
 * Add @delta to what counts below @n, and on upwards as long as that brings a
 * node into use or out of it.
 */
static inline void ek_node_count(struct ek_top *top, struct ek_node *n,
				 s64 delta)
{
	for (; n->parent; n = n->parent) {
		bool used = n->sum;

		n->sum += delta;
		/* somebody else's part of this node's share has changed */
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
	/* its share is computed again even if nobody else's changed */
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
	/* in use: it counts at the level above, too */
	if (n->parent && n->sum) {
		if (n->parent->parent)
			n->parent->sum += delta;
		else
			WRITE_ONCE(top->sum, top->sum + delta);
	}
	WRITE_ONCE(top->generation, top->generation + 1);
}

#define EK_FRACTION_SHIFT	40

/*
 * The share of the own work of @n, which has some; EK_SHARE_ONE is weight 1.
 * Taken as a fraction of the top-level node first, since each of its factors is
 * at most 1: what a division cuts off, 2^-40, is never multiplied by more than
 * the one weight at the end, and the result is right but for its last place.
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
