// SPDX-License-Identifier: GPL-2.0-only
/* Defines the tracepoints that trace.h declares. */
#include "ek.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
