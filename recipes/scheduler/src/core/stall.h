/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_STALL_H
#define EK_CORE_STALL_H

#include "core.h"

struct ek_core_group *ek_stall_writer(struct ek_core *c, struct ek_core_group *g, u64 now);
void ek_stall_sent(struct ek_core *c, struct ek_core_group *g, u64 cost);

#endif
