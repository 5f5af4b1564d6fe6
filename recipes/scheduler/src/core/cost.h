/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_COST_H
#define EK_CORE_COST_H

#include "core.h"

/*
 * The device time that a rate is the mean over. Garbage collection comes in cycles of up
 * to a second. With a shorter mean, the rate would follow each pause for collection.
 */
#define EK_MEMORY_NS	EK_SEC
/* A rate is young if it is the mean over less than this device time. */
#define EK_YOUNG_NS	(300 * EK_MS)

u32 ek_cost(struct ek_core *c, struct ek_core_group *g, u8 op, u32 bytes);
void ek_cost_first(struct ek_core *c, struct ek_core_group *g);
void ek_cost_learn(struct ek_core *c, struct ek_core_group *g, u64 wall, u64 cost, bool noisy);
bool ek_cost_pooled(struct ek_core *c, struct ek_core_group *g);
void ek_cost_alike(struct ek_core *c, struct ek_core_group *g, bool alike);
bool ek_cost_presume(struct ek_core *c, struct ek_core_group *g);
void ek_cost_known(struct ek_core *c, struct ek_core_group *g, bool known);
void ek_cost_saw(struct ek_core *c, struct ek_core_group *g, struct ek_req *r,
		 u64 now);

void ek_meter_begin(struct ek_meter *m, struct ek_core_group *g, u64 from);
void ek_meter_read(struct ek_meter *m, struct ek_core_group *g);

#endif
