/* SPDX-License-Identifier: GPL-2.0-only */
/* Which groups the device served while a group waited: blame.c. */
#ifndef EK_BLAME_H
#define EK_BLAME_H

#include "types.h"

/* The number of columns of a queue's matrix. Groups that find no free column share column 0. */
#define EK_BLAME_SLOTS	128

/* A group's row, and what it adds to the rows of the others. All times are in ns. */
struct ek_blame_group {
	u64 cgroup;		/* what names it in the matrix, not 0 */
	u32 waiting;		/* its requests that wait, and submitters at the gate */
	u32 inside;		/* its requests in the device */
	u32 slot;		/* its column; 0: none yet, or no free one */
	/* ek_blame.now, .clock and .idle up to which the group is accounted */
	u64 now, clock, idle;
	u64 took;		/* device time since the last division */
	s64 pending;		/* time that it waited for others and that is not divided yet */
	u64 waited;		/* all time that it waited */
	u64 *parts;		/* its row, a part for each column; NULL: nobody has asked for it */
	struct list_head node;	/* in ek_blame.groups, from its first change to a division */
	struct list_head taker;	/* in a list of the groups with @took, during a division */
};

/* The matrix of a queue. */
struct ek_blame {
	u64 now;		/* time of the last change */
	u64 clock;		/* device time per request in the device, << EK_BLAME_SHIFT */
	u64 idle;		/* time without a request in the device */
	u32 inside;		/* requests in the device */
	u32 nr;			/* number of @groups */
	s32 credit;		/* steps saved for divisions; negative: the last one took more */
	struct ek_blame_group *taker;	/* the last group that had the device alone; NULL: none
					 * since the last division
					 */
	struct list_head groups;
	u64 cgroup[EK_BLAME_SLOTS];	/* the owner of each column; 0: it is free */
	u32 columns;		/* number of columns that have an owner, with column 0 */
};

void ek_blame_init(struct ek_blame *b, u64 now);
void ek_blame_group_init(struct ek_blame_group *g, u64 cgroup);
/* @waiting and @inside are added to the counts of @g. */
void ek_blame_change(struct ek_blame *b, struct ek_blame_group *g, int waiting, int inside,
		     u64 now);
/* Bring all rows up to date. */
void ek_blame_settle(struct ek_blame *b, u64 now);
/* @g, which has no request, goes. Returns its column, which the caller clears in all rows. */
u32 ek_blame_group_exit(struct ek_blame *b, struct ek_blame_group *g);

#endif /* EK_BLAME_H */
