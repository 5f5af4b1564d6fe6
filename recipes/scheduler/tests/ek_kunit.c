// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: tests the arithmetic and the policy core of evenkeel as the kernel compiles them. */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/random.h>

#include "ek_math.h"
#include "ek_share.h"
#include "ek_channel.h"

/* evenkeel.ko exports no symbols, so this module contains a copy of its core. */
#include "core/budget.c"
#include "core/cost.c"
#include "core/gate.c"
#include "core/guard.c"
#include "core/mode.c"
#include "core/order.c"
#include "core/hidden.c"
#include "core/stall.c"
#include "core/turn.c"
#include "core/core.c"

static void ek_test_before_wraps(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, ek_before(1, 2));
	KUNIT_EXPECT_FALSE(test, ek_before(2, 2));
	KUNIT_EXPECT_TRUE(test, ek_before(U64_MAX - 5, 3));
	KUNIT_EXPECT_EQ(test, ek_later(U64_MAX - 5, 3), 3ULL);
}

static void ek_test_hold(struct kunit *test)
{
	u32 tags, held;

	/* a group that is alone still leaves tags free; asynchronous requests get no more tags */
	for (tags = 1; tags <= 1024; tags++) {
		for (held = 0; ek_may_hold(held, tags, 100, 100, false);)
			held++;
		KUNIT_EXPECT_LE(test, held, tags);
		KUNIT_EXPECT_GE(test, held, 1U);
		if (tags >= 4)
			KUNIT_EXPECT_LT(test, held, tags);
		KUNIT_EXPECT_FALSE(test, ek_may_hold(held, tags, 100, 100, true));
	}
	/* shares 2:1 on 128 tags: 86 and 43 tags */
	KUNIT_EXPECT_TRUE(test, ek_may_hold(85, 128, 200, 300, false));
	KUNIT_EXPECT_FALSE(test, ek_may_hold(86, 128, 200, 300, false));
	KUNIT_EXPECT_TRUE(test, ek_may_hold(42, 128, 100, 300, false));
	KUNIT_EXPECT_FALSE(test, ek_may_hold(43, 128, 100, 300, false));
	/*
	 * Fixed shares: a group takes a further tag only while it holds less than a quarter
	 * of the tags, and all such groups together less than half. A group without a tag
	 * gets one, unless it is the last free tag.
	 */
	KUNIT_EXPECT_TRUE(test, ek_fixed_may_hold(31, 63, 128));
	KUNIT_EXPECT_FALSE(test, ek_fixed_may_hold(32, 32, 128));
	KUNIT_EXPECT_FALSE(test, ek_fixed_may_hold(2, 64, 128));
	KUNIT_EXPECT_TRUE(test, ek_fixed_may_hold(1, 63, 128));
	KUNIT_EXPECT_FALSE(test, ek_fixed_may_hold(1, 64, 128));
	KUNIT_EXPECT_TRUE(test, ek_fixed_may_hold(0, 126, 128));
	KUNIT_EXPECT_FALSE(test, ek_fixed_may_hold(0, 127, 128));
	/* with two tags in all, as on a USB disk */
	KUNIT_EXPECT_TRUE(test, ek_fixed_may_hold(0, 0, 2));
	KUNIT_EXPECT_FALSE(test, ek_fixed_may_hold(0, 1, 2));
	KUNIT_EXPECT_FALSE(test, ek_fixed_may_hold(1, 1, 2));
}

static void ek_test_buckets(struct kunit *test)
{
	u32 bucket;
	u64 us;

	for (us = 0; us < 100000; us++) {
		bucket = ek_bucket(us);
		KUNIT_ASSERT_LT(test, bucket, (u32)EK_BUCKETS);
		KUNIT_ASSERT_LE(test, us, ek_bucket_max(bucket));
		if (bucket)
			KUNIT_ASSERT_GT(test, us, ek_bucket_max(bucket - 1));
	}
	KUNIT_EXPECT_EQ(test, ek_bucket(U64_MAX), EK_BUCKETS - 1U);
}

/*
 * Two levels: the shares below a node add up to its weight. When a child leaves,
 * its share goes to the others.
 */
static void ek_test_shares(struct kunit *test)
{
	struct ek_node root = { .weight = 100 };
	struct ek_node a = { .parent = &root, .weight = 200 };
	struct ek_node x = { .parent = &a, .weight = 100 };
	struct ek_node y = { .parent = &a, .weight = 300 };
	struct ek_node b = { .parent = &root, .weight = 100 };
	struct ek_top top = {};
	u32 generation;

	ek_node_join(&top, &x);
	ek_node_join(&top, &b);
	KUNIT_EXPECT_EQ(test, top.sum, 300ULL);
	KUNIT_EXPECT_EQ(test, ek_node_share(&x), 200 * EK_SHARE_ONE);
	generation = top.generation;
	ek_node_join(&top, &y);
	KUNIT_EXPECT_NE(test, top.generation, generation);
	KUNIT_EXPECT_EQ(test, top.sum, 300ULL);
	KUNIT_EXPECT_EQ(test, ek_node_share(&x), 50 * EK_SHARE_ONE);
	KUNIT_EXPECT_EQ(test, ek_node_share(&y), 150 * EK_SHARE_ONE);
	ek_node_set_weight(&top, &a, 400);
	KUNIT_EXPECT_EQ(test, top.sum, 500ULL);
	KUNIT_EXPECT_EQ(test, ek_node_share(&y), 300 * EK_SHARE_ONE);
	ek_node_join(&top, &root);
	KUNIT_EXPECT_EQ(test, ek_node_share(&root), 100 * EK_SHARE_ONE);
	ek_node_leave(&top, &root);
	ek_node_leave(&top, &x);
	ek_node_leave(&top, &y);
	KUNIT_EXPECT_EQ(test, a.sum, 0ULL);
	ek_node_leave(&top, &b);
	KUNIT_EXPECT_EQ(test, top.sum, 0ULL);
}

static void ek_test_channels(struct kunit *test)
{
	static const unsigned char waiting[] = { 2, EK_CHANNEL_NONE, 1, 0, 1 };
	u32 load[EK_CHANNELS_MAX] = { 1, 0, 3 };

	/*
	 * Chunks of 16 KiB in turn on 8 channels: the tenth chunk, and a request that spans
	 * two. Then the last of five equal ranges.
	 */
	KUNIT_EXPECT_EQ(test, ek_channel_of(32 * 9 + 31, 512, 8, 16, 0), 1U);
	KUNIT_EXPECT_EQ(test, ek_channel_of(31, 1024, 8, 16, 0), 64U);
	KUNIT_EXPECT_EQ(test, ek_channel_of(99, 512, 5, 0, 100), 4U);
	KUNIT_EXPECT_EQ(test, ek_channel_pick(waiting, 5, load), 2U);
	load[1] = 2;
	KUNIT_EXPECT_EQ(test, ek_channel_pick(waiting, 5, load), 3U);
	/* if the oldest request spans channels, it is next */
	KUNIT_EXPECT_EQ(test, ek_channel_pick(waiting + 1, 4, load), 0U);
}

#define EK_TEST_GROUPS	2
#define EK_TEST_BYTES	65536
#define EK_TEST_TAKES	EK_MS

/* A fake device that serves one request after the other, and the groups that use it. */
struct ek_test {
	struct ek_core core;
	struct ek_core_group root, g[EK_TEST_GROUPS];
	struct ek_req in;		/* the request in the device, of group @owner */
	struct ek_core_group *owner;
	u64 now;			/* ns */
	u64 served[EK_TEST_GROUPS];	/* number of requests completed */
	u64 last[EK_TEST_GROUPS];	/* time of the last completion, ns */
	u64 longest[EK_TEST_GROUPS];	/* longest time between two completions, ns */
};

static struct ek_test *ek_test_init(struct kunit *test, u32 weight)
{
	struct ek_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->now = EK_SEC;
	ek_core_init(&t->core, 64, t->now);
	ek_core_group_init(&t->core, &t->root, NULL, 100);
	for (i = 0; i < EK_TEST_GROUPS; i++) {
		ek_core_group_init(&t->core, &t->g[i], &t->root, i ? 100 : weight);
		t->last[i] = t->now;
	}
	return t;
}

static struct ek_req ek_test_req(void)
{
	return (struct ek_req){ .bytes = EK_TEST_BYTES, .op = EK_OP_READ };
}

static void ek_test_insert(struct ek_test *t, int i)
{
	struct ek_req r = ek_test_req();

	ek_core_insert(&t->core, &t->g[i], &r, t->now);
}

static struct ek_core_group *ek_test_pick(struct ek_test *t)
{
	u64 wake = U64_MAX;

	return ek_core_pick(&t->core, t->now, &wake);
}

static void ek_test_dispatch(struct ek_test *t, struct ek_core_group *g)
{
	t->in = ek_test_req();
	ek_core_dispatch(&t->core, g, &t->in, t->now);
	t->owner = g;
}

static void ek_test_complete(struct ek_test *t)
{
	int i = t->owner - t->g;

	t->now += EK_TEST_TAKES;
	ek_core_complete(&t->core, t->owner, &t->in, false, t->now);
	t->owner = NULL;
	t->served[i]++;
	t->longest[i] = max(t->longest[i], t->now - t->last[i]);
	t->last[i] = t->now;
}

/* Run the device for @ns while each of the first @nr groups always has four requests queued. */
static void ek_test_run(struct ek_test *t, int nr, u64 ns)
{
	u64 end = t->now + ns;
	struct ek_core_group *g;
	int i;

	memset(t->served, 0, sizeof(t->served));
	while (t->now < end) {
		for (i = 0; i < nr; i++)
			while (t->g[i].queued < 4)
				ek_test_insert(t, i);
		g = ek_test_pick(t);
		if (g) {
			ek_test_dispatch(t, g);
			ek_test_complete(t);
		} else {
			t->now += 100 * EK_US;
		}
	}
}

static void ek_test_core_round_trip(struct kunit *test)
{
	struct ek_test *t = ek_test_init(test, 100);
	struct ek_core *c = &t->core;

	KUNIT_EXPECT_NULL(test, ek_test_pick(t));
	ek_test_insert(t, 0);
	KUNIT_EXPECT_EQ(test, c->nr_queued, 1U);
	KUNIT_EXPECT_EQ(test, c->nr_active, 1U);
	KUNIT_ASSERT_PTR_EQ(test, ek_test_pick(t), &t->g[0]);
	ek_test_dispatch(t, &t->g[0]);
	KUNIT_EXPECT_EQ(test, c->nr_queued, 0U);
	KUNIT_EXPECT_EQ(test, atomic_read(&c->in_flight), 1);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&c->in_flight_cost), (u64)t->in.cost);
	KUNIT_EXPECT_GT(test, t->in.cost, 0U);
	KUNIT_EXPECT_EQ(test, t->g[0].charged, (u64)t->in.cost);
	KUNIT_EXPECT_NULL(test, ek_test_pick(t));
	ek_test_complete(t);
	KUNIT_EXPECT_EQ(test, atomic_read(&c->in_flight), 0);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&c->in_flight_cost), 0ULL);
	ek_core_group_exit(c, &t->g[0]);
	KUNIT_EXPECT_EQ(test, c->nr_active, 0U);
	KUNIT_EXPECT_EQ(test, c->nr_unknown, 0U);
	KUNIT_EXPECT_EQ(test, c->top.sum, 0ULL);
}

/* Weights 200 and 100: once the costs are known, service is 2:1 over many turns. */
static void ek_test_core_shares_by_weight(struct kunit *test)
{
	struct ek_test *t = ek_test_init(test, 200);

	ek_test_run(t, 2, EK_SEC);
	ek_test_run(t, 2, 40 * EK_SEC);
	KUNIT_EXPECT_GE(test, 100 * t->served[0], 195 * t->served[1]);
	KUNIT_EXPECT_LE(test, 100 * t->served[0], 205 * t->served[1]);
	/* the learned cost is the time that the device takes */
	KUNIT_EXPECT_GE(test, t->in.cost, EK_TEST_TAKES * 95 / 100);
	KUNIT_EXPECT_LE(test, t->in.cost, EK_TEST_TAKES * 105 / 100);
}

/* A group that paused sends a request during the turn of another: it is served next. */
static void ek_test_core_lets_a_light_group_pass(struct kunit *test)
{
	struct ek_test *t = ek_test_init(test, 100);

	ek_test_run(t, 2, 4 * EK_SEC);
	/* group 1 sends one request in two seconds, so it uses little of its share */
	ek_test_run(t, 1, EK_SEC);
	ek_test_insert(t, 1);
	ek_test_run(t, 1, EK_SEC);
	KUNIT_ASSERT_EQ(test, t->g[1].queued, 0U);
	KUNIT_ASSERT_GT(test, t->g[0].queued, 0U);
	ek_test_insert(t, 1);
	KUNIT_EXPECT_TRUE(test, t->g[1].light);
	KUNIT_EXPECT_PTR_EQ(test, ek_test_pick(t), &t->g[1]);
	KUNIT_EXPECT_EQ(test, t->core.why, (u8)EK_WHY_AHEAD);
}

/*
 * Group 1 has a share of 1 in 101. The turns of group 0 last longer than starve_ms, and longer
 * than the time in which this share earns group 1 one request. So group 1 is served out of turn.
 */
static void ek_test_core_serves_a_starving_group(struct kunit *test)
{
	struct ek_test *t = ek_test_init(test, 10000);
	u64 starve = 101 * EK_TEST_TAKES * 5 / 4;

	t->core.t.starve_ms = 50;
	ek_test_run(t, 2, 3 * EK_SEC);
	t->core.nr_guarded = 0;
	memset(t->longest, 0, sizeof(t->longest));
	ek_test_run(t, 2, 20 * EK_SEC);
	KUNIT_EXPECT_GT(test, t->core.nr_guarded, 0ULL);
	KUNIT_EXPECT_LE(test, t->longest[1], starve + 10 * EK_TEST_TAKES);
	/* beyond its share of 1 %, group 1 gets at most guard_percent out of turn */
	KUNIT_EXPECT_LE(test, t->served[1] * 100,
			(t->core.t.guard_percent + 2) * (t->served[0] + t->served[1]));
}

/* A request goes at once if the device is idle, but must not overtake a waiting request. */
static void ek_test_core_quick(struct kunit *test)
{
	struct ek_test *t = ek_test_init(test, 100);
	struct ek_req r = ek_test_req();

	/* the group is not active and has sent nothing */
	KUNIT_EXPECT_FALSE(test, ek_core_quick(&t->core, &t->g[0], &r, t->now));
	ek_test_insert(t, 0);
	KUNIT_ASSERT_PTR_EQ(test, ek_test_pick(t), &t->g[0]);
	ek_test_dispatch(t, &t->g[0]);
	ek_test_complete(t);
	KUNIT_EXPECT_TRUE(test, ek_core_quick(&t->core, &t->g[0], &r, t->now));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->core.in_flight), 1);
	t->now += EK_TEST_TAKES;
	ek_core_complete(&t->core, &t->g[0], &r, false, t->now);
	ek_test_insert(t, 1);
	r = ek_test_req();
	KUNIT_EXPECT_FALSE(test, ek_core_quick(&t->core, &t->g[0], &r, t->now));
	KUNIT_ASSERT_PTR_EQ(test, ek_test_pick(t), &t->g[1]);
	ek_test_dispatch(t, &t->g[1]);
	ek_test_complete(t);
	ek_core_arrive(&t->core, &t->g[1], t->now);
	KUNIT_EXPECT_FALSE(test, ek_core_quick(&t->core, &t->g[0], &r, t->now));
}

static struct kunit_case ek_cases[] = {
	KUNIT_CASE(ek_test_before_wraps),
	KUNIT_CASE(ek_test_hold),
	KUNIT_CASE(ek_test_buckets),
	KUNIT_CASE(ek_test_shares),
	KUNIT_CASE(ek_test_channels),
	KUNIT_CASE(ek_test_core_round_trip),
	KUNIT_CASE(ek_test_core_shares_by_weight),
	KUNIT_CASE(ek_test_core_lets_a_light_group_pass),
	KUNIT_CASE(ek_test_core_serves_a_starving_group),
	KUNIT_CASE(ek_test_core_quick),
	{}
};

static struct kunit_suite ek_suite = {
	.name = "evenkeel",
	.test_cases = ek_cases,
};

kunit_test_suite(ek_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of evenkeel");
