/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What counts as an access. Pure: it also compiles in user space.
 *
 * The kernel reports a read in steps: each step has the range from the first
 * page that is not yet copied to the last page that the reader wants. A step
 * covers at most some 30 folios. Only the first step of a read counts, with all
 * its pages; the others are its continuation.
 */
#ifndef EK_COUNT_H
#define EK_COUNT_H

#ifdef __KERNEL__
#include <linux/types.h>
#endif

/**
 * struct ek_read - the last step of a read on this CPU
 * @task: who reads
 * @mapping: the file's pages
 * @index: first page of the step
 * @last: last page that the reader wants
 */
struct ek_read {
	const void *task;
	const void *mapping;
	u64 index;
	u64 last;
};

/*
 * Pages that a step adds to the accesses, for a file of @size bytes. @now is the
 * step, @before is the last step on this CPU and becomes @now.
 *
 * A read that changes its CPU counts its remaining pages again. A task that reads
 * the end of a range again, right after the range, does not count: its reads look
 * like one read in steps.
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
