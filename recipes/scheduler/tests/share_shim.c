// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exports the functions of ek_share.h as symbols, for test_share.py. They work on a small tree of
 * numbered nodes; node 0 is the root cgroup.
 */
#include "../src/ek_share.h"

#define NODES 16

static struct ek_node nodes[NODES];
static struct ek_top top;

void shim_reset(void);
void shim_reset(void)
{
	for (int i = 0; i < NODES; i++)
		nodes[i] = (struct ek_node){ .weight = 100 };
	top = (struct ek_top){};
}

void shim_node(int i, int parent, u32 weight);
void shim_node(int i, int parent, u32 weight)
{
	nodes[i].parent = &nodes[parent];
	nodes[i].weight = weight;
}

void shim_join(int i);
void shim_join(int i)
{
	ek_node_join(&top, &nodes[i]);
}

void shim_leave(int i);
void shim_leave(int i)
{
	ek_node_leave(&top, &nodes[i]);
}

void shim_set_weight(int i, u32 weight);
void shim_set_weight(int i, u32 weight)
{
	ek_node_set_weight(&top, &nodes[i], weight);
}

u32 shim_share(int i);
u32 shim_share(int i)
{
	return ek_node_share(&nodes[i]);
}

u64 shim_top_sum(void);
u64 shim_top_sum(void)
{
	return top.sum;
}

u32 shim_generation(void);
u32 shim_generation(void)
{
	return top.generation;
}

u64 shim_node_sum(int i);
u64 shim_node_sum(int i)
{
	return nodes[i].sum;
}
