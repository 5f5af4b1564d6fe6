/* SPDX-License-Identifier: Apache-2.0 */
/* The segments that a channel's directory holds, in the order in which they were written. */
#ifndef EKR_READER_USES_H
#define EKR_READER_USES_H

#include <stddef.h>
#include <stdint.h>

#include "medium.h"
#include "reader_file.h"

struct reader_uses {
	struct medium_use *use;		/* as medium_judge() sorts them */
	size_t count;
};

/* The head of the segment that is open in @f. A head that is being written is read again. */
int reader_head_read(struct reader_file *f, const char *name, struct medium_use *use);

/*
 * All segments in directory @dir and in its incidents. Segments that cannot be read have `damage`. 0
 * or a negative errno; @uses is to be freed in any case.
 *
 * The recorder goes on while heads are read one by one. Its generations are consecutive: if one after
 * @seen is left out (0: after the oldest that a full channel has), all heads are read again. What began
 * after one that is then still left out counts as never used: another reading shows both.
 */
int reader_uses_read(struct reader_uses *uses, int dir, struct reader_file *f, uint64_t seen);
void reader_uses_free(struct reader_uses *uses);

#endif /* EKR_READER_USES_H */
