/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_GUARD_H
#define EK_CORE_GUARD_H

#include "core.h"

void ek_guard_init(struct ek_core *c, u64 now);
void ek_guard_refill(struct ek_core *c, struct ek_core_group *g, u64 now);
void ek_guard_heavy(struct ek_core *c, struct ek_core_group *g);
void ek_guard_insert(struct ek_core *c, struct ek_core_group *g, bool urgent, u64 now);
void ek_guard_leave(struct ek_core *c, struct ek_core_group *g, bool urgent, u64 charge,
		    u64 now);
void ek_guard_spent(struct ek_core *c, u64 ns);
bool ek_guard_affords(struct ek_core *c, struct ek_core_group *g, u64 now);
bool ek_guard_may_pass(struct ek_core *c, struct ek_core_group *g);
struct ek_core_group *ek_guard_pick(struct ek_core *c, u64 now);

#endif
