// SPDX-License-Identifier: GPL-2.0-only
/* The tunables in queue/iosched/, and the files `groups` and `state` in debugfs. */
#include "ek.h"

#include <linux/cgroup.h>
#include <linux/sysfs.h>

/*
 * A tunable is a u32 in struct ek_data. A write of a value out of bounds fails with -ERANGE,
 * and a write of text that is not a number with -EINVAL. A failed write changes nothing.
 */
struct ek_tunable {
	size_t offset;
	u32 dfl, min, max;
};

#define EK_TUNABLE(name, field, dfl, min, max) \
	[EK_##name] = { offsetof(struct ek_data, field), dfl, min, max }

enum {
	EK_turn_ms, EK_await_us, EK_starve_ms, EK_fixed_cap, EK_channels,
	EK_chunk_kb,
};

static const struct ek_tunable ek_tunables[] = {
	/*
	 * Length of a group's turn in ms, unless the group's share of a round is less. The
	 * device loses some time at the end of each turn: shorter turns lose more. Other
	 * groups wait while a turn lasts: with longer turns they wait for longer.
	 */
	EK_TUNABLE(turn_ms, core.t.turn_ms, 100, 1, 10000),
	/*
	 * Longest wait for a group's next request in us. 2000 us is about the time of one
	 * request of 512 KiB at 250 MB/s. A longer wait would cost more than it brings.
	 */
	EK_TUNABLE(await_us, core.t.await_us, 2000, 0, 100000),
	/*
	 * A group that waits for longer than this (ms) may starve: see core/guard.c. The
	 * longest round of turns is shorter, so a wait for a turn is no starvation.
	 */
	EK_TUNABLE(starve_ms, core.t.starve_ms, 1200, 10, 60000),
	/*
	 * The number of requests of other groups that may be in the device while a fixed
	 * share is in use; 0: the search finds it, see ek_search_round().
	 */
	EK_TUNABLE(fixed_cap, fixed_cap, 0, 0, 10000),
	/*
	 * The number of flash channels; 1: unknown, reads are not ordered by channel. And the
	 * KiB of addresses on one channel before the next; 0: each channel has one of equal
	 * ranges of the device.
	 */
	EK_TUNABLE(channels, channels, 1, 1, EK_CHANNELS_MAX),
	EK_TUNABLE(chunk_kb, chunk_kb, 0, 0, 1 << 20),
};

static u32 *ek_tunable(struct ek_data *ek, int i)
{
	return (void *)ek + ek_tunables[i].offset;
}

void ek_tunables_init(struct ek_data *ek)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ek_tunables); i++)
		*ek_tunable(ek, i) = ek_tunables[i].dfl;
}

static ssize_t ek_tunable_show(struct elevator_queue *e, char *page, int i)
{
	return sysfs_emit(page, "%u\n",
			  READ_ONCE(*ek_tunable(e->elevator_data, i)));
}

static ssize_t ek_tunable_store(struct elevator_queue *e, const char *page,
				size_t count, int i)
{
	const struct ek_tunable *t = &ek_tunables[i];
	struct ek_data *ek = e->elevator_data;
	u32 v;
	int ret = kstrtou32(page, 10, &v);

	if (ret)
		return ret;
	if (v < t->min || v > t->max)
		return -ERANGE;
	spin_lock_irq(&ek->lock);
	WRITE_ONCE(*ek_tunable(ek, i), v);
	ek_channels_changed(ek);
	spin_unlock_irq(&ek->lock);
	return count;
}

#define EK_ATTR(name)							\
static ssize_t ek_##name##_show(struct elevator_queue *e, char *page)	\
{									\
	return ek_tunable_show(e, page, EK_##name);			\
}									\
static ssize_t ek_##name##_store(struct elevator_queue *e,		\
				 const char *page, size_t count)	\
{									\
	return ek_tunable_store(e, page, count, EK_##name);		\
}
EK_ATTR(turn_ms);
EK_ATTR(await_us);
EK_ATTR(starve_ms);
EK_ATTR(fixed_cap);
EK_ATTR(channels);
EK_ATTR(chunk_kb);
#undef EK_ATTR

#define EK_ATTR(name) __ATTR(name, 0644, ek_##name##_show, ek_##name##_store)

struct elv_fs_entry ek_attrs[] = {
	EK_ATTR(turn_ms),
	EK_ATTR(await_us),
	EK_ATTR(starve_ms),
	EK_ATTR(fixed_cap),
	EK_ATTR(channels),
	EK_ATTR(chunk_kb),
	__ATTR_NULL
};

#undef EK_ATTR

#ifdef CONFIG_BLK_DEBUG_FS
/*
 * The ek_data of @q, valid until ek_debugfs_put(). NULL, without a need for ek_debugfs_put(),
 * if the queue's elevator is no longer evenkeel.
 */
static struct ek_data *ek_debugfs_get(struct request_queue *q)
{
	struct elevator_queue *e;

	ek_elevator_lock(q);
	e = q->elevator;
	if (e && e->type->queue_debugfs_attrs == ek_debugfs_attrs)
		return e->elevator_data;
	ek_elevator_unlock(q);
	return NULL;
}

static void ek_debugfs_put(struct request_queue *q)
{
	ek_elevator_unlock(q);
}

static void ek_show_group(struct seq_file *m, struct ek_data *ek,
			  struct ek_group *g)
{
	struct ek_core_group *c = &g->core;

	/* the cgroup's number, not its path: a group with requests may outlive its cgroup */
	seq_printf(m, "cgroup %llu weight=%u share=%u.%03u ahead=%lld queued=%u urgent=%u",
		   g->cgroup, ek_group_weight(g), c->share >> EK_SHARE_SHIFT,
		   (c->share % EK_SHARE_ONE) * 1000 / EK_SHARE_ONE,
		   (s64)(c->vtime - ek->core.vnow), g->queued, c->urgent);
	if (g->fixed || g->regulated)
		seq_printf(m, " fixed=%u", g->fixed);
	seq_printf(m, " in_flight=%u held=%d pending=%u waiting=%u throttled=%llu limit=%u least_us=%u rate_kbps=%llu known=%d alike=%d noise_percent=%u pause_us=%llu waited_us=%llu column=%u\n",
		   ek_group_in_flight(g), atomic_read(&g->held), g->pending,
		   g->nr_waiting, g->throttled, c->limit,
		   c->least / 1000,
		   c->rate ? div64_u64(EK_SEC << (EK_Q - 10), c->rate) : 0,
		   c->known, c->alike, (u32)ek_mul(100, c->noise),
		   div_u64(c->away, EK_US), div_u64(READ_ONCE(g->blame.waited), EK_US),
		   READ_ONCE(g->blame.slot));
}

/*
 * Print the groups that use the device or recently did. `ahead` is the group's virtual time
 * minus the core's.
 */
static int ek_groups_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct ek_data *ek = ek_debugfs_get(q);
	struct ek_group *g;

	if (!ek)
		return -ENODEV;
	spin_lock_irq(&ek->lock);
	list_for_each_entry(g, &ek->groups, node)
		if (g->core.active || g->regulated || atomic_read(&g->held))
			ek_show_group(m, ek, g);
	spin_unlock_irq(&ek->lock);
	ek_debugfs_put(q);
	return 0;
}

/* Print the mean service times (ns) learned for fixed shares, by direction and size class. */
static void ek_show_service(struct seq_file *m, struct ek_fixed *fixed)
{
	static const char * const names[2] = { "read", "write" };
	int dir, size;

	spin_lock(&fixed->lock);
	for (dir = 0; dir < 2; dir++)
		for (size = 0; size < EK_SIZES; size++)
			if (fixed->service[dir][size].mean)
				seq_printf(m, "fixed_service_%s_%u %llu\n",
					   names[dir], 512 << size,
					   fixed->service[dir][size].mean);
	spin_unlock(&fixed->lock);
}

/* Print whether reads are ordered by channel, and the requests in the device on each channel. */
static void ek_show_channels(struct seq_file *m, struct ek_data *ek)
{
	u32 i;

	seq_printf(m, "channels %s", ek_channel_on(ek) ? "on" : "off");
	for (i = 0; ek->channels > 1 && i < ek->channels; i++)
		seq_printf(m, " %d", atomic_read(&ek->channel_flight[i]));
	seq_puts(m, "\n");
}

/* The q16 ratio @q in thousandths. @q must be below 2^38. */
static u32 ek_milli(u64 q)
{
	return (q * 1000) >> EK_Q;
}

static void ek_show_core(struct seq_file *m, struct ek_core *c)
{
	static const char * const kinds[EK_KINDS] = { "turns", "together" };
	int i;

	seq_printf(m, "active %u\nweight_sum %llu\ncore_in_flight %d\ncore_in_flight_ns %lld\n",
		   c->nr_active, c->top.sum, atomic_read(&c->in_flight),
		   (s64)atomic64_read(&c->in_flight_cost));
	for (i = 0; i < EK_KINDS; i++)
		seq_printf(m, "%s %u.%03u%s\n", kinds[i],
			   ek_milli(c->mode.lambda[i]) / 1000,
			   ek_milli(c->mode.lambda[i]) % 1000,
			   i == c->mode.kind ? " now" : "");
	seq_printf(m, "scale %u\nstretch %u\nlatency_us %u\nrequest_us %u\n",
		   c->scale, c->mode.stretch, c->most_latency / 1000,
		   c->most_request / 1000);
	seq_printf(m, "turns_taken %llu\nsolos %llu\nguarded %llu\npassed %llu\nquick %llu\n",
		   c->nr_turns, c->nr_solos, c->nr_guarded, c->nr_passed, c->nr_quick);
	seq_printf(m, "hidden_ns_per_kib %llu\n", ek_mul(c->hidden.rate, 1024));
}

static int ek_state_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct ek_data *ek = ek_debugfs_get(q);

	if (!ek)
		return -ENODEV;
	spin_lock_irq(&ek->lock);
	ek_show_core(m, &ek->core);
	seq_printf(m, "queued %u\non_hold %d\nin_flight %d\n", ek->nr_queued,
		   ek->on_hold, atomic_read(&ek->in_flight));
	seq_printf(m, "tags %u\ntags_used %d\ngranted %d\nwaiting %u\n",
		   (u32)q->nr_requests, atomic_read(&ek->tags_used),
		   atomic_read(&ek->granted), ek->nr_waiting);
	ek_show_channels(m, ek);
	seq_printf(m, "holds %llu\n", ek->nr_holds);
	seq_printf(m, "fixed_groups %u\nfixed_cap %d\nfixed_rule %d\nfixed_bonus %d\nfixed_in_flight %d\nfixed_tags %d\n",
		   ek->fixed.nr, (s32)ek->fixed.cap, (s32)ek->fixed.rule,
		   ek->fixed.search.bonus, atomic_read(&ek->fixed_in_flight),
		   atomic_read(&ek->fixed_tags));
	ek_show_service(m, &ek->fixed);
	seq_printf(m, "gate_waits %llu\nstale_grants %llu\nnowait_limited %u\n",
		   ek->nr_gate_waits, ek->nr_stale_grants,
		   (u32)atomic_read(&ek->nr_nowait_limited));
	seq_printf(m, "blaming %d\nblame_groups %u\nblame_in_device %u\n", ek->blaming,
		   READ_ONCE(ek->blame.nr), READ_ONCE(ek->blame.inside));
	spin_unlock_irq(&ek->lock);
	ek_debugfs_put(q);
	return 0;
}

const struct blk_mq_debugfs_attr ek_debugfs_attrs[] = {
	{ "groups", 0400, ek_groups_show },
	{ "state", 0400, ek_state_show },
	{},
};
#endif
