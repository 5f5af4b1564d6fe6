/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef EK_POOL_H
#define EK_POOL_H

#include <linux/types.h>

struct file;
struct inode;
struct mem_cgroup;

/* which pool a page belongs to */
enum ek_which { EK_NORMAL, EK_PROTECTED, EK_POOLS };

/**
 * struct ek_counts - totals since the module was loaded
 * @accesses: pages that reads requested, and pages that faults mapped
 * @misses: pages that were added to the cache, except pages that were added to be written
 * @added: pages that were charged to the pool's cgroup
 * @in_flight: calls of filemap_add_folio() that have the pool's cgroup as active memcg; a
 *	call may end on another CPU, so only the sum over all CPUs has a meaning
 */
struct ek_counts {
	u64 accesses[EK_POOLS];
	u64 misses[EK_POOLS];
	u64 added;
	long in_flight;
};

/* ek_dirs.c: the priority directories */
int ek_dirs_init(void);
void ek_dirs_exit(void);
int ek_dirs_add(struct file *dir);
int ek_dirs_remove(struct file *dir);
void ek_dirs_clear(void);
unsigned int ek_dirs_count(void);
bool ek_dirs_own(struct inode *inode);
/* changes whenever a file may have come into a priority directory or left it */
extern atomic_t ek_generation;

/* ek_probes.c: the hooks in the page cache */
int ek_probes_init(void);
int ek_probes_on(void);
void ek_probes_off(void);
void ek_probes_charge_to(struct mem_cgroup *memcg);
void ek_probes_sum(struct ek_counts *sum);
unsigned long ek_probes_missed(void);

/* ek_pool.c: the device */
void ek_pool_changed(void);

#endif
