/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_TURN_H
#define EK_CORE_TURN_H

#include "core.h"

/* With more active groups than this, turns are short, and few of them can be measured. */
#define EK_MANY			8

void ek_turn_step(struct ek_core *c, u64 now);
void ek_turn_end(struct ek_core *c, u64 now);
void ek_turn_paused(struct ek_core *c, u64 now);
u64 ek_turn_others_inside(struct ek_core *c, struct ek_core_group *g);
bool ek_turn_wrote(struct ek_core *c, u64 now);
bool ek_turn_lasts(struct ek_core *c, u64 ns, u64 now);
struct ek_core_group *ek_turn_pick(struct ek_core *c, u64 now, u64 *wake);

#endif
