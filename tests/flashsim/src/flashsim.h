/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim: a block device that takes as long as flash storage does.
 *
 *   flashsim_timing.c   the timing model; it does not depend on the kernel
 *   flashsim_params.c   parameters by name
 *   flashsim_presets.c  devices by name
 *   flashsim_queue.c    the blk-mq driver: takes requests, completes them by a timer
 *   flashsim_store.c    stored data, and the effect of a power cut on them
 *   flashsim_config.c   configfs
 *   flashsim_stats.c    debugfs
 *   flashsim_main.c     devices and the module
 */
#ifndef FLASHSIM_H
#define FLASHSIM_H

#include <linux/blkdev.h>
#include <linux/configfs.h>
#include <linux/debugfs.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "flashsim_compat.h"
#include "flashsim_timing.h"

/* length of the longest message: it lists all parameters */
#define EK_FS_WHY	1024

enum ek_fs_cut { EK_FS_DROP, EK_FS_TEAR, EK_FS_KEEP };

/* I/O of one slice of the addresses, [read, write]; ns: sum of the times to completion */
struct ek_fs_region {
	u64 ios[2];
	u64 bytes[2];
	u64 ns[2];
};

/* The stored data. @lock protects all members but @durable, which the completion path writes. */
struct ek_fs_store {
	struct mutex lock;	/* taken in process context only */
	struct xarray pages;	/* index in units of 4 KiB -> struct ek_fs_page */
	bool is_volatile;	/* a power cut can lose writes until a flush completes */
	bool off;		/* no power */
	unsigned long epoch;	/* the epoch of new writes; each flush begins a new one */
	unsigned long durable;	/* epochs up to this one have been flushed */
	u64 random;		/* state of the generator that tears writes */
};

struct ek_fs_dev {
	struct config_group group;	/* its directory in configfs */
	char name[DISK_NAME_LEN];
	struct mutex lock;		/* protects params and disk */
	struct ek_flash_params params;
	struct gendisk *disk;		/* NULL: power is off */
	struct blk_mq_tag_set tags;
	struct dentry *debugfs;
	struct ek_fs_store store;

	spinlock_t model_lock;		/* protects all members below; taken in any context */
	struct ek_flash *model;
	struct hrtimer timer;
	u64 armed;			/* expiry of the timer; EK_FS_NEVER: not armed */
	wait_queue_head_t idle;		/* blocking=1: queue_rq waits here for an idle device */
	bool issuing;			/* blocking=1: queue_rq is busy, takes no other request */
	struct ek_fs_list done;		/* without CQE: done, not yet completed */
	struct work_struct complete;	/* completes them; own lock */
	struct ek_fs_region region[EK_FS_REGIONS];
	u64 errors;
	u64 timeouts;
	bool cut;			/* after a power cut: every request fails */

	/* injected faults; 0: none */
	u64 fail_every;			/* of each fail_every requests, one fails */
	u64 fail_count;			/* requests since the last such failure */
	u64 fail_lba;			/* first sector (512 bytes) with a medium error */
	u64 fail_sectors;		/* number of such sectors */
};

/* flashsim_main.c */
void ek_fs_dev_init(struct ek_fs_dev *dev, const char *name);
int ek_fs_power_on(struct ek_fs_dev *dev);
void ek_fs_power_off(struct ek_fs_dev *dev);

/* flashsim_queue.c */
extern const struct blk_mq_ops ek_fs_mq_ops;
size_t ek_fs_cmd_size(void);
enum hrtimer_restart ek_fs_timer(struct hrtimer *timer);
void ek_fs_complete_work(struct work_struct *work);
int ek_fs_queue_init(void);
void ek_fs_queue_exit(void);
void ek_fs_cut_power(struct ek_fs_dev *dev);
void ek_fs_restore_power(struct ek_fs_dev *dev);

/* flashsim_store.c */
void ek_fs_store_init(struct ek_fs_store *store, bool is_volatile, u32 seed);
void ek_fs_store_destroy(struct ek_fs_store *store);
blk_status_t ek_fs_store_rq(struct ek_fs_store *store, struct request *rq, unsigned long *epoch);
void ek_fs_store_cut(struct ek_fs_store *store, enum ek_fs_cut how);
void ek_fs_store_restore(struct ek_fs_store *store);

/* flashsim_stats.c */
void ek_fs_stats_add(struct ek_fs_dev *dev);
void ek_fs_stats_remove(struct ek_fs_dev *dev);
void ek_fs_stats_init(void);
void ek_fs_stats_exit(void);

/* flashsim_config.c */
#if IS_REACHABLE(CONFIG_CONFIGFS_FS)
int ek_fs_config_init(void);
void ek_fs_config_exit(void);
int ek_fs_config_add(struct ek_fs_dev *dev);
void ek_fs_config_remove(struct ek_fs_dev *dev);
#else
static inline int ek_fs_config_init(void)
{
	return 0;
}

static inline void ek_fs_config_exit(void)
{
}

static inline int ek_fs_config_add(struct ek_fs_dev *dev)
{
	return 0;
}

static inline void ek_fs_config_remove(struct ek_fs_dev *dev)
{
}
#endif

#endif /* FLASHSIM_H */
