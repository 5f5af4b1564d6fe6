// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hooks in the page cache. They are registered only while there is a priority
 * directory.
 *
 * An fprobe on filemap_add_folio() decides to which cgroup a page is charged. If the
 * page belongs to a priority file, the pool's cgroup is the active memcg during the
 * call. Every page of a file comes into the cache through this function: pages of
 * readahead, faults and writes, and large folios.
 *
 * Tracepoints count accesses, because a tracepoint costs a tenth of an fprobe. The
 * fprobe counts misses: a miss is a page that is added to be read. So a page of
 * readahead is a miss when it is added, and its first access is a hit. In this way,
 * each page that the device has to read is one miss, whatever the reason.
 *
 * Invariant: for each entry handler that switched the active memcg, the exit handler
 * runs. Otherwise the task would charge all its memory to the pool for ever. If the
 * fprobe is unregistered during a call, the exit handler of this call does not run. So
 * ek_probes_charge_to(NULL) must be called before: it waits for all calls in flight.
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

/* Each CPU remembers the pool of 2^6 = 64 files, because a file is often read again and again. */
#define EK_KNOWN_BITS 6
/*
 * The maximum number of calls in flight that the fprobe follows. A call that waits for
 * reclaim stays in flight. Above the limit, pages are charged to their reader, and
 * missed_probes counts the calls.
 */
#define EK_MAX_IN_FLIGHT 1024

/**
 * struct ek_known - the remembered pool of a file
 * @mapping: identifies the file, together with @ino and @version
 * @ino: the file's inode number; needed because another file may reuse the memory at @mapping
 * @version: the inode's generation number; needed because a new file may reuse an inode number
 * @generation: value of ek_generation when @which was found
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
 * struct ek_cpu - data of one CPU, used without locks; other CPUs only read @counts
 * @counts: totals
 * @read: last step of a read
 * @known: remembered files, by hash of their mapping
 */
struct ek_cpu {
	struct ek_counts counts;
	struct ek_read read;
	struct ek_known known[1 << EK_KNOWN_BITS];
};

static DEFINE_PER_CPU(struct ek_cpu, ek_cpu);
/*
 * The cgroup to which pages of priority files are charged. NULL: the cgroup of their reader. The
 * device holds a reference.
 */
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
	/* Read the generation before the names. If a name changes later, so does the generation. */
	unsigned int generation = atomic_read_acquire(&ek_generation);

	if (likely(known->mapping == mapping && known->generation == generation &&
		   known->ino == inode->i_ino && known->version == inode->i_generation))
		return known->which;
	return ek_learn_pool(known, mapping, generation);
}

/* Only regular files count, except on file systems without a device, such as ramfs. */
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

/* A fault also maps the pages around its address that are in the cache: each is an access. */
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
	/* if this returns 0, the exit handler runs */
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
/* sum of ek_fprobe.nmissed of earlier registrations */
static unsigned long ek_missed_before;

/*
 * unregister_fprobe() frees the memory to which the structure points, but does not clear
 * the pointers. So each registration begins with an empty structure.
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

/* whether the hooks are registered; protected by the device's lock */
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
 * From now on, charge pages of priority files to @memcg, or to their reader if it is
 * NULL. Returns when no call in flight uses the previous memcg any more.
 * Caller: holds the device's lock; may sleep.
 */
void ek_probes_charge_to(struct mem_cgroup *memcg)
{
	struct ek_counts sum;

	/* Set NULL first. Otherwise new calls could keep the sum above 0. */
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

/* Caller: holds the device's lock, and has called ek_probes_charge_to(NULL). */
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
