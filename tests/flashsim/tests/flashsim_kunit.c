// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of the timing model as the kernel compiles it. test_timing.py has more tests. */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/slab.h>

/* flashsim.ko does not export the model, so this module has a copy of its own */
#include "flashsim_timing.c"
#include "flashsim_params.c"
#include "flashsim_presets.c"

#define EK_FS_TEST_IOS	600

struct ek_fs_test {
	struct ek_flash_params p;
	struct ek_flash *dev;
	struct ek_flash_req *reqs;
	u64 random;
	u64 end;	/* when the last request was done */
	u32 sent, done;
};

static u32 ek_fs_test_random(struct ek_fs_test *t, u32 below)
{
	u32 rem;

	t->random = t->random * 6364136223846793005ULL + 1442695040888963407ULL;
	div_u64_rem(t->random >> 33, below, &rem);
	return rem;
}

static struct ek_fs_test *ek_fs_test_device(struct kunit *test, const char *preset,
					    const char *pairs)
{
	struct ek_fs_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	char why[256] = "";

	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_EQ_MSG(test, ek_flash_preset(&t->p, preset, why, sizeof(why)), 0, "%s", why);
	KUNIT_ASSERT_EQ_MSG(test, ek_flash_set(&t->p, pairs, why, sizeof(why)), 0, "%s", why);
	KUNIT_ASSERT_EQ_MSG(test, ek_flash_check(&t->p, why, sizeof(why)), 0, "%s", why);
	t->dev = kunit_kzalloc(test, ek_flash_bytes(&t->p), GFP_KERNEL);
	t->reqs = kunit_kcalloc(test, EK_FS_TEST_IOS, sizeof(*t->reqs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->dev);
	KUNIT_ASSERT_NOT_NULL(test, t->reqs);
	ek_flash_init(t->dev, &t->p, 0);
	t->random = 1;
	return t;
}

/* Reap all requests that are done, and check that the parts of each sum up to its time. */
static void ek_fs_test_reap(struct kunit *test, struct ek_fs_test *t, u64 now)
{
	struct ek_flash_req *req;

	while ((req = ek_flash_reap(t->dev, now))) {
		u64 sum = 0;
		u32 i;

		for (i = 0; i < EK_FS_PARTS; i++)
			sum += req->part[i];
		KUNIT_ASSERT_GE(test, req->done, req->arrive);
		KUNIT_ASSERT_EQ(test, sum, req->done - req->arrive);
		KUNIT_ASSERT_GE(test, req->done, t->end);
		KUNIT_ASSERT_LE(test, req->done, now);
		t->end = req->done;
		t->done++;
	}
}

/* Fill in a random operation of a random size. */
static void ek_fs_test_mix(struct ek_fs_test *t, struct ek_flash_req *req)
{
	static const u32 sizes[] = { 512, 4096, 65536, 524288 };

	if (!ek_fs_test_random(t, 20)) {
		req->op = ek_fs_test_random(t, 2) ? EK_FS_FLUSH : EK_FS_DISCARD;
		req->bytes = req->op == EK_FS_FLUSH ? 0 : 1 << 20;
		return;
	}
	req->op = ek_fs_test_random(t, 2);
	req->bytes = sizes[ek_fs_test_random(t, 4)];
	req->fua = req->op == EK_FS_WRITE && !ek_fs_test_random(t, 10);
}

/* Run @n requests, @depth at a time. If @bytes is 0: a mixture of sizes and operations. */
static void ek_fs_test_run(struct kunit *test, struct ek_fs_test *t, u32 n, u32 depth, u32 bytes,
			   enum ek_fs_op op, bool sequential)
{
	u64 now = 0;

	KUNIT_ASSERT_LE(test, n, (u32)EK_FS_TEST_IOS);
	while (t->done < n) {
		while (t->sent < n && t->sent - t->done < depth) {
			struct ek_flash_req *req = &t->reqs[t->sent];

			req->op = op;
			req->bytes = bytes;
			req->sector = ek_fs_test_random(t, 100000) * 8ULL;
			if (sequential)
				req->sector = (u64)t->sent * (bytes >> 9);
			if (!bytes)
				ek_fs_test_mix(t, req);
			t->sent++;
			ek_flash_submit(t->dev, req, now);
		}
		now = ek_flash_next(t->dev);
		KUNIT_ASSERT_NE(test, now, EK_FS_NEVER);
		ek_fs_test_reap(test, t, now);
	}
	KUNIT_EXPECT_EQ(test, t->dev->inside, 0U);
}

static u64 ek_fs_test_mbps(const struct ek_fs_test *t, u32 n, u32 bytes)
{
	return div64_u64((u64)n * bytes * 1000, t->end);
}

static void ek_test_flash_parts_sum_up(struct kunit *test)
{
	static const char * const sets[] = {
		"", "active=1,buffer_kb=0", "suspend_us=20,buffer_kb=512",
		"map=ranges,gc_after_kb=64,block_pages=8", "slc_kb=2048,buffer_kb=512",
		"link_duplex=1",
		"wear_pct=80,full_pct=95,jitter_pct=50,jitter_tail_in=20,retry_in=3",
		"discard_us=1000,discard_exclusive=1,bg_after_kb=512,bg_ms=5,bg_most=2,heat_mb=1",
	};
	u32 i, j;

	for (i = 0; i < ek_fs_nr_presets; i++) {
		for (j = 0; j < ARRAY_SIZE(sets); j++) {
			struct ek_fs_test *t;

			t = ek_fs_test_device(test, ek_fs_presets[i].name, sets[j]);
			ek_fs_test_run(test, t, EK_FS_TEST_IOS, 32, 0, EK_FS_READ, false);
			kunit_kfree(test, t->dev);
			kunit_kfree(test, t->reqs);
		}
	}
}

static void ek_test_flash_reaches_its_link(struct kunit *test)
{
	struct ek_fs_test *t = ek_fs_test_device(test, "emmc51", "");
	u64 mbps;

	ek_fs_test_run(test, t, 200, 4, 524288, EK_FS_READ, true);
	mbps = ek_fs_test_mbps(t, 200, 524288);
	KUNIT_EXPECT_GE(test, mbps, t->p.link_read_mbps * 97ULL / 100);
	KUNIT_EXPECT_LE(test, mbps, (u64)t->p.link_read_mbps);
}

static void ek_test_flash_serial(struct kunit *test)
{
	struct ek_fs_test *t = ek_fs_test_device(test, "emmc50-slow", "");
	u64 end = 0;
	u32 i;

	ek_fs_test_run(test, t, 200, 32, 4096, EK_FS_READ, false);
	for (i = 0; i < 200; i++) {
		struct ek_flash_req *req = &t->reqs[i];

		KUNIT_EXPECT_GE(test, req->begin, end);
		end = req->done;
	}
}

static void ek_test_flash_pipe_is_exact(struct kunit *test)
{
	struct ek_fs_test *t = ek_fs_test_device(test, "pipe", "");
	u32 i;

	ek_fs_test_run(test, t, 100, 64, 524288, EK_FS_WRITE, false);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, t->reqs[i].done,
				(i + 1) * (div_u64(524288000ULL, 66) + 76000));
}

/* An exclusive discard is alone in the device. The wait of others counts in their part ERASE. */
static void ek_test_flash_exclusive_discard(struct kunit *test)
{
	struct ek_fs_test *t = ek_fs_test_device(test, "emmc51", "jitter_tail_in=0,jitter_pct=0");
	struct ek_flash_req *req = t->reqs;
	u32 i;

	for (i = 0; i < 3; i++) {
		req[i].op = i == 1 ? EK_FS_DISCARD : EK_FS_READ;
		req[i].bytes = i == 1 ? 1 << 20 : 4096;
		ek_flash_submit(t->dev, &req[i], 0);
	}
	ek_fs_test_reap(test, t, 100000000);
	KUNIT_EXPECT_EQ(test, t->done, 3U);
	KUNIT_EXPECT_EQ(test, req[1].begin, req[0].done);
	KUNIT_EXPECT_EQ(test, req[2].begin, req[1].done);
	/* the discard takes 1500 us, and 100 us for each of two erase groups */
	KUNIT_EXPECT_EQ(test, req[1].part[EK_FS_ERASE], 1700000ULL);
	KUNIT_EXPECT_EQ(test, req[2].part[EK_FS_ERASE], req[1].done - req[1].begin);
}

/* Equal seeds give equal times, and another seed gives others with the same mean. */
static void ek_test_flash_seed(struct kunit *test)
{
	static const char * const sets[] = { "seed=1", "seed=1", "seed=2" };
	u64 end[3];
	u32 i;

	for (i = 0; i < 3; i++) {
		struct ek_fs_test *t = ek_fs_test_device(test, "emmc51", sets[i]);

		ek_fs_test_run(test, t, EK_FS_TEST_IOS, 1, 4096, EK_FS_READ, false);
		end[i] = t->end;
	}
	KUNIT_EXPECT_EQ(test, end[0], end[1]);
	KUNIT_EXPECT_NE(test, end[0], end[2]);
	KUNIT_EXPECT_GT(test, end[2] * 10, end[0] * 9);
	KUNIT_EXPECT_LT(test, end[2] * 10, end[0] * 11);
}

static void ek_test_flash_collects_late(struct kunit *test)
{
	struct ek_fs_test *t = ek_fs_test_device(test, "emmc51", "gc_after_kb=65536");

	ek_fs_test_run(test, t, 120, 4, 524288, EK_FS_WRITE, true);
	KUNIT_EXPECT_EQ(test, t->dev->totals.gc_pauses, 0ULL);
	ek_fs_test_run(test, t, 400, 4, 524288, EK_FS_WRITE, true);
	KUNIT_EXPECT_GT(test, t->dev->totals.gc_pauses, 0ULL);
}

static void ek_test_flash_disk_gains_from_depth(struct kunit *test)
{
	u64 end[2];
	u32 i;

	for (i = 0; i < 2; i++) {
		struct ek_fs_test *t = ek_fs_test_device(test, "hdd-5400", "");

		ek_fs_test_run(test, t, 400, i ? 8 : 1, 8192, EK_FS_READ, false);
		end[i] = t->end;
	}
	KUNIT_EXPECT_LT(test, end[1] * 3, end[0] * 2);
}

/* An aborted request leaves the device, and the device continues with the others. */
static void ek_test_flash_abort(struct kunit *test)
{
	struct ek_fs_test *t = ek_fs_test_device(test, "emmc50-slow", "");
	struct ek_flash_req *req = t->reqs;
	u32 i;

	t->dev->hang = 1000000000ULL;
	for (i = 0; i < 3; i++) {
		req[i].op = EK_FS_READ;
		req[i].bytes = 4096;
		ek_flash_submit(t->dev, &req[i], 0);
	}
	KUNIT_EXPECT_TRUE(test, req[0].hung);
	KUNIT_EXPECT_PTR_EQ(test, ek_flash_hung(t->dev), &req[0]);
	KUNIT_EXPECT_FALSE(test, req[1].hung);
	KUNIT_EXPECT_GT(test, ek_flash_next(t->dev), 1000000000ULL);
	ek_fs_test_reap(test, t, 5000000);
	KUNIT_EXPECT_EQ(test, t->done, 0U);
	KUNIT_EXPECT_TRUE(test, ek_flash_abort(t->dev, &req[0], 5000000));
	KUNIT_EXPECT_FALSE(test, ek_flash_abort(t->dev, &req[0], 5000000));
	KUNIT_EXPECT_EQ(test, req[0].done, 5000000ULL);
	KUNIT_EXPECT_NULL(test, ek_flash_hung(t->dev));
	ek_fs_test_reap(test, t, 10000000);
	KUNIT_EXPECT_EQ(test, t->done, 2U);
	KUNIT_EXPECT_EQ(test, t->dev->slots, 1U);
	/* a request that is done cannot be aborted */
	KUNIT_EXPECT_FALSE(test, ek_flash_abort(t->dev, &req[1], 10000000));
}

/* ek_flash_take() returns each request in the device once, whatever it waits for. */
static void ek_test_flash_take(struct kunit *test)
{
	struct ek_fs_test *t = ek_fs_test_device(test, "emmc51", "buffer_kb=512");
	u32 i, taken = 0;

	for (i = 0; i < 40; i++) {
		t->reqs[i].op = i % 4 == 3 ? EK_FS_READ : EK_FS_WRITE;
		t->reqs[i].bytes = 524288;
		t->reqs[i].sector = i * 1024;
		ek_flash_submit(t->dev, &t->reqs[i], 0);
	}
	ek_fs_test_reap(test, t, 5000000);
	KUNIT_EXPECT_NOT_NULL(test, t->dev->stalled);
	while (ek_flash_take(t->dev))
		taken++;
	KUNIT_EXPECT_EQ(test, taken + t->done, 40U);
	KUNIT_EXPECT_EQ(test, t->dev->inside, 0U);
	KUNIT_EXPECT_EQ(test, t->dev->slots, t->p.active);
}

static void ek_test_flash_names_what_is_wrong(struct kunit *test)
{
	struct ek_flash_params p;
	char why[1024];

	KUNIT_EXPECT_EQ(test, ek_flash_preset(&p, "floppy", why, sizeof(why)), -EINVAL);
	KUNIT_EXPECT_NOT_NULL(test, strstr(why, "no preset \"floppy\"; there are: emmc51 emmc50"));
	KUNIT_EXPECT_EQ(test, ek_flash_preset(&p, "pipe\n", why, sizeof(why)), 0);
	KUNIT_EXPECT_EQ(test, ek_flash_set(&p, "dies=99", why, sizeof(why)), -EINVAL);
	KUNIT_EXPECT_STREQ(test, why, "dies is \"99\", must be a number from 1 to 16");
	KUNIT_EXPECT_EQ(test, ek_flash_set(&p, "x=1", why, 20), -EINVAL);
	KUNIT_EXPECT_EQ_MSG(test, strlen(why), 19UL, "a message must be truncated to the buffer");
}

static struct kunit_case ek_flash_cases[] = {
	KUNIT_CASE(ek_test_flash_parts_sum_up),
	KUNIT_CASE(ek_test_flash_reaches_its_link),
	KUNIT_CASE(ek_test_flash_serial),
	KUNIT_CASE(ek_test_flash_pipe_is_exact),
	KUNIT_CASE(ek_test_flash_exclusive_discard),
	KUNIT_CASE(ek_test_flash_seed),
	KUNIT_CASE(ek_test_flash_collects_late),
	KUNIT_CASE(ek_test_flash_disk_gains_from_depth),
	KUNIT_CASE(ek_test_flash_abort),
	KUNIT_CASE(ek_test_flash_take),
	KUNIT_CASE(ek_test_flash_names_what_is_wrong),
	{}
};

static struct kunit_suite ek_flash_suite = {
	.name = "flashsim",
	.test_cases = ek_flash_cases,
};

kunit_test_suite(ek_flash_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of flashsim");
