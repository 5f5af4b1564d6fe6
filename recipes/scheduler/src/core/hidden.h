/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_HIDDEN_H
#define EK_CORE_HIDDEN_H

#include "core.h"

void ek_hidden_saw(struct ek_core *c, u64 ns, u64 paid);
u64 ek_hidden_sent(struct ek_core *c, struct ek_core_group *g, struct ek_req *r, u32 cost,
		   u64 now);
u64 ek_hidden_cost(struct ek_core *c, u8 op, u32 bytes);
u64 ek_hidden_price(struct ek_core *c, struct ek_core_group *g);

#endif
