// SPDX-License-Identifier: GPL-2.0-only
/* KUnit: tests the arithmetic of evenkeel as the kernel compiles it. */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/random.h>

#include "ek_math.h"
#include "ek_share.h"
#include "ek_channel.h"

static void ek_test_before_wraps(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, ek_before(1, 2));
	KUNIT_EXPECT_FALSE(test, ek_before(2, 2));
	KUNIT_EXPECT_TRUE(test, ek_before(U64_MAX - 5, 3));
	KUNIT_EXPECT_EQ(test, ek_later(U64_MAX - 5, 3), 3ULL);
}

static void ek_test_cost(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ek_cost_kb(0, 16), 16U);
	KUNIT_EXPECT_EQ(test, ek_cost_kb(512, 16), 17U);
	KUNIT_EXPECT_EQ(test, ek_cost_kb(524288, 16), 528U);
	/* the largest possible request at the smallest weight */
	KUNIT_EXPECT_EQ(test,
			ek_vtime(ek_cost_kb(UINT_MAX - 1023, 0), EK_SHARE_ONE),
			(u64)(UINT_MAX / 1024) << EK_VSHIFT);
}

static void ek_test_hold(struct kunit *test)
{
	u32 tags, held;

	/* a group that is alone still leaves tags; async requests get fewer than sync ones */
	for (tags = 1; tags <= 1024; tags++) {
		for (held = 0; ek_may_hold(held, tags, 100, 100, false);)
			held++;
		KUNIT_EXPECT_LE(test, held, tags);
		KUNIT_EXPECT_GE(test, held, 1U);
		if (tags >= 4)
			KUNIT_EXPECT_LT(test, held, tags);
		KUNIT_EXPECT_FALSE(test, ek_may_hold(held, tags, 100, 100, true));
	}
	/* weights 2:1 on 128 tags */
	KUNIT_EXPECT_TRUE(test, ek_may_hold(85, 128, 200, 300, false));
	KUNIT_EXPECT_FALSE(test, ek_may_hold(86, 128, 200, 300, false));
	KUNIT_EXPECT_TRUE(test, ek_may_hold(42, 128, 100, 300, false));
	KUNIT_EXPECT_FALSE(test, ek_may_hold(43, 128, 100, 300, false));
	/*
	 * Fixed shares: a group holds at most a quarter of the tags, and all such groups
	 * at most half. A group without a tag gets one unless it would be the last.
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
 * Start-time fair queueing on random requests of random weights: between any
 * two groups that always have requests, |c_i/w_i - c_j/w_j| stays within the
 * sum of their largest requests over their weights.
 */
static void ek_test_lag_is_bounded(struct kunit *test)
{
	enum { GROUPS = 5, ROUNDS = 20000, MAX_KB = 528 };
	u64 vtime[GROUPS] = {}, served[GROUPS] = {};
	u32 share[GROUPS];
	int i, j, round;

	for (i = 0; i < GROUPS; i++)
		share[i] = get_random_u32_inclusive(1, 1000) << EK_SHARE_SHIFT;
	for (round = 0; round < ROUNDS; round++) {
		u32 cost = get_random_u32_inclusive(1, MAX_KB);

		for (i = 0, j = 1; j < GROUPS; j++)
			if (ek_before(vtime[j], vtime[i]))
				i = j;
		vtime[i] += ek_vtime(cost, share[i]);
		served[i] += cost;
	}
	for (i = 0; i < GROUPS; i++) {
		for (j = 0; j < GROUPS; j++) {
			u64 a = ek_vtime(served[i], share[i]);
			u64 b = ek_vtime(served[j], share[j]);
			u64 bound = ek_vtime(MAX_KB, share[i]) +
				    ek_vtime(MAX_KB, share[j]) + ROUNDS;

			KUNIT_EXPECT_LE(test, a > b ? a - b : b - a, bound);
		}
	}
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

	/* chunks of 16 KiB in turn on 8 channels; then the last of five equal ranges */
	KUNIT_EXPECT_EQ(test, ek_channel_of(32 * 9 + 31, 512, 8, 16, 0), 1U);
	KUNIT_EXPECT_EQ(test, ek_channel_of(31, 1024, 8, 16, 0), 64U);
	KUNIT_EXPECT_EQ(test, ek_channel_of(99, 512, 5, 0, 100), 4U);
	KUNIT_EXPECT_EQ(test, ek_channel_pick(waiting, 5, load), 2U);
	load[1] = 2;
	KUNIT_EXPECT_EQ(test, ek_channel_pick(waiting, 5, load), 3U);
	/* an oldest request that spans channels is next */
	KUNIT_EXPECT_EQ(test, ek_channel_pick(waiting + 1, 4, load), 0U);
}

static void ek_test_think_converges(struct kunit *test)
{
	u32 mean = 0;
	int i;

	for (i = 0; i < 40; i++)
		mean = ek_think(mean, 1000);
	KUNIT_EXPECT_GE(test, mean, 990U);
	KUNIT_EXPECT_LE(test, mean, 1000U);
}

static struct kunit_case ek_cases[] = {
	KUNIT_CASE(ek_test_before_wraps),
	KUNIT_CASE(ek_test_cost),
	KUNIT_CASE(ek_test_hold),
	KUNIT_CASE(ek_test_buckets),
	KUNIT_CASE(ek_test_lag_is_bounded),
	KUNIT_CASE(ek_test_shares),
	KUNIT_CASE(ek_test_channels),
	KUNIT_CASE(ek_test_think_converges),
	{}
};

static struct kunit_suite ek_suite = {
	.name = "evenkeel",
	.test_cases = ek_cases,
};

kunit_test_suite(ek_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of evenkeel");
