// SPDX-License-Identifier: GPL-2.0-only
/* Makes ek_count.h callable from Python. */
#include <stdbool.h>
#include <stdint.h>
typedef uint64_t u64;
#include "../src/ek_count.h"

/* Passes one step of a read to ek_read_pages(), with the state of one CPU. Returns the accesses. */
u64 shim_step(u64 task, u64 mapping, u64 index, u64 last, u64 size)
{
	static struct ek_read before;
	struct ek_read now = { (void *)task, (void *)mapping, index, last };

	return ek_read_pages(&before, &now, size, 12);
}
