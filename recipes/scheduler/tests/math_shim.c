// SPDX-License-Identifier: GPL-2.0-only
/* Exports the inline functions of ek_math.h as symbols, for test_math.py. */
#include "../src/ek_math.h"

#define EXPORT(ret, name, params, args) ret shim_##name params; ret shim_##name params { return name args; }

EXPORT(bool, ek_before, (u64 a, u64 b), (a, b))
EXPORT(u64, ek_later, (u64 a, u64 b), (a, b))
EXPORT(u64, ek_bounded, (u64 vtime, u64 vnow, u64 most), (vtime, vnow, most))
EXPORT(bool, ek_may_hold, (u32 held, u32 tags, u32 share, u64 sum, bool async), (held, tags, share, sum, async))
EXPORT(u32, ek_batch, (u32 wanted, u32 tags, u32 cpus), (wanted, tags, cpus))
EXPORT(bool, ek_fixed_may_hold, (u32 held, u32 all, u32 tags), (held, all, tags))
EXPORT(u32, ek_bucket, (u64 us), (us))
EXPORT(u64, ek_bucket_max, (u32 bucket), (bucket))
EXPORT(u32, ek_size_class, (u32 bytes), (bytes))
EXPORT(u64, ek_fixed_mean, (u64 mean, u64 sample, u32 nr), (mean, sample, nr))
EXPORT(u64, ek_fixed_ideal, (u64 mean, u32 percent), (mean, percent))
EXPORT(u32, ek_permille, (u64 actual, u64 ideal), (actual, ideal))
EXPORT(u32, ek_fixed_allowed, (u32 percent, u32 others), (percent, others))

void shim_ek_search_round(struct ek_search *s, u32 permille, bool held);
void shim_ek_search_round(struct ek_search *s, u32 permille, bool held)
{
	ek_search_round(s, permille, held);
}

void shim_ek_service_learn(struct ek_service *s, u64 ns, bool flushed);
void shim_ek_service_learn(struct ek_service *s, u64 ns, bool flushed)
{
	ek_service_learn(s, ns, flushed);
}
