/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_ORDER_H
#define EK_CORE_ORDER_H

#include "core.h"

void ek_order_activate(struct ek_core *c, struct ek_core_group *g, u64 now);
void ek_order_deactivate(struct ek_core *c, struct ek_core_group *g);
void ek_order_apart(struct ek_core *c, struct ek_core_group *g, bool apart);
void ek_order_place(struct ek_core *c, struct ek_core_group *g);
void ek_order_unplace(struct ek_core *c, struct ek_core_group *g);
bool ek_order_expected(struct ek_core *c, struct ek_core_group *g, u64 now);
void ek_order_charge(struct ek_core *c, struct ek_core_group *g, u64 ns);
void ek_order_adjust(struct ek_core *c, struct ek_core_group *g, s64 ns);
u64 ek_order_last(struct ek_core_group *g);
u64 ek_order_pause_at(struct ek_core *c, struct ek_core_group *g);
u64 ek_order_idle_until(struct ek_core *c, struct ek_core_group *g);
void ek_order_back(struct ek_core_group *g, u64 now);
u64 ek_order_span(struct ek_core *c, struct ek_core_group *g, u64 ns);
u64 ek_order_part(struct ek_core *c, struct ek_core_group *g, u64 ns);
u64 ek_order_round(struct ek_core *c, struct ek_core_group *g);
u64 ek_order_lead(struct ek_core *c, u64 ns);
void ek_order_collect(struct ek_core *c, u64 now);
struct ek_core_group *ek_order_first(struct ek_core *c);
struct ek_core_group *ek_order_soonest(struct ek_core *c, u64 until);
struct ek_core_group *ek_order_least(struct ek_core *c);
struct ek_core_group *ek_order_hold(struct ek_core *c, u64 now, u64 *wake);
struct ek_core_group *ek_order_pick(struct ek_core *c, u64 now, u64 *wake);

#endif
