/* SPDX-License-Identifier: GPL-2.0-only */
/* User-space definitions of what ek_math.h uses of the kernel. sim/kernel.h adds to them. */
#ifndef EK_USER_SPACE_H
#define EK_USER_SPACE_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef int32_t s32;
/* The kernel marks variables that other threads read without a lock. Tests have one thread. */
#define WRITE_ONCE(x, v) ((x) = (v))
#define div_u64(a, b) ((a) / (b))
#define div_s64(a, b) ((s64)(a) / (s32)(b))
#define div64_u64(a, b) ((a) / (b))
#define ilog2(v) (63 - __builtin_clzll(v))
#define min_t(t, a, b) ((t)(a) < (t)(b) ? (t)(a) : (t)(b))
#define max_t(t, a, b) ((t)(a) > (t)(b) ? (t)(a) : (t)(b))
#define clamp_t(t, v, low, high) min_t(t, max_t(t, v, low), high)

#endif /* EK_USER_SPACE_H */
