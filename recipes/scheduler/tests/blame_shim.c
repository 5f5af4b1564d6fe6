// SPDX-License-Identifier: GPL-2.0-only
/* Exports core/blame.c, for test_blame.py. There is one matrix with up to GROUPS groups, which are named by number. */
#include <stdlib.h>
/* ek-sim and the kernel are built without this warning, too */
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "../src/core/blame.c"

#define GROUPS 200

static struct ek_blame blame;
static struct ek_blame_group groups[GROUPS];
static u64 parts[GROUPS][EK_BLAME_SLOTS];

void shim_begin(u64 now);
void shim_begin(u64 now)
{
	ek_blame_init(&blame, now);
	for (u32 i = 0; i < GROUPS; i++) {
		ek_blame_group_init(&groups[i], i + 1);
		groups[i].parts = parts[i];
	}
	memset(parts, 0, sizeof(parts));
}

void shim_change(u32 g, int waiting, int inside, u64 now);
void shim_change(u32 g, int waiting, int inside, u64 now)
{
	ek_blame_change(&blame, &groups[g], waiting, inside, now);
}

void shim_settle(u64 now);
void shim_settle(u64 now)
{
	ek_blame_settle(&blame, now);
}

u64 shim_waited(u32 g);
u64 shim_waited(u32 g)
{
	return groups[g].waited;
}

/* The part of @g in the column of @by, or in column 0 if @by has none. */
u64 shim_part(u32 g, u32 by);
u64 shim_part(u32 g, u32 by)
{
	return parts[g][groups[by].slot];
}

u64 shim_shared(u32 g);
u64 shim_shared(u32 g)
{
	return parts[g][0];
}

/* @g goes, and comes back without a column. */
void shim_leave(u32 g);
void shim_leave(u32 g)
{
	u32 slot = ek_blame_group_exit(&blame, &groups[g]);

	for (u32 i = 0; slot && i < GROUPS; i++)
		parts[i][slot] = 0;
	ek_blame_group_init(&groups[g], g + 1);
	groups[g].parts = parts[g];
}

/* How many counts and lists are not as empty as they are without requests. */
u32 shim_left(void);
u32 shim_left(void)
{
	return blame.inside + blame.nr + !list_empty(&blame.groups);
}
