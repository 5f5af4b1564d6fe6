/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_MODE_H
#define EK_CORE_MODE_H

#include "core.h"

void ek_mode_init(struct ek_core *c, u64 now);
void ek_mode_arrival(struct ek_core *c, u64 now);
void ek_mode_step(struct ek_core *c, u64 now);

#endif
