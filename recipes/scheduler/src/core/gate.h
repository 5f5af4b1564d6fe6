/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_CORE_GATE_H
#define EK_CORE_GATE_H

#include "core.h"

void ek_gate_place(struct ek_core *c, struct ek_core_group *g);

#endif
