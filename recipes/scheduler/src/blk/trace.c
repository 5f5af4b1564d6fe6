// SPDX-License-Identifier: GPL-2.0-only
/* The tracepoints' own code: see trace.h. */
#include "ek.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
