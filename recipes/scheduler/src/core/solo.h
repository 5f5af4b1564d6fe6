/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_SOLO_H
#define EK_CORE_SOLO_H

#include "core.h"

void ek_solo_step(struct ek_core *c, u64 now);
struct ek_core_group *ek_solo_pick(struct ek_core *c, u64 now, u64 *wake);
void ek_solo_abort(struct ek_core *c, u64 now);

#endif
