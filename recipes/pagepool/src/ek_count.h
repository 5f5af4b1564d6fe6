/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many page accesses a read counts as. Without kernel functions, so that it
 * also compiles in user space.
 *
 * The kernel reports a read in one or more steps, because it copies at most some
 * 30 folios per step. Each step has a range: from the first page that is not yet
 * copied, to the last page of the read. Only the first step of a read counts, with
 * all pages of its range. The other steps continue the same read.
 */
#ifndef EK_COUNT_H
#define EK_COUNT_H

#ifdef __KERNEL__
#include <linux/types.h>
#endif

/**
 * struct ek_read - the last step of a read on this CPU
 * @task: the task that reads
 * @mapping: the address space of the file
 * @index: first page of the step
 * @last: last page of the read
 */
struct ek_read {
	const void *task;
	const void *mapping;
	u64 index;
	u64 last;
};

/*
 * Returns the number of accesses that the step @now adds, for a file of @size bytes.
 * @before is the last step on this CPU; the function sets it to @now.
 *
 * Two errors are accepted. If a task moves to another CPU during a read, the pages
 * that remain count again. If a task reads a range and directly afterwards the end
 * of this range again, the second read does not count: both look like one read in steps.
 */
static inline u64 ek_read_pages(struct ek_read *before, const struct ek_read *now,
				u64 size, unsigned int page_shift)
{
	bool continued = before->task == now->task && before->mapping == now->mapping &&
			 before->last == now->last && before->index < now->index;
	u64 last = now->last;

	*before = *now;
	if (continued || !size || now->index > (size - 1) >> page_shift)
		return 0;
	if (last > (size - 1) >> page_shift)
		last = (size - 1) >> page_shift;
	return last - now->index + 1;
}

#endif
