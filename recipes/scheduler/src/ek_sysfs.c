// SPDX-License-Identifier: GPL-2.0-only
/* Tunables in queue/iosched/, state in debugfs. */
#include "ek.h"

#include <linux/cgroup.h>
#include <linux/sysfs.h>

/*
 * Tunables, each a u32 of struct ek_data. What is out of bounds is refused
 * with -ERANGE, what is no number with -EINVAL, and changes nothing.
 */
struct ek_tunable {
	size_t offset;
	u32 dfl, min, max;
};

#define EK_TUNABLE(name, field, dfl, min, max) \
	[EK_##name] = { offsetof(struct ek_data, field), dfl, min, max }

enum {
	EK_window_us, EK_split_read_kb, EK_split_write_kb, EK_ahead_kb,
	EK_request_kb, EK_think_max_us, EK_starve_ms, EK_fixed_cap,
	EK_read_lead_us, EK_channels, EK_chunk_kb,
};

static const struct ek_tunable ek_tunables[] = {
	/*
	 * Work in the device beside others: longer than any flash device takes
	 * to answer, and than a CPU is held up by one system call: while 100 MB
	 * are pinned for direct I/O (25,600 pages, 7 ms at 1 GHz), nothing else
	 * can dispatch there.
	 */
	EK_TUNABLE(window_us, window_us, 8000, 100, 1000000),
	/* the bytes that this comes to, in KiB of cost; 0: found by measuring */
	EK_TUNABLE(split_read_kb, window[0].set_kb, 0, 0, 1 << 20),
	EK_TUNABLE(split_write_kb, window[1].set_kb, 0, 0, 1 << 20),
	/*
	 * What a group may be served ahead of one that is awaited: enough small
	 * requests to fill an eMMC command queue half, but no large one.
	 */
	EK_TUNABLE(ahead_kb, ahead_kb, 256, 0, 1 << 20),
	/*
	 * Device time per command, as KiB of transfer: a command of an eMMC
	 * takes about 70 us, in which it moves 16 KiB at 220 MB/s.
	 */
	EK_TUNABLE(request_kb, request_kb, 16, 1, 1024),
	/*
	 * Longest wait for a group's next request: about one request of 512 KiB
	 * at 250 MB/s; longer would cost more than the turn is worth.
	 */
	EK_TUNABLE(think_max_us, think_max_us, 2000, 0, 100000),
	/* a group with requests is served at least this often, at any weight */
	EK_TUNABLE(starve_ms, starve_ms, 2000, 10, 60000),
	/* requests of others beside regulated ones; 0: found by measuring */
	EK_TUNABLE(fixed_cap, fixed_cap, 0, 0, 10000),
	/*
	 * By how much a synchronous write may be passed by reads of its group:
	 * about what is in the device at once, so that a read waits for no write
	 * that it can pass, and a write never noticeably longer.
	 */
	EK_TUNABLE(read_lead_us, read_lead_us, 8000, 0, 1000000),
	/* of the flash, and KiB on one before the next (0: equal ranges) */
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
	ek_window_update(ek, ktime_get_ns());
	ek_channels_changed(ek);
	/* what groups keep for a while depends on it */
	WRITE_ONCE(ek->top.generation, ek->top.generation + 1);
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
EK_ATTR(window_us);
EK_ATTR(split_read_kb);
EK_ATTR(split_write_kb);
EK_ATTR(ahead_kb);
EK_ATTR(request_kb);
EK_ATTR(think_max_us);
EK_ATTR(starve_ms);
EK_ATTR(fixed_cap);
EK_ATTR(read_lead_us);
EK_ATTR(channels);
EK_ATTR(chunk_kb);
#undef EK_ATTR

#define EK_ATTR(name) __ATTR(name, 0644, ek_##name##_show, ek_##name##_store)

struct elv_fs_entry ek_attrs[] = {
	EK_ATTR(window_us),
	EK_ATTR(split_read_kb),
	EK_ATTR(split_write_kb),
	EK_ATTR(ahead_kb),
	EK_ATTR(request_kb),
	EK_ATTR(think_max_us),
	EK_ATTR(starve_ms),
	EK_ATTR(fixed_cap),
	EK_ATTR(read_lead_us),
	EK_ATTR(channels),
	EK_ATTR(chunk_kb),
	__ATTR_NULL
};

#undef EK_ATTR

#ifdef CONFIG_BLK_DEBUG_FS
/* Our data, which stay until ek_debugfs_put(); NULL: no longer our queue. */
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
	u32 share = ek_group_share(ek, g);

	/* a group may outlive its cgroup by the requests that it still has */
	seq_printf(m, "cgroup %llu weight=%u share=%u.%03u vtime=%lld queued=%u queued_kb=%u",
		   g->cgroup, ek_group_weight(g), share >> EK_SHARE_SHIFT,
		   (share % EK_SHARE_ONE) * 1000 / EK_SHARE_ONE,
		   (s64)(g->vtime - ek->vnow), g->queued, g->queued_kb);
	if (g->fixed || g->regulated)
		seq_printf(m, " fixed=%u", g->fixed);
	seq_printf(m, " in_flight=%d held=%d pending=%u waiting=%d think_us=%u throttled=%llu\n",
		   atomic_read(&g->in_flight), atomic_read(&g->held),
		   g->pending, (int)list_count_nodes(&g->waiters), g->think_us,
		   g->throttled);
}

/* Virtual times are relative to the queue's. */
static int ek_groups_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct ek_data *ek = ek_debugfs_get(q);
	struct rb_root_cached *trees[] = { &ek->backlogged, &ek->awaited };
	struct ek_group *g;
	struct rb_node *n;
	int i;

	if (!ek)
		return -ENODEV;
	spin_lock_irq(&ek->lock);
	for (i = 0; i < ARRAY_SIZE(trees); i++)
		for (n = rb_first_cached(trees[i]); n; n = rb_next(n))
			ek_show_group(m, ek,
				      rb_entry(n, struct ek_group, node));
	list_for_each_entry(g, &ek->fixed.groups, fixed_node)
		if (g->regulated)
			ek_show_group(m, ek, g);
	spin_unlock_irq(&ek->lock);
	ek_debugfs_put(q);
	return 0;
}

static void ek_show_window(struct seq_file *m, const char *name,
			   const struct ek_window *w, u64 now)
{
	seq_printf(m, "window_%s %u alone %u light %u rate %u why %s age_ms %llu\n",
		   name, w->beside_kb, w->alone_kb, w->light_kb, w->rate,
		   w->why, div_u64(now - w->changed, NSEC_PER_MSEC));
}

/* Service times that were learned, by size from 512 bytes. */
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

/* Requests in the device on each channel, if that is looked at. */
static void ek_show_channels(struct seq_file *m, struct ek_data *ek)
{
	u32 i;

	seq_printf(m, "channels %s", ek_channel_on(ek) ? "on" : "off");
	for (i = 0; ek->channels > 1 && i < ek->channels; i++)
		seq_printf(m, " %d", atomic_read(&ek->channel_flight[i]));
	seq_puts(m, "\n");
}

static int ek_state_show(void *data, struct seq_file *m)
{
	struct request_queue *q = data;
	struct ek_data *ek = ek_debugfs_get(q);
	u64 now = ktime_get_ns();

	if (!ek)
		return -ENODEV;
	spin_lock_irq(&ek->lock);
	ek_show_window(m, "read", &ek->window[0], now);
	ek_show_window(m, "write", &ek->window[1], now);
	seq_printf(m, "small_us %u\n", READ_ONCE(ek->small_us));
	seq_printf(m, "active %u\nweight_sum %llu\nqueued %u\non_hold %d\n",
		   ek->nr_active, ek->top.sum, ek->nr_queued, ek->on_hold);
	seq_printf(m, "in_flight %d\nin_flight_kb %d\ntags %u\ntags_used %d\ngranted %d\nwaiting %u\n",
		   atomic_read(&ek->in_flight), atomic_read(&ek->in_flight_kb),
		   (u32)q->nr_requests, atomic_read(&ek->tags_used),
		   atomic_read(&ek->granted), ek->nr_waiting);
	ek_show_channels(m, ek);
	seq_printf(m, "holds %llu\nholds_expired %llu\nstarved %llu\n",
		   ek->nr_holds, ek->nr_hold_expired, ek->nr_starved);
	seq_printf(m, "fixed_groups %u\nfixed_cap %d\nfixed_rule %d\nfixed_bonus %d\nfixed_in_flight %d\nfixed_tags %d\n",
		   ek->fixed.nr, (s32)ek->fixed.cap, (s32)ek->fixed.rule,
		   ek->fixed.search.bonus, atomic_read(&ek->fixed_in_flight),
		   atomic_read(&ek->fixed_tags));
	ek_show_service(m, &ek->fixed);
	seq_printf(m, "gate_waits %llu\ngate_holds %llu\ngate_backstops %llu\nstale_grants %llu\nnowait_limited %u\n",
		   ek->nr_gate_waits, ek->nr_gate_holds, ek->nr_gate_backstops,
		   ek->nr_stale_grants,
		   (u32)atomic_read(&ek->nr_nowait_limited));
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
