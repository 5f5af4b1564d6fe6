/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_BUDGET_H
#define EK_CORE_BUDGET_H

#include "core.h"

/* Bounds of a group's limit, in requests in flight. */
#define EK_LIMIT_MIN	2
#define EK_LIMIT_MAX	4096

void ek_budget_grow(struct ek_core_group *g, u64 service, u64 per_request);
u32 ek_budget_latency(struct ek_core *c, struct ek_core_group *g);
void ek_budget_note(struct ek_core *c, struct ek_core_group *g, u32 cost);
void ek_budget_epoch(struct ek_core *c);
u32 ek_budget_limit(struct ek_core *c, struct ek_core_group *g);
bool ek_budget_room(struct ek_core *c, struct ek_core_group *g, u64 now);

#endif
