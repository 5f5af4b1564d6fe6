// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hooks in the page cache. They exist only while a directory is named.
 *
 * An fprobe on filemap_add_folio() decides who pays for a page: during the call, a
 * priority file's page has the pool's cgroup as active memcg. Every page of a file
 * passes there, with readahead, faults, writes and large folios.
 *
 * Tracepoints count accesses, because they cost a tenth of an fprobe. A miss is a
 * page that was added, so a page of readahead is a miss when it is read in and a
 * hit from its first access on. Together they count one miss for each page that is
 * read in, whichever way, and that is what the device has to do.
 *
 * Invariant: an exit handler runs for each entry handler that switched the memcg,
 * otherwise a task would charge all it does to the pool for ever. A probe that is
 * unregistered during the call skips its exit handler. So ek_probes_charge_to()
 * waits for all calls in flight, and nothing unregisters the fprobe before.
 */
#include <linux/backing-dev.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/memcontrol.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/tracepoint.h>
#include <linux/xarray.h>

#include "compat.h"
#include "ek_count.h"
#include "ek_pool.h"

/* An entry serves a file that is read again and again: 64 such files per CPU. */
#define EK_KNOWN_BITS 6
/*
 * Calls of priority files that may be in flight. Above it, pages are charged to their reader
 * and count in missed_probes. A call that waits for reclaim stays in flight.
 */
#define EK_MAX_IN_FLIGHT 1024

/**
 * struct ek_known - the pool of a file, remembered
 * @mapping: identifies the file, together with @ino and @version
 * @ino: the file's inode number, since memory of @mapping may be used again
 * @version: the inode's generation number, since inode numbers may be used again
 * @generation: ek_generation when @which was found
 * @which: the pool
 */
struct ek_known {
	const struct address_space *mapping;
	unsigned long ino;
	u32 version;
	unsigned int generation;
	enum ek_which which;
};

/**
 * struct ek_cpu - what a CPU counts, without locks; others only read @counts
 * @counts: totals
 * @read: last step of a read
 * @known: files by hash of their mapping
 */
struct ek_cpu {
	struct ek_counts counts;
	struct ek_read read;
	struct ek_known known[1 << EK_KNOWN_BITS];
};

static DEFINE_PER_CPU(struct ek_cpu, ek_cpu);
/* whom pages of priority files are charged to; the device holds a reference */
static struct mem_cgroup __rcu *ek_memcg;

static noinline enum ek_which ek_learn_pool(struct ek_known *known, struct address_space *mapping,
					    unsigned int generation)
{
	struct inode *inode = mapping->host;

	known->mapping = mapping;
	known->generation = generation;
	known->ino = inode->i_ino;
	known->version = inode->i_generation;
	known->which = ek_dirs_own(inode) ? EK_PROTECTED : EK_NORMAL;
	return known->which;
}

/* Caller: preemption is off. */
static __always_inline enum ek_which ek_which_pool(struct ek_cpu *cpu,
						   struct address_space *mapping)
{
	struct ek_known *known = &cpu->known[hash_ptr(mapping, EK_KNOWN_BITS)];
	const struct inode *inode = mapping->host;
	/* Read before the names: a change after that makes a new generation. */
	unsigned int generation = atomic_read_acquire(&ek_generation);

	if (likely(known->mapping == mapping && known->generation == generation &&
		   known->ino == inode->i_ino && known->version == inode->i_generation))
		return known->which;
	return ek_learn_pool(known, mapping, generation);
}

/* Regular files, but not those of file systems without a device, such as ramfs. */
static bool ek_counts_for(const struct address_space *mapping)
{
	const struct inode *inode = mapping->host;

	return S_ISREG(inode->i_mode) && inode->i_sb->s_bdi != &noop_backing_dev_info;
}

static void ek_on_get_pages(void *data, struct address_space *mapping, pgoff_t index, pgoff_t last)
{
	struct ek_read now = { current, mapping, index, last };
	struct ek_cpu *cpu;
	u64 pages;

	if (!ek_counts_for(mapping))
		return;
	cpu = get_cpu_ptr(&ek_cpu);
	pages = ek_read_pages(&cpu->read, &now, i_size_read(mapping->host), PAGE_SHIFT);
	if (pages)
		cpu->counts.accesses[ek_which_pool(cpu, mapping)] += pages;
	put_cpu_ptr(&ek_cpu);
}

static void ek_on_fault(void *data, struct address_space *mapping, pgoff_t index)
{
	struct ek_cpu *cpu;

	if (!ek_counts_for(mapping))
		return;
	cpu = get_cpu_ptr(&ek_cpu);
	cpu->counts.accesses[ek_which_pool(cpu, mapping)]++;
	put_cpu_ptr(&ek_cpu);
}

/* A fault maps the pages of its neighbourhood that are in the cache. */
static void ek_on_map_pages(void *data, struct address_space *mapping, pgoff_t first, pgoff_t last)
{
	XA_STATE(xas, &mapping->i_pages, first);
	struct ek_cpu *cpu;
	void *entry;
	u64 pages = 0;

	if (!ek_counts_for(mapping))
		return;
	rcu_read_lock();
	xas_for_each(&xas, entry, last) {
		if (xas_retry(&xas, entry) || xa_is_value(entry))
			continue;
		pages++;
	}
	rcu_read_unlock();
	cpu = get_cpu_ptr(&ek_cpu);
	cpu->counts.accesses[ek_which_pool(cpu, mapping)] += pages;
	put_cpu_ptr(&ek_cpu);
}

/**
 * struct ek_call - a call of filemap_add_folio() that has the pool as active memcg
 * @before: the active memcg before the call
 */
struct ek_call {
	struct mem_cgroup *before;
};

static int ek_add_entry(struct fprobe *fp, unsigned long ip, unsigned long ret_ip, ek_regs *regs,
			void *data)
{
	struct address_space *mapping = (void *)ek_argument(regs, 0);
	struct folio *folio = (void *)ek_argument(regs, 1);
	gfp_t gfp = (__force gfp_t)ek_argument(regs, 3);
	struct ek_call *call = data;
	struct mem_cgroup *memcg;
	struct ek_cpu *cpu;
	bool own, switched = false;

	if (!ek_counts_for(mapping))
		return 1;
	own = ek_dirs_own(mapping->host);
	rcu_read_lock();
	cpu = get_cpu_ptr(&ek_cpu);
	/* pages that are added to be written need no read */
	if (!(gfp & __GFP_WRITE))
		cpu->counts.misses[own ? EK_PROTECTED : EK_NORMAL] += folio_nr_pages(folio);
	memcg = own ? rcu_dereference(ek_memcg) : NULL;
	if (memcg && mem_cgroup_online(memcg)) {
		cpu->counts.added += folio_nr_pages(folio);
		cpu->counts.in_flight++;
		call->before = set_active_memcg(memcg);
		switched = true;
	}
	put_cpu_ptr(&ek_cpu);
	rcu_read_unlock();
	/* 0 asks for the exit handler */
	return !switched;
}

static void ek_add_exit(struct fprobe *fp, unsigned long ip, unsigned long ret_ip, ek_regs *regs,
			void *data)
{
	struct ek_call *call = data;

	set_active_memcg(call->before);
	this_cpu_dec(ek_cpu.counts.in_flight);
}

static struct fprobe ek_fprobe;
/* ek_fprobe.nmissed of earlier registrations */
static unsigned long ek_missed_before;

/*
 * unregister_fprobe() frees what the structure points to and leaves the pointers there.
 * So each registration needs an empty one.
 */
static int ek_fprobe_register(void)
{
	const char *function = "filemap_add_folio";

	ek_missed_before += ek_fprobe.nmissed;
	ek_fprobe = (struct fprobe) {
		.entry_handler = ek_add_entry,
		.exit_handler = ek_add_exit,
		.entry_data_size = sizeof(struct ek_call),
	};
	ek_limit_calls(&ek_fprobe, EK_MAX_IN_FLIGHT);
	return register_fprobe_syms(&ek_fprobe, &function, 1);
}

static struct {
	const char *name;
	void *handler;
	struct tracepoint *tracepoint;
} ek_hooks[] = {
	{ "mm_filemap_get_pages", ek_on_get_pages },
	{ "mm_filemap_fault", ek_on_fault },
	{ "mm_filemap_map_pages", ek_on_map_pages },
};

/* under the device's lock */
static bool ek_on;

void ek_probes_sum(struct ek_counts *sum)
{
	int cpu, which;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct ek_counts *c = &per_cpu(ek_cpu, cpu).counts;

		for (which = 0; which < EK_POOLS; which++) {
			sum->accesses[which] += READ_ONCE(c->accesses[which]);
			sum->misses[which] += READ_ONCE(c->misses[which]);
		}
		sum->added += READ_ONCE(c->added);
		sum->in_flight += READ_ONCE(c->in_flight);
	}
}

/* Caller: holds the device's lock. */
unsigned long ek_probes_missed(void)
{
	return ek_missed_before + READ_ONCE(ek_fprobe.nmissed);
}

/*
 * Charge pages of priority files to @memcg from now on, or to their reader if it is
 * NULL. Returns when no call uses the memcg before.
 * Caller: holds the device's lock; may sleep.
 */
void ek_probes_charge_to(struct mem_cgroup *memcg)
{
	struct ek_counts sum;

	/* First NULL: otherwise new calls could keep the sum above 0. */
	rcu_assign_pointer(ek_memcg, NULL);
	synchronize_rcu();
	for (;;) {
		ek_probes_sum(&sum);
		if (!sum.in_flight)
			break;
		msleep(20);
	}
	rcu_assign_pointer(ek_memcg, memcg);
}

/* Caller: holds the device's lock. */
int ek_probes_on(void)
{
	int i, ret;

	if (ek_on)
		return 0;
	ret = ek_fprobe_register();
	if (ret)
		return ret;
	for (i = 0; i < ARRAY_SIZE(ek_hooks); i++) {
		ret = tracepoint_probe_register(ek_hooks[i].tracepoint, ek_hooks[i].handler, NULL);
		if (ret)
			goto fail;
	}
	ek_on = true;
	return 0;
fail:
	while (i--)
		tracepoint_probe_unregister(ek_hooks[i].tracepoint, ek_hooks[i].handler, NULL);
	tracepoint_synchronize_unregister();
	unregister_fprobe(&ek_fprobe);
	return ret;
}

/* Caller: holds the device's lock, and ek_probes_charge_to(NULL) was the last call. */
void ek_probes_off(void)
{
	int i;

	if (!ek_on)
		return;
	for (i = 0; i < ARRAY_SIZE(ek_hooks); i++)
		tracepoint_probe_unregister(ek_hooks[i].tracepoint, ek_hooks[i].handler, NULL);
	tracepoint_synchronize_unregister();
	unregister_fprobe(&ek_fprobe);
	ek_on = false;
}

static void __init ek_find_tracepoint(struct tracepoint *tracepoint, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ek_hooks); i++)
		if (!strcmp(tracepoint->name, ek_hooks[i].name))
			ek_hooks[i].tracepoint = tracepoint;
}

int __init ek_probes_init(void)
{
	int i;

	for_each_kernel_tracepoint(ek_find_tracepoint, NULL);
	for (i = 0; i < ARRAY_SIZE(ek_hooks); i++) {
		if (!ek_hooks[i].tracepoint) {
			pr_err("evenkeel_pagepool: this kernel has no tracepoint %s. Linux 6.12 and later have it\n",
			       ek_hooks[i].name);
			return -EOPNOTSUPP;
		}
	}
	return 0;
}
