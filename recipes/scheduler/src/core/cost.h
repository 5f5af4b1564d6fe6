/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_COST_H
#define EK_CORE_COST_H

#include "core.h"

/* what turns tell is a mean over so many */
#define EK_TURNS_MEAN	8

u32 ek_cost(struct ek_core *c, struct ek_core_group *g, u8 op, u32 bytes);
bool ek_cost_known(struct ek_core *c, struct ek_core_group *g);
void ek_cost_learn(struct ek_core *c, struct ek_core_group *g, u64 ratio,
		   u32 depth, u64 now);
void ek_cost_paused(struct ek_core *c, struct ek_core_group *g, u64 now);
void ek_cost_turn(struct ek_core *c, struct ek_core_group *g,
		  const struct ek_meter *m);
void ek_cost_saw(struct ek_core *c, struct ek_core_group *g, struct ek_req *r,
		 u64 now);

void ek_meter_begin(struct ek_meter *m, struct ek_core_group *g);
void ek_meter_read(struct ek_meter *m, struct ek_core_group *g);

#endif
