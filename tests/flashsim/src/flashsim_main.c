// SPDX-License-Identifier: GPL-2.0-only
/* Devices and the module. flashsim.h lists the files. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "flashsim.h"

static char *preset = "";
module_param(preset, charp, 0444);
MODULE_PARM_DESC(preset, "create /dev/flashsim0 with this preset; empty: create devices in configfs");
static char *set = "";
module_param(set, charp, 0444);
MODULE_PARM_DESC(set, "parameters that differ from the preset: NAME=VALUE,NAME=VALUE");

static struct ek_fs_dev *ek_fs_first;

static const struct block_device_operations ek_fs_fops = {
	.owner = THIS_MODULE,
};

void ek_fs_dev_init(struct ek_fs_dev *dev, const char *name)
{
	char why[64];

	strscpy(dev->name, name, sizeof(dev->name));
	mutex_init(&dev->lock);
	spin_lock_init(&dev->model_lock);
	init_waitqueue_head(&dev->idle);
	INIT_WORK(&dev->complete, ek_fs_complete_work);
	ek_fs_hrtimer_setup(&dev->timer, ek_fs_timer);
	dev->armed = EK_FS_NEVER;
	ek_flash_preset(&dev->params, NULL, why, sizeof(why));
}

static void ek_fs_limits(const struct ek_flash_params *p, struct queue_limits *lim)
{
	lim->logical_block_size = p->logical_block;
	lim->physical_block_size = SZ_4K;
	lim->max_hw_sectors = p->max_kb * 2;
	/* each page of a request may be at another place in memory */
	lim->max_segments = p->max_kb / 4 + 1;
	if (p->kind == EK_FS_DISK) {
		lim->features |= BLK_FEAT_ROTATIONAL;
	} else {
		lim->max_hw_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
		lim->discard_granularity = SZ_4K;
	}
	if (p->buffer_kb)
		lim->features |= BLK_FEAT_WRITE_CACHE | (p->fua ? BLK_FEAT_FUA : 0);
}

/* Create the disk. Returns 0 or a negative error; the reason is in the log. */
int ek_fs_power_on(struct ek_fs_dev *dev)
{
	struct ek_flash_params *p = &dev->params;
	struct queue_limits lim = {};
	char why[256];
	int error;

	lockdep_assert_held(&dev->lock);
	error = ek_flash_check(p, why, sizeof(why));
	if (error) {
		pr_err("%s: %s\n", dev->name, why);
		return error;
	}
	dev->model = kvzalloc(ek_flash_bytes(p), GFP_KERNEL);
	if (!dev->model)
		return -ENOMEM;
	ek_flash_init(dev->model, p, ktime_get_ns());
	memset(dev->region, 0, sizeof(dev->region));
	dev->errors = 0;
	dev->timeouts = 0;
	dev->cut = false;
	dev->issuing = false;
	dev->done = (struct ek_fs_list){};
	dev->armed = EK_FS_NEVER;
	ek_fs_store_init(&dev->store, p->buffer_kb, p->seed);

	memset(&dev->tags, 0, sizeof(dev->tags));
	dev->tags.ops = &ek_fs_mq_ops;
	dev->tags.nr_hw_queues = min(p->hw_queues, num_possible_cpus());
	dev->tags.queue_depth = p->depth;
	dev->tags.numa_node = NUMA_NO_NODE;
	dev->tags.cmd_size = ek_fs_cmd_size();
	dev->tags.timeout = msecs_to_jiffies(p->timeout_ms);
	/* copying the data may allocate memory and sleep */
	dev->tags.flags = EK_FS_MQ_FLAGS;
	if (p->memory_backed || p->blocking)
		dev->tags.flags |= BLK_MQ_F_BLOCKING;
	error = blk_mq_alloc_tag_set(&dev->tags);
	if (error)
		goto free_model;
	ek_fs_limits(p, &lim);
	dev->disk = blk_mq_alloc_disk(&dev->tags, &lim, dev);
	if (IS_ERR(dev->disk)) {
		error = PTR_ERR(dev->disk);
		goto free_tags;
	}
	dev->disk->fops = &ek_fs_fops;
	dev->disk->private_data = dev;
	strscpy(dev->disk->disk_name, dev->name, DISK_NAME_LEN);
	set_capacity(dev->disk, (sector_t)p->capacity_mb << (20 - SECTOR_SHIFT));
	error = add_disk(dev->disk);
	if (error) {
		put_disk(dev->disk);
		goto free_tags;
	}
	ek_fs_stats_add(dev);
	return 0;

free_tags:
	blk_mq_free_tag_set(&dev->tags);
free_model:
	dev->disk = NULL;
	kvfree(dev->model);
	dev->model = NULL;
	return error;
}

/* Remove the disk. Waits for the requests in flight. */
void ek_fs_power_off(struct ek_fs_dev *dev)
{
	lockdep_assert_held(&dev->lock);
	if (!dev->disk)
		return;
	ek_fs_stats_remove(dev);
	del_gendisk(dev->disk);
	put_disk(dev->disk);
	dev->disk = NULL;
	hrtimer_cancel(&dev->timer);
	cancel_work_sync(&dev->complete);
	blk_mq_free_tag_set(&dev->tags);
	ek_fs_store_destroy(&dev->store);
	kvfree(dev->model);
	dev->model = NULL;
}

static int __init ek_fs_create_first(void)
{
	struct ek_fs_dev *dev;
	char *why;
	int error;

	if (!*preset && !*set)
		return 0;
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	why = kmalloc(EK_FS_WHY, GFP_KERNEL);
	if (!dev || !why) {
		error = -ENOMEM;
		goto fail;
	}
	ek_fs_dev_init(dev, "flashsim0");
	error = ek_flash_preset(&dev->params, preset, why, EK_FS_WHY);
	if (!error)
		error = ek_flash_set(&dev->params, set, why, EK_FS_WHY);
	if (error) {
		pr_err("%s\n", why);
		goto fail;
	}
	error = ek_fs_config_add(dev);
	if (error)
		goto fail;
	mutex_lock(&dev->lock);
	error = ek_fs_power_on(dev);
	mutex_unlock(&dev->lock);
	if (error) {
		ek_fs_config_remove(dev);
		goto fail;
	}
	ek_fs_first = dev;
	kfree(why);
	return 0;

fail:
	kfree(why);
	kfree(dev);
	return error;
}

static int __init ek_fs_init(void)
{
	int error;

	error = ek_fs_queue_init();
	if (error)
		return error;
	ek_fs_stats_init();
	error = ek_fs_config_init();
	if (error)
		goto no_config;
	error = ek_fs_create_first();
	if (error)
		goto no_first;
	return 0;

no_first:
	ek_fs_config_exit();
no_config:
	ek_fs_stats_exit();
	ek_fs_queue_exit();
	return error;
}

static void __exit ek_fs_exit(void)
{
	if (ek_fs_first) {
		mutex_lock(&ek_fs_first->lock);
		ek_fs_power_off(ek_fs_first);
		mutex_unlock(&ek_fs_first->lock);
		ek_fs_config_remove(ek_fs_first);
		kfree(ek_fs_first);
	}
	ek_fs_config_exit();
	ek_fs_stats_exit();
	ek_fs_queue_exit();
}

module_init(ek_fs_init);
module_exit(ek_fs_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Block device with the timing of flash storage");
