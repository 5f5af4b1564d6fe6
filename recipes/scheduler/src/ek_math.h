/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of evenkeel: virtual time, admission and histogram buckets.
 *
 * Pure functions without locks or kernel state, so that this file also
 * compiles in user space, where it is property-tested and fuzzed.
 *
 * Virtual time is that of start-time fair queueing (Goyal, Vin, Cheng, 1996):
 * a request that costs c of a group with weight w spans c/w of virtual time,
 * starts at S = max(v, F of the group's request before it), finishes at
 * F = S + c/w, and v is the largest S dispatched so far. Two groups that both
 * always have requests then never differ in c/w by more than the sum of their
 * largest single requests c_max/w.
 *
 * Why: let v go from v1 to v2 meanwhile. A group's requests follow each other
 * without gaps, each from its S to its F, and the least S goes first, so v never
 * passes one that waits: all that start in [v1, v2) are dispatched, and none that
 * starts after v2. Their spans cover [v1, v2] but for a part of the one that was
 * begun before v1, and reach past v2 by a part of the last:
 *
 *	v2 - v1 - c_max/w <= sum of c/w <= v2 - v1 + c_max/w
 *
 * for either group; the difference of two such sums is at most c_max/w of one and
 * of the other.
 *
 * core/order.c serves so. A request is there a whole turn or, together, one request;
 * c is device time. A group that is awaited counts as one that has requests, but
 * together others may lead it by lead_ms before they wait for it. That adds lead_ms of
 * device time, once: its own virtual time stays behind.
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

/* a share is a weight with this many fraction bits: see ek_share.h */
#define EK_SHARE_SHIFT	16
#define EK_SHARE_ONE	((u32)1 << EK_SHARE_SHIFT)

/* log-linear histogram: 8 buckets per power of two, 1 us up to 67 s */
#define EK_BUCKET_BITS	3
#define EK_BUCKETS	200

/* Is virtual time @a before @b? Holds across wrap-around. */
static inline bool ek_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* The later of two virtual times. */
static inline u64 ek_later(u64 a, u64 b)
{
	return ek_before(a, b) ? b : a;
}

/*
 * May a group that holds @held of @tags scheduler tags take one more?
 *
 * Each group may hold its part, @share of all that is in use, @sum (its own
 * included), at least two, one to be served while the other waits, and never
 * the last quarter, which is kept for a group that is about to come.
 * Asynchronous requests get three quarters of that, so that a flood of
 * writeback cannot shut out the reads of its own group.
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
 * Of @wanted tags that are asked for with one look at the gate, so many beside
 * other groups: all of @cpus together a quarter of what there is, when the gate
 * is open with half of that in use. At least one, and at most 8: what a batch
 * saves is had by then.
 */
static inline u32 ek_batch(u32 wanted, u32 tags, u32 cpus)
{
	u32 top = tags / (4 * cpus);

	return min_t(u32, wanted, top > 8 ? 8 : top ? top : 1);
}

/*
 * May a regulated group that holds @held of @tags, and all such groups @all (of
 * those that are inserted), take one more? Each may have one while that leaves
 * one to others; a second while all of them have less than half; and then up to
 * a quarter. Their queues do not move by weight, and must not shut out the others.
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
 * Where a group goes on whose virtual time is @vtime while the system's is @vnow:
 * not behind that, for what it did not ask for it is not owed, and at most @most
 * ahead, so that a debt ends. Service out of turn may have put it further ahead; and
 * for one that was idle while @vnow went around, behind looks like ahead.
 */
static inline u64 ek_bounded(u64 vtime, u64 vnow, u64 most)
{
	return ek_before(vtime, vnow) ? vnow :
					vnow + min_t(u64, vtime - vnow, most);
}

/* Service times are learned by size: powers of two from 512 bytes to 16 MiB. */
#define EK_SIZES	16

static inline u32 ek_size_class(u32 bytes)
{
	return bytes < 1024 ? 0 : min_t(u32, ilog2(bytes >> 9), EK_SIZES - 1);
}

/* A service time is the mean over about so many requests. */
#define EK_FIXED_SAMPLES	256

/*
 * Mean service time in ns (below 2^50) with @sample as the @nr th one, counted
 * from 1: the mean of all at first, of the last EK_FIXED_SAMPLES in the end. Few
 * would not do: requests that come at a steady pace find the device in a slow
 * phase more often than its mean over requests says. One that hangs until it
 * times out counts no more than others that are slow.
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

/* What the device takes for requests of one size and direction. */
struct ek_service {
	u64 mean;	/* ns; 0: not known yet */
	u32 nr;		/* that it is the mean of, no flush among them */
};

/* as long as it is of fewer, those count that a flush fell into */
#define EK_SERVICE_FEW	16

/*
 * One more request took @ns. If its cache was flushed meanwhile (@flushed) that
 * is the flush's time, for the greater part, and says nothing of such requests;
 * but it is better than not to know at all.
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

/* However slow a device is asked for: nobody shall think that it hangs. */
#define EK_FIXED_IDEAL_MAX	(5 * 1000000000ULL)

/* S3 (3): how long a request with service time @mean takes at @percent. */
static inline u64 ek_fixed_ideal(u64 mean, u32 percent)
{
	return min_t(u64, div_u64(mean * 100, percent), EK_FIXED_IDEAL_MAX);
}

/* @actual over @ideal in permille, 0 to 10000; of nothing: 1000 */
static inline u32 ek_permille(u64 actual, u64 ideal)
{
	/* the sum of a round of EK_FIXED_IDEAL_MAX each: below 2^42 */
	return ideal ? min_t(u64, div64_u64(actual * 1000, ideal), 10000) : 1000;
}

/*
 * S3 (5) and (6): as many requests may be in the device for one that is served
 * at @percent, beside @others that are served at no less, to be on time.
 */
static inline u32 ek_fixed_allowed(u32 percent, u32 others)
{
	u32 whole = 100 / percent;

	return whole > others + 2 ? whole - others - 1 : 1;
}

/* Actual over ideal time that the search aims at, in permille. */
#define EK_FIXED_AIM	1014
/* how far it goes from where it began, and at once */
#define EK_SEARCH_RANGE	128
#define EK_SEARCH_STEP	4
/*
 * What a step answers, in permille. A step changes a round's time by some 5, and
 * the round after it as well, since what was late is made up for: with 4 and less
 * the cap swings between much too many and far too few and never settles.
 */
#define EK_SEARCH_GAIN	16
/* and what is remembered of a round that was much too slow */
#define EK_SEARCH_OWED	(32 * EK_SEARCH_GAIN)

/* The search for how many requests of others there is room for beside S3's cap. */
struct ek_search {
	s32 bonus;	/* what was found so far: cap - rule */
	s32 owed;	/* permille: off the aim, not yet answered */
	bool first;	/* rounds have not been too slow yet */
};

/*
 * A round took @permille of its ideal time; others were @held. The cap gives way
 * while regulated requests are on time, and draws back else. What a step does not
 * answer is remembered, since some are much too late and none much too early: else
 * the aim would be met by half of the rounds and not on average. Where nobody was
 * held more room changes nothing, and to take it back would last.
 */
static inline void ek_search_round(struct ek_search *s, u32 permille, bool held)
{
	s32 off = EK_FIXED_AIM - (s32)permille;
	s32 step;

	if (!held)
		off = min_t(s32, off, 0);
	s->owed = clamp_t(s32, s->owed + off, -EK_SEARCH_OWED, EK_SEARCH_OWED);
	if (s->first) {
		/* quickly to where it is about right: until rounds were too slow by a step */
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
