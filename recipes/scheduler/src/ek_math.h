/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of evenkeel: virtual time, admission, fixed shares and histogram buckets.
 *
 * Pure functions without locks or kernel state. So this file also compiles in user space,
 * where tests check its properties on random input (tests/test_math.py).
 *
 * Virtual time is that of start-time fair queueing (Goyal, Vin, Cheng, 1996):
 *  - A request that costs c, of a group with weight w, spans c/w of virtual time.
 *  - It starts at S = max(v, F of the group's preceding request), and finishes at
 *    F = S + c/w.
 *  - The waiting request with the least S is dispatched first.
 *  - v, the virtual time of the queue, is the largest S dispatched so far.
 *
 * Bound: let two groups always have requests, and let each sum up c/w of its dispatched
 * requests over any period. The two sums differ by at most the c_max/w of one group plus
 * the c_max/w of the other, where c_max is a group's largest single cost.
 *
 * Proof: let v go from v1 to v2 in the period. The requests of a group follow each other
 * without gaps, each from its S to its F. The least S goes first, so v never passes a
 * request that waits. Hence all requests with S in [v1, v2) are dispatched, and none with
 * S above v2. Their spans cover [v1, v2], except for a part covered by the request that
 * started before v1. The last span may reach past v2. For either group,
 *
 *	v2 - v1 - c_max/w <= sum of c/w <= v2 - v1 + c_max/w
 *
 * so the difference of the two sums is at most c_max/w of one plus c_max/w of the other.
 *
 * core/order.c serves by this rule. There, c is device time, and a "request" is a whole
 * turn or, in mode TOGETHER, one request. An awaited group counts as a group that has
 * requests. But in mode TOGETHER, others may lead an awaited group by lead_ms of device
 * time before they wait for it. This adds lead_ms to the bound, and only once, because the
 * awaited group's virtual time does not advance.
 */
#ifndef EK_MATH_H
#define EK_MATH_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#else
#include "user_space.h"
#endif

#define EK_WEIGHT_MIN	1
#define EK_WEIGHT_MAX	10000
#define EK_WEIGHT_DFL	100

/* A share is a weight with EK_SHARE_SHIFT fraction bits: see ek_share.h. */
#define EK_SHARE_SHIFT	16
#define EK_SHARE_ONE	((u32)1 << EK_SHARE_SHIFT)

/* Log-linear histogram of latencies: 8 buckets per power of two, from 1 us to 67 s. */
#define EK_BUCKET_BITS	3
#define EK_BUCKETS	200

/* Is virtual time @a before @b? The result is right across wrap-around of u64, too. */
static inline bool ek_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* The later of two virtual times. */
static inline u64 ek_later(u64 a, u64 b)
{
	return ek_before(a, b) ? b : a;
}

/* Up to this number of tags in all, tags are never plenty: each submitter has to ask. */
#define EK_FEW_TAGS	8

/* Are so few of @tags scheduler tags used that submitters need not ask the gate for one? */
static inline bool ek_tags_plenty(u32 used, u32 tags)
{
	return 2 * used + EK_FEW_TAGS < tags;
}

/*
 * May a group that holds @held of @tags scheduler tags take one more? @share is the group's
 * share, and @sum the sum of all shares in use, including @share.
 *
 * A group may hold @share / @sum of the tags, and at least two tags: one request is served
 * while the other waits. No group takes the last quarter of the tags: it is kept for a group
 * that is about to become active. Asynchronous requests (@async) get three quarters of this.
 * Otherwise a flood of writeback would shut out the reads of its own group.
 */
static inline bool ek_may_hold(u32 held, u32 tags, u32 share, u64 sum,
			       bool async)
{
	u32 top = tags - tags / 4;

	if (async && top > 2)
		top -= top / 4;
	if (held >= top)
		return false;
	if (held < 2)
		return true;
	return (u64)held * sum * (async ? 4 : 1) <
	       (u64)tags * share * (async ? 3 : 1);
}

/*
 * The number of tags that a submitter may take at once, without asking the gate for each,
 * while several groups are active. It wants @wanted of @tags tags. All @cpus CPUs together
 * take at most a quarter of the tags: the gate is open while up to half of them are in use,
 * so a quarter stays free. At least 1, and at most 8: a larger batch saves hardly more.
 */
static inline u32 ek_batch(u32 wanted, u32 tags, u32 cpus)
{
	u32 top = tags / (4 * cpus);

	return min_t(u32, wanted, top > 8 ? 8 : top ? top : 1);
}

/*
 * May a group with a fixed share that holds @held of @tags scheduler tags take one more? All
 * such groups together hold @all tags, by inserted requests.
 *
 * The group may take its first tag if one tag is left for the other groups. It may take a
 * second if all groups with a fixed share together then hold at most half of the tags. Beyond
 * two it may also hold at most a quarter. The reason: requests with a fixed share keep their
 * tags at a fixed pace, and must not shut out the other groups.
 */
static inline bool ek_fixed_may_hold(u32 held, u32 all, u32 tags)
{
	all = max_t(u32, held, all);
	if (!held)
		return !all || all + 1 < tags;
	if (held >= 2 && 4 * (u64)held >= tags)
		return false;
	return 2 * ((u64)all + 1) <= tags;
}

/*
 * The virtual time with which a group competes again, from its old one @vtime and a reference
 * @vnow. The result is not before @vnow: a group is not owed service that it did not ask for.
 * The result is at most @most after @vnow, which bounds the group's debt. @vtime may be further
 * ahead for two reasons: the group got service out of turn; or @vnow wrapped around while the
 * group was idle, so that an old @vtime only looks as if it were ahead.
 */
static inline u64 ek_bounded(u64 vtime, u64 vnow, u64 most)
{
	return ek_before(vtime, vnow) ? vnow :
					vnow + min_t(u64, vtime - vnow, most);
}

/* The number of size classes: powers of two from 512 bytes to 16 MiB. */
#define EK_SIZES	16

static inline u32 ek_size_class(u32 bytes)
{
	return bytes < 1024 ? 0 : min_t(u32, ilog2(bytes >> 9), EK_SIZES - 1);
}

/* A mean service time is the mean over about this many requests. */
#define EK_FIXED_SAMPLES	256

/*
 * The new mean service time in ns (below 2^50), from the old @mean and from @sample, which is
 * sample number @nr, counted from 1. At first it is the mean of all samples; later it is that
 * of about the last EK_FIXED_SAMPLES.
 *
 * A mean over few samples is wrong: requests that arrive at a steady pace find the device in a
 * slow phase more often than a mean over few requests shows. After the first 16, a sample
 * counts as at most 64 times the mean. So a request that hangs until its timeout counts no
 * more than other slow requests.
 */
static inline u64 ek_fixed_mean(u64 mean, u64 sample, u32 nr)
{
	s64 step;

	if (nr > 16)
		sample = min_t(u64, sample, 64 * mean + 1);
	step = (s64)(sample - mean);
	nr = min_t(u32, nr, EK_FIXED_SAMPLES);
	return mean + (step < 0 ? -(s64)div_u64(-step, nr) :
				  (s64)div_u64(step, nr));
}

/* The service time of requests of one direction and size class. */
struct ek_service {
	u64 mean;	/* ns; 0: not known yet */
	u32 nr;		/* number of samples without a flush in @mean, up to EK_FIXED_SAMPLES */
};

/* Samples during a flush count only while there are fewer other samples than this. */
#define EK_SERVICE_FEW	16

/*
 * One more request took @ns. With @flushed, the device flushed its cache meanwhile, and most
 * of @ns is the time of the flush. Such a sample counts only while there are few others: it
 * is better than no sample at all.
 */
static inline void ek_service_learn(struct ek_service *s, u64 ns, bool flushed)
{
	u32 nr;

	if (!flushed) {
		s->nr = min_t(u32, s->nr + 1, EK_FIXED_SAMPLES);
		nr = s->nr;
	} else if (!s->mean) {
		nr = 1;
	} else if (s->nr < EK_SERVICE_FEW) {
		nr = EK_SERVICE_FEW;
	} else {
		return;
	}
	WRITE_ONCE(s->mean, ek_fixed_mean(s->mean, ns, nr));
}

/* The longest ideal time, in ns. With longer times, a low fixed share would look like a hang. */
#define EK_FIXED_IDEAL_MAX	(5 * 1000000000ULL)

/*
 * Nagao et al., equation (3): the ideal time (ns) of a request with service time @mean (ns)
 * and a fixed share of @percent.
 */
static inline u64 ek_fixed_ideal(u64 mean, u32 percent)
{
	return min_t(u64, div_u64(mean * 100, percent), EK_FIXED_IDEAL_MAX);
}

/* @actual / @ideal in permille, from 0 to 10000; 1000 if @ideal is 0 */
static inline u32 ek_permille(u64 actual, u64 ideal)
{
	/* @actual * 1000 fits: a round of EK_FIXED_IDEAL_MAX each sums up to less than 2^42 */
	return ideal ? min_t(u64, div64_u64(actual * 1000, ideal), 10000) : 1000;
}

/*
 * Nagao et al., equations (5) and (6): how many requests without a fixed share may be in the
 * device so that a request with a fixed share of @percent is on time. @others is the number
 * of other groups whose fixed share is at least @percent.
 */
static inline u32 ek_fixed_allowed(u32 percent, u32 others)
{
	u32 whole = 100 / percent;

	return whole > others + 2 ? whole - others - 1 : 1;
}

/* The aim of the search for the cap: actual time / ideal time of a round, in permille. */
#define EK_FIXED_AIM	1014
/* The cap differs from the paper's rule by at most this many requests. */
#define EK_SEARCH_RANGE	128
/* The cap changes by at most this many requests after a round. */
#define EK_SEARCH_STEP	4
/*
 * The deviation from the aim (permille) for which the cap changes by one request. Such a
 * change alters the time of a round by about 5 permille. It also alters the next round,
 * because later requests make up for late ones. With a value of 4 or less, the cap swings
 * between far too many and far too few requests, and never settles.
 */
#define EK_SEARCH_GAIN	16
/* The largest deviation (permille) that the search remembers after slow or fast rounds. */
#define EK_SEARCH_OWED	(32 * EK_SEARCH_GAIN)

/* The search for the cap. It begins with the cap of the rule by Nagao et al. */
struct ek_search {
	s32 bonus;	/* result so far: the cap minus the cap of the rule, in requests */
	s32 owed;	/* sum of deviations from the aim not yet reflected in @bonus, permille */
	bool first;	/* first phase: no round has been too slow yet */
};

/*
 * A round took @permille of its ideal time. @held: the cap held other requests back in it.
 * Raise the cap while rounds are faster than the aim, and lower it while they are slower.
 *
 * A part of the deviation that is too small for a step is remembered in @owed. The reason:
 * some rounds are much too slow, and none much too fast. Without the memory, half of the
 * rounds would meet the aim, but not the mean over rounds. If the cap held nothing back, a
 * higher cap changes nothing, and lowering it again would take long: so it does not rise.
 */
static inline void ek_search_round(struct ek_search *s, u32 permille, bool held)
{
	s32 off = EK_FIXED_AIM - (s32)permille;
	s32 step;

	if (!held)
		off = min_t(s32, off, 0);
	s->owed = clamp_t(s32, s->owed + off, -EK_SEARCH_OWED, EK_SEARCH_OWED);
	if (s->first) {
		/* raise the cap in full steps until rounds are too slow by EK_SEARCH_GAIN */
		s->owed = min_t(s32, s->owed, 0);
		s->first = s->owed > -EK_SEARCH_GAIN;
	}
	if (s->first) {
		step = off > 0 ? EK_SEARCH_STEP : 0;
	} else {
		step = clamp_t(s32, s->owed / EK_SEARCH_GAIN, -EK_SEARCH_STEP,
			       held ? EK_SEARCH_STEP : 0);
		s->owed -= EK_SEARCH_GAIN * step;
	}
	s->bonus = clamp_t(s32, s->bonus + step, -EK_SEARCH_RANGE,
			   EK_SEARCH_RANGE);
}

/* The histogram bucket for a latency of @us microseconds. */
static inline u32 ek_bucket(u64 us)
{
	u32 e;

	if (us < (1 << EK_BUCKET_BITS))
		return (u32)us;
	e = ilog2(us);
	return min_t(u32, EK_BUCKETS - 1,
		     ((e - EK_BUCKET_BITS + 1) << EK_BUCKET_BITS) +
		     ((us >> (e - EK_BUCKET_BITS)) &
		      ((1 << EK_BUCKET_BITS) - 1)));
}

/* The largest latency in us that falls into @bucket. */
static inline u64 ek_bucket_max(u32 bucket)
{
	u32 e, sub;

	if (bucket < (1 << EK_BUCKET_BITS))
		return bucket;
	e = bucket / (1 << EK_BUCKET_BITS) - 1;
	sub = bucket % (1 << EK_BUCKET_BITS);
	return ((u64)((1 << EK_BUCKET_BITS) + sub + 1) << e) - 1;
}

#endif /* EK_MATH_H */
