// SPDX-License-Identifier: GPL-2.0-only
/*
 * Groups are cgroups. A blkcg policy allocates an ek_group for each cgroup on each device. It
 * owns the files io.weight (io.evenkeel.weight if iocost is built into the kernel),
 * io.evenkeel.fixed and io.evenkeel.stat.
 */
#include "ek.h"

#include <linux/backing-dev.h>
#include <linux/ctype.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/string.h>

static struct ek_group *ek_pd_group(struct blkg_policy_data *pd)
{
	return pd ? container_of(pd, struct ek_group, pd) : NULL;
}

static struct ek_cgroup *ek_blkcg(struct blkcg *blkcg)
{
	return container_of(blkcg->cpd[ek_policy.plid], struct ek_cgroup, cpd);
}

/* Groups */

/* The number of groups allocated and not freed. It must be 0 when the module is unloaded. */
static atomic_t ek_nr_groups = ATOMIC_INIT(0);

static void ek_group_free_rcu(struct rcu_head *rcu)
{
	struct ek_group *g = container_of(rcu, struct ek_group, rcu);

	WARN_ON_ONCE(atomic_read(&g->core.in_flight) || atomic_read(&g->held) ||
		     atomic_read(&g->fixed_flight));
	free_percpu(g->histograms);
	kfree(g->blame.parts);
	kfree(g);
	atomic_dec(&ek_nr_groups);
}

/* @g has no request and no submitter: remove it from its queue. */
static void ek_group_leave(struct ek_group *g)
{
	struct ek_data *ek = g->ek;
	unsigned long flags;

	/* if the creation of the blkg failed, @g never had a queue */
	if (!ek)
		return;
	spin_lock_irqsave(&ek->lock, flags);
	ek_core_group_exit(&ek->core, &g->core);
	ek_blame_leave(ek, g);
	list_del(&g->node);
	list_del_init(&g->granted);
	list_del_init(&g->writers);
	spin_unlock_irqrestore(&ek->lock, flags);
}

/*
 * The last reference on @g was put. The references on its parents are put here, not in the
 * RCU callback: rcu_barrier() does not wait for a callback that another callback queues. A
 * reader that still sees @g under RCU does not follow its parent pointer.
 */
void ek_group_release(struct ek_group *g)
{
	struct ek_group *parent;

	for (; g; g = parent) {
		parent = g->core.node.parent ?
			 container_of(g->core.node.parent, struct ek_group,
				      core.node) : NULL;
		ek_group_leave(g);
		call_rcu(&g->rcu, ek_group_free_rcu);
		if (parent && !atomic_dec_and_test(&parent->refs))
			parent = NULL;
	}
}

static struct blkcg_policy_data *ek_cpd_alloc(gfp_t gfp)
{
	struct ek_cgroup *cg = kzalloc(sizeof(*cg), gfp);

	if (!cg)
		return NULL;
	cg->weight = EK_WEIGHT_DFL;
	return &cg->cpd;
}

static void ek_cpd_free(struct blkcg_policy_data *cpd)
{
	kfree(container_of(cpd, struct ek_cgroup, cpd));
}

static struct blkg_policy_data *ek_pd_alloc(struct gendisk *disk,
					    struct blkcg *blkcg, gfp_t gfp)
{
	struct ek_group *g = kzalloc_node(sizeof(*g), gfp, disk->node_id);

	if (!g)
		return NULL;
	atomic_set(&g->refs, 1);
	atomic_inc(&ek_nr_groups);
	return &g->pd;
}

static struct ek_group *ek_blkg_group(struct blkcg_gq *blkg)
{
	return ek_pd_group(blkg_to_pd(blkg, &ek_policy));
}

static void ek_pd_init(struct blkg_policy_data *pd)
{
	struct ek_group *g = ek_pd_group(pd);

	g->cgroup = cgroup_id(pd->blkg->blkcg->css.cgroup);
	ek_blame_group_init(&g->blame, g->cgroup);
	/* the block layer calls this for a parent before its children */
	ek_group_init(g, pd->blkg->q->elevator->elevator_data,
		      pd->blkg->parent ? ek_blkg_group(pd->blkg->parent) : NULL,
		      READ_ONCE(ek_blkcg(pd->blkg->blkcg)->weight));
}

/* The default weight may have changed since ek_pd_init(). Called under blkcg->lock. */
static void ek_pd_online(struct blkg_policy_data *pd)
{
	ek_group_set_weight(ek_pd_group(pd),
			    ek_blkcg(pd->blkg->blkcg)->weight);
}

static void ek_pd_free(struct blkg_policy_data *pd)
{
	struct ek_group *g = ek_pd_group(pd);

	/* the fixed share cannot be set again; if it was never set, @g may have no queue */
	if (g->fixed)
		ek_fixed_set(g, 0);
	ek_group_put(g);
}

/*
 * The group of @bio, or the root group if the bio has none. The bio's reference on its blkg
 * keeps the group alive. Its reference on the queue keeps the policy alive.
 *
 * Metadata and swap of a group with a fixed share count for the root group. Tasks of other
 * groups wait for them, for locks or for memory, and must not wait at this group's pace.
 */
struct ek_group *ek_bio_group(struct ek_data *ek, struct bio *bio)
{
	struct ek_group *g = NULL;

	if (bio && bio->bi_blkg && bio->bi_blkg->q == ek->q)
		g = ek_blkg_group(bio->bi_blkg);
	if (g && unlikely(READ_ONCE(g->fixed)) && bio_issue_as_root_blkg(bio))
		g = NULL;
	return g ?: ek_blkg_group(ek->q->root_blkg);
}

/* The cgroup of the present task; the root cgroup for kernel threads. */
static struct blkcg *ek_current_blkcg(void)
{
	if (current->flags & PF_KTHREAD)
		return &blkcg_root;
	return css_to_blkcg(task_css(current, io_cgrp_id));
}

/*
 * Writeback and other kernel threads submit bios of other cgroups, and limit_depth does not
 * get the bio. The merge attempt comes just before limit_depth, and has the bio. So it stores
 * the group of such a bio here, for ek_current_group().
 */
void ek_stash_bio(struct ek_data *ek, struct bio *bio)
{
	struct ek_group *g = NULL, *old;
	struct ek_stash *stash;

	rcu_read_lock();
	if (bio->bi_blkg && bio->bi_blkg->q == ek->q &&
	    bio->bi_blkg->blkcg != ek_current_blkcg())
		g = ek_blkg_group(bio->bi_blkg);
	rcu_read_unlock();

	stash = get_cpu_ptr(ek->stash);
	if (likely(!g && !stash->group)) {
		put_cpu_ptr(ek->stash);
		return;
	}
	if (g)
		ek_group_get(g);
	old = stash->group;
	stash->group = g;
	stash->task = current;
	put_cpu_ptr(ek->stash);
	if (old)
		ek_group_put(old);
}

/* Drop all stashes. The queue is frozen, so no task stores one. */
void ek_stash_clear(struct ek_data *ek)
{
	struct ek_stash *stash;
	int cpu;

	for_each_possible_cpu(cpu) {
		stash = per_cpu_ptr(ek->stash, cpu);
		if (stash->group)
			ek_group_put(stash->group);
		stash->group = NULL;
	}
}

/*
 * A bio that is too large is split, and the block layer tries no merge for the part that it
 * sends first. The rest of the bio waits meanwhile in the task's list of bios: its blkg, or
 * NULL. Only for kernel threads: other tasks submit bios of their own cgroup.
 */
static struct blkcg_gq *ek_rest_blkg(struct ek_data *ek)
{
	struct bio *rest;

	if (!(current->flags & PF_KTHREAD) || !current->bio_list)
		return NULL;
	rest = bio_list_peek(&current->bio_list[0]);
	return rest && rest->bi_blkg && rest->bi_blkg->q == ek->q ? rest->bi_blkg : NULL;
}

/*
 * The group of the stashed bio if there is one, otherwise of the rest of a bio that was split,
 * otherwise of the task. With a reference.
 */
static struct ek_group *ek_submitting_group(struct ek_data *ek)
{
	struct ek_group *g = NULL;
	struct ek_stash *stash;
	struct blkcg_gq *blkg;

	stash = get_cpu_ptr(ek->stash);
	if (stash->group && stash->task == current) {
		g = stash->group;
		stash->group = NULL;
	}
	put_cpu_ptr(ek->stash);
	if (g)
		return g;

	rcu_read_lock();
	blkg = ek_rest_blkg(ek) ?:
	       blkg_lookup(ek_current_blkcg(), ek->q) ?: ek->q->root_blkg;
	g = ek_blkg_group(blkg) ?: ek_blkg_group(ek->q->root_blkg);
	if (!atomic_inc_not_zero(&g->refs)) {
		g = ek_blkg_group(ek->q->root_blkg);
		ek_group_get(g);
	}
	rcu_read_unlock();
	return g;
}

/*
 * The group for which the submitter asks for a tag, with a reference. It is the same group to
 * which ek_bio_group() will assign the request.
 */
struct ek_group *ek_current_group(struct ek_data *ek, blk_opf_t opf)
{
	struct ek_group *g = ek_submitting_group(ek), *root;

	if (likely(!READ_ONCE(g->fixed)) || !(opf & (REQ_META | REQ_SWAP)))
		return g;
	root = ek_blkg_group(ek->q->root_blkg);
	ek_group_get(root);
	ek_group_put(g);
	return root;
}

/* Statistics */

/*
 * Add a latency of @ns to the histogram @hist. Until io.evenkeel.stat is read for the first
 * time, there are no histograms, and this does nothing. Any context.
 */
void ek_account_ns(struct ek_group *g, bool write, enum ek_hist hist, u64 ns)
{
	struct ek_histograms __percpu *h = READ_ONCE(g->histograms);

	if (h)
		this_cpu_inc(h->count[write][hist]
			     [ek_bucket(div_u64(ns, 1000))]);
}

void ek_account_request(struct ek_group *g, struct request *rq, u64 now)
{
	bool write = op_is_write(req_op(rq));
	u64 start = rq->start_time_ns, issued = rq->io_start_time_ns;

	if (issued < start || now < issued)
		return;
	ek_account_ns(g, write, EK_HIST_WAIT, issued - start);
	ek_account_ns(g, write, EK_HIST_SERVE, now - issued);
	/* for a request with a fixed share, ek_fixed_complete() accounts the total */
	if (likely(!rq->elv.icq))
		ek_account_ns(g, write, EK_HIST_TOTAL, now - start);
}

/*
 * Allocate the histograms and the rows of @blkcg on all devices. This happens at the first read of
 * io.evenkeel.stat: until then, no CPU time is spent on latencies. Histograms are too large
 * for an atomic allocation, so this runs before the locks are taken. Without memory there are
 * no histograms and no row, and everything else works.
 */
static void ek_alloc_histograms(struct blkcg *blkcg)
{
	struct ek_histograms __percpu *h;
	struct ek_group *g, *found;
	struct blkcg_gq *blkg;
	u64 *parts;

	do {
		found = NULL;
		rcu_read_lock();
		hlist_for_each_entry_rcu(blkg, &blkcg->blkg_list, blkcg_node) {
			g = ek_blkg_group(blkg);
			if (g && !READ_ONCE(g->histograms) &&
			    atomic_inc_not_zero(&g->refs)) {
				found = g;
				break;
			}
		}
		rcu_read_unlock();
		if (!found)
			return;
		parts = kcalloc(EK_BLAME_SLOTS, sizeof(*parts), GFP_KERNEL);
		if (parts && cmpxchg(&found->blame.parts, NULL, parts))
			kfree(parts);
		h = alloc_percpu(struct ek_histograms);
		if (h && cmpxchg(&found->histograms, NULL, h))
			free_percpu(h);
		ek_group_put(found);
	} while (h);
}

/* Have the block layer note when a request is started, until ek_stop(). Any context. */
static void ek_time_requests(struct ek_data *ek)
{
	if (READ_ONCE(ek->timing) || xchg(&ek->timing, true))
		return;
	blk_stat_enable_accounting(ek->q);
	WRITE_ONCE(ek->blaming, true);
}

/* Can the histogram have counts? Most cgroups have no I/O, and to add up buckets takes long. */
static bool ek_counted(struct ek_group *g, int dir, enum ek_hist hist)
{
	if (!g->histograms)
		return false;
	return hist == EK_HIST_GATE ? READ_ONCE(g->throttled) : READ_ONCE(g->ios[dir]);
}

/*
 * Print a histogram. @sum is work space. A program may read the file each second, for each
 * cgroup. So CPUs are looked up once and not for each bucket, and seq_printf(), which takes
 * hundreds of instructions for a number, is avoided.
 */
static void ek_show_histogram(struct seq_file *sf, struct ek_group *g, int dir,
			      enum ek_hist hist, u64 sum[EK_BUCKETS])
{
	static const char * const names[2][EK_HISTS] = {
		{ " rwait=", " rserv=", " rtotal=", " rgate=" },
		{ " wwait=", " wserv=", " wtotal=", " wgate=" },
	};
	const char *delimiter = "";
	const u64 *count;
	int bucket, cpu;

	seq_puts(sf, names[dir][hist]);
	if (!ek_counted(g, dir, hist)) {
		seq_putc(sf, '-');
		return;
	}
	memset(sum, 0, EK_BUCKETS * sizeof(*sum));
	for_each_possible_cpu(cpu) {
		count = per_cpu_ptr(g->histograms, cpu)->count[dir][hist];
		for (bucket = 0; bucket < EK_BUCKETS; bucket++)
			sum[bucket] += READ_ONCE(count[bucket]);
	}
	for (bucket = 0; bucket < EK_BUCKETS; bucket++) {
		if (!sum[bucket])
			continue;
		seq_put_decimal_ull(sf, delimiter, bucket);
		seq_put_decimal_ull(sf, ":", sum[bucket]);
		delimiter = ",";
	}
	if (!*delimiter)
		seq_putc(sf, '-');
}

/* Print for which groups @g waited how long. @pairs is work space. */
static void ek_show_blame(struct seq_file *sf, struct ek_group *g,
			  u64 pairs[2 * EK_BLAME_SLOTS])
{
	const char *delimiter = "";
	u64 waited;
	u32 i, n = ek_blame_read(g->ek, g, &waited, pairs);

	seq_put_decimal_ull(sf, " waited_us=", div_u64(waited, 1000));
	seq_puts(sf, " waited_for=");
	for (i = 0; i < n; i++) {
		seq_put_decimal_ull(sf, delimiter, pairs[2 * i]);
		seq_put_decimal_ull(sf, ":", div_u64(pairs[2 * i + 1], 1000));
		delimiter = ",";
	}
	if (!n)
		seq_putc(sf, '-');
}

/* Print the counters of @g, all of the same moment. Called under queue_lock. */
static void ek_show_counters(struct seq_file *sf, struct ek_group *g)
{
	struct ek_data *ek = g->ek;

	lockdep_assert_held(&ek->q->queue_lock);
	spin_lock(&ek->lock);
	spin_lock(&ek->fixed.lock);
	seq_printf(sf, "%s weight=%u rbytes=%llu wbytes=%llu rios=%llu wios=%llu rmerged=%llu wmerged=%llu throttled=%llu",
		   bdi_dev_name(ek->q->disk->bdi), ek_group_weight(g),
		   g->bytes[0], g->bytes[1], g->ios[0], g->ios[1],
		   g->merged[0], g->merged[1], g->throttled);
	seq_printf(sf, " share=%u.%02u tags=%d in_flight=%d budget=%u alone_us=%llu charged_us=%llu",
		   g->core.share >> EK_SHARE_SHIFT,
		   (g->core.share % EK_SHARE_ONE) * 100 / EK_SHARE_ONE,
		   atomic_read(&g->held), ek_group_in_flight(g), g->core.limit,
		   div_u64(g->core.sent_cost, 1000), div_u64(g->core.charged, 1000));
	if (ek->channels > 1 || g->reordered)
		seq_printf(sf, " reordered=%llu", g->reordered);
	if (g->fixed || g->fixed_ios)
		seq_printf(sf, " fixed=%u fixed_ios=%llu fixed_late=%llu fixed_ideal_us=%llu fixed_actual_us=%llu",
			   g->fixed, g->fixed_ios, g->fixed_nr_late,
			   div_u64(g->fixed_ideal_ns, 1000),
			   div_u64(g->fixed_actual_ns, 1000));
	spin_unlock(&ek->fixed.lock);
	spin_unlock(&ek->lock);
}

/*
 * Print a line for each device. blkcg_print_blkgs() cannot be used: it would keep interrupts
 * off while the histograms are added up, which takes long.
 */
static int ek_stat_show(struct seq_file *sf, void *v)
{
	struct blkcg *blkcg = css_to_blkcg(seq_css(sf));
	struct blkcg_gq *blkg;
	struct ek_group *g;
	int dir, hist;
	u64 *sum = kmalloc_array(max(EK_BUCKETS, 2 * EK_BLAME_SLOTS), sizeof(*sum),
				 GFP_KERNEL);

	if (!sum)
		return -ENOMEM;
	ek_alloc_histograms(blkcg);
	rcu_read_lock();
	hlist_for_each_entry_rcu(blkg, &blkcg->blkg_list, blkcg_node) {
		spin_lock_irq(&blkg->q->queue_lock);
		g = NULL;
		if (test_bit(ek_policy.plid, blkg->q->blkcg_pols))
			g = ek_blkg_group(blkg);
		if (g) {
			/* until it is printed: a change of the elevator may free it */
			ek_group_get(g);
			if (READ_ONCE(g->histograms))
				ek_time_requests(g->ek);
			ek_show_counters(sf, g);
		}
		spin_unlock_irq(&blkg->q->queue_lock);
		if (!g)
			continue;
		for (dir = 0; dir < 2; dir++)
			for (hist = 0; hist < EK_HISTS; hist++)
				ek_show_histogram(sf, g, dir, hist, sum);
		ek_show_blame(sf, g, sum);
		seq_putc(sf, '\n');
		ek_group_put(g);
	}
	rcu_read_unlock();
	kfree(sum);
	return 0;
}

/* Weights */

static u64 ek_prfill_weight(struct seq_file *sf, struct blkg_policy_data *pd,
			    int off)
{
	struct ek_group *g = ek_pd_group(pd);

	if (g->dev_weight)
		seq_printf(sf, "%s %u\n", bdi_dev_name(pd->blkg->q->disk->bdi),
			   g->dev_weight);
	return 0;
}

static int ek_weight_show(struct seq_file *sf, void *v)
{
	struct blkcg *blkcg = css_to_blkcg(seq_css(sf));

	seq_printf(sf, "default %u\n", READ_ONCE(ek_blkcg(blkcg)->weight));
	blkcg_print_blkgs(sf, blkcg, ek_prfill_weight, &ek_policy, 0, false);
	return 0;
}

/* -EINVAL: @s is not a number; -ERANGE: the number is not a valid weight */
static int ek_parse_weight(char *s, u32 *weight)
{
	u64 v;
	int ret = kstrtou64(strim(s), 10, &v);

	if (ret == -ERANGE)
		return ret;
	if (ret)
		return -EINVAL;
	if (v < EK_WEIGHT_MIN || v > EK_WEIGHT_MAX)
		return -ERANGE;
	*weight = v;
	return 0;
}

static int ek_set_default_weight(struct blkcg *blkcg, u32 weight)
{
	struct blkcg_gq *blkg;

	spin_lock_irq(&blkcg->lock);
	WRITE_ONCE(ek_blkcg(blkcg)->weight, weight);
	hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node) {
		struct ek_group *g = ek_blkg_group(blkg);

		if (g && !g->dev_weight)
			ek_group_set_weight(g, weight);
	}
	spin_unlock_irq(&blkcg->lock);
	return 0;
}

static ssize_t ek_weight_write(struct kernfs_open_file *of, char *buf,
			       size_t nbytes, loff_t off)
{
	struct blkcg *blkcg = css_to_blkcg(of_css(of));
	struct blkg_conf_ctx ctx;
	struct ek_group *g;
	u32 weight = 0;
	char *body;
	int ret;

	/* "WEIGHT" and "default WEIGHT" set the weight for all devices */
	body = strim(buf);
	if (!strchr(body, ':')) {
		if (str_has_prefix(body, "default") && isspace(body[7]))
			body += 7;
		ret = ek_parse_weight(body, &weight);
		if (!ret)
			ret = ek_set_default_weight(blkcg, weight);
		return ret ?: nbytes;
	}

	/* "MAJ:MIN WEIGHT" and "MAJ:MIN default" set it for one device */
	ret = ek_blkg_conf_begin(&ctx, body, blkcg, &ek_policy);
	if (ret)
		return ret;
	body = strim(ctx.body);
	if (strcmp(body, "default")) {
		ret = ek_parse_weight(body, &weight);
		if (ret)
			goto out;
	}
	g = ek_blkg_group(ctx.blkg);
	spin_lock(&blkcg->lock);
	g->dev_weight = weight;
	ek_group_set_weight(g, weight ?: ek_blkcg(blkcg)->weight);
	spin_unlock(&blkcg->lock);
out:
	ek_blkg_conf_end(&ctx);
	return ret ?: nbytes;
}

/* Fixed share */

static u64 ek_prfill_fixed(struct seq_file *sf, struct blkg_policy_data *pd,
			   int off)
{
	struct ek_group *g = ek_pd_group(pd);
	u32 percent = READ_ONCE(g->fixed);

	if (percent)
		seq_printf(sf, "%s %u\n", bdi_dev_name(pd->blkg->q->disk->bdi),
			   percent);
	return 0;
}

static int ek_fixed_show(struct seq_file *sf, void *v)
{
	blkcg_print_blkgs(sf, css_to_blkcg(seq_css(sf)), ek_prfill_fixed,
			  &ek_policy, 0, false);
	return 0;
}

/* Accepts "MAJ:MIN PERCENT". 0 ends the fixed share: the group is served by weight again. */
static ssize_t ek_fixed_write(struct kernfs_open_file *of, char *buf,
			      size_t nbytes, loff_t off)
{
	struct blkcg *blkcg = css_to_blkcg(of_css(of));
	struct blkg_conf_ctx ctx;
	struct ek_group *g;
	u32 percent;
	int ret;

	/*
	 * A fixed share takes from all groups, unlike a weight, which only divides the
	 * parent's share. So a task to which a subtree of cgroups was delegated must not
	 * set it.
	 */
	if (!file_ns_capable(of->file, &init_user_ns, CAP_SYS_ADMIN))
		return -EPERM;
	ret = ek_blkg_conf_begin(&ctx, strim(buf), blkcg, &ek_policy);
	if (ret)
		return ret;
	ret = kstrtou32(strim(ctx.body), 10, &percent);
	if (!ret && percent > 100)
		ret = -ERANGE;
	if (ret)
		goto out;
	g = ek_blkg_group(ctx.blkg);
	ret = ek_fixed_set(g, percent);
	if (!ret)
		ek_time_requests(g->ek);
out:
	ek_blkg_conf_end(&ctx);
	return ret ?: nbytes;
}

static struct cftype ek_files[] = {
	{
		.name = EK_WEIGHT_FILE,
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = ek_weight_show,
		.write = ek_weight_write,
	},
	{
		.name = "evenkeel.fixed",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = ek_fixed_show,
		.write = ek_fixed_write,
	},
	{
		.name = "evenkeel.stat",
		.seq_show = ek_stat_show,
	},
	{}
};

struct blkcg_policy ek_policy = {
	.dfl_cftypes	= ek_files,
	.cpd_alloc_fn	= ek_cpd_alloc,
	.cpd_free_fn	= ek_cpd_free,
	.pd_alloc_fn	= ek_pd_alloc,
	.pd_init_fn	= ek_pd_init,
	.pd_online_fn	= ek_pd_online,
	.pd_free_fn	= ek_pd_free,
};

int ek_cgroup_init(void)
{
	return blkcg_policy_register(&ek_policy);
}

void ek_cgroup_exit(void)
{
	blkcg_policy_unregister(&ek_policy);
	/* RCU callbacks free groups, and their code is in this module: wait for them */
	rcu_barrier();
	WARN_ONCE(atomic_read(&ek_nr_groups), "evenkeel: %d groups leaked\n",
		  atomic_read(&ek_nr_groups));
}
