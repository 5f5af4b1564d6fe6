// SPDX-License-Identifier: GPL-2.0-only
/*
 * configfs: each directory /sys/kernel/config/flashsim/NAME/ is a device. It has a
 * file for each parameter (set while the power is off), `power`, and files that
 * inject faults (used while the power is on).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "flashsim.h"

#if IS_REACHABLE(CONFIG_CONFIGFS_FS)

static struct ek_fs_dev *ek_fs_to_dev(struct config_item *item)
{
	return container_of(to_config_group(item), struct ek_fs_dev, group);
}

/* Log why a written value is refused; returns @error. */
static ssize_t ek_fs_refuse(struct ek_fs_dev *dev, int error, const char *why)
{
	pr_err("%s: %s\n", dev->name, why);
	return error;
}

/* --- parameters ----------------------------------------------------------- */

static ssize_t ek_fs_param_show(struct config_item *item, const char *name, char *page)
{
	return ek_flash_show(&ek_fs_to_dev(item)->params, ek_flash_param(name), page, PAGE_SIZE);
}

/* Set the parameter @name; NULL: set all parameters by a preset. */
static ssize_t ek_fs_param_store(struct config_item *item, const char *name, const char *page,
				 size_t count)
{
	struct ek_fs_dev *dev = ek_fs_to_dev(item);
	struct ek_flash_params params;
	char why[256];
	int error;

	guard(mutex)(&dev->lock);
	if (dev->disk)
		return ek_fs_refuse(dev, -EBUSY, "parameters can be set only while power is 0");
	params = dev->params;
	if (name)
		error = ek_flash_set_one(&params, ek_flash_param(name), page, why, sizeof(why));
	else
		error = ek_flash_preset(&params, page, why, sizeof(why));
	if (error)
		return ek_fs_refuse(dev, error, why);
	dev->params = params;
	return count;
}

#define EK_FS_ATTR(name) \
static ssize_t ek_fs_##name##_show(struct config_item *item, char *page) \
{ \
	return ek_fs_param_show(item, #name, page); \
} \
static ssize_t ek_fs_##name##_store(struct config_item *item, const char *page, size_t count) \
{ \
	return ek_fs_param_store(item, #name, page, count); \
} \
CONFIGFS_ATTR(ek_fs_, name)

EK_FS_ATTR(kind);
EK_FS_ATTR(capacity_mb);
EK_FS_ATTR(logical_block);
EK_FS_ATTR(depth);
EK_FS_ATTR(active);
EK_FS_ATTR(hw_queues);
EK_FS_ATTR(blocking);
EK_FS_ATTR(max_kb);
EK_FS_ATTR(link_read_mbps);
EK_FS_ATTR(link_write_mbps);
EK_FS_ATTR(link_duplex);
EK_FS_ATTR(cmd_us);
EK_FS_ATTR(cmd_write_us);
EK_FS_ATTR(channels);
EK_FS_ATTR(dies);
EK_FS_ATTR(planes);
EK_FS_ATTR(page_kb);
EK_FS_ATTR(t_r_us);
EK_FS_ATTR(t_prog_us);
EK_FS_ATTR(t_erase_us);
EK_FS_ATTR(block_pages);
EK_FS_ATTR(channel_mbps);
EK_FS_ATTR(chunk_kb);
EK_FS_ATTR(map);
EK_FS_ATTR(map_miss_us);
EK_FS_ATTR(map_cache);
EK_FS_ATTR(map_region_mb);
EK_FS_ATTR(buffer_kb);
EK_FS_ATTR(fua);
EK_FS_ATTR(suspend_us);
EK_FS_ATTR(slc_kb);
EK_FS_ATTR(t_prog_slc_us);
EK_FS_ATTR(slc_refill_kbps);
EK_FS_ATTR(gc_after_kb);
EK_FS_ATTR(gc_valid_pct);
EK_FS_ATTR(spare_pct);
EK_FS_ATTR(wear_pct);
EK_FS_ATTR(full_pct);
EK_FS_ATTR(retry_in);
EK_FS_ATTR(retry_most);
EK_FS_ATTR(flush_us);
EK_FS_ATTR(discard_us);
EK_FS_ATTR(discard_group_kb);
EK_FS_ATTR(discard_group_us);
EK_FS_ATTR(discard_exclusive);
EK_FS_ATTR(bg_after_kb);
EK_FS_ATTR(bg_ms);
EK_FS_ATTR(bg_idle_ms);
EK_FS_ATTR(bg_stop_us);
EK_FS_ATTR(bg_most);
EK_FS_ATTR(heat_mb);
EK_FS_ATTR(heat_cool_mbps);
EK_FS_ATTR(heat_pct);
EK_FS_ATTR(jitter_pct);
EK_FS_ATTR(jitter_tail_in);
EK_FS_ATTR(jitter_tail_x);
EK_FS_ATTR(rpm);
EK_FS_ATTR(seek_min_us);
EK_FS_ATTR(seek_max_us);
EK_FS_ATTR(track_mbps);
EK_FS_ATTR(regions);
EK_FS_ATTR(memory_backed);
EK_FS_ATTR(timeout_ms);
EK_FS_ATTR(seed);

static ssize_t ek_fs_preset_store(struct config_item *item, const char *page, size_t count)
{
	return ek_fs_param_store(item, NULL, page, count);
}

/* list all presets */
static ssize_t ek_fs_preset_show(struct config_item *item, char *page)
{
	size_t n = 0;
	u32 i;

	for (i = 0; i < ek_fs_nr_presets; i++)
		n += scnprintf(page + n, PAGE_SIZE - n, "%s\t%s\n", ek_fs_presets[i].name,
			       ek_fs_presets[i].about);
	return n;
}
CONFIGFS_ATTR(ek_fs_, preset);

static ssize_t ek_fs_power_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%d\n", !!ek_fs_to_dev(item)->disk);
}

static ssize_t ek_fs_power_store(struct config_item *item, const char *page, size_t count)
{
	struct ek_fs_dev *dev = ek_fs_to_dev(item);
	bool on;
	int error;

	error = kstrtobool(page, &on);
	if (error)
		return ek_fs_refuse(dev, error, "power must be 0 or 1");
	guard(mutex)(&dev->lock);
	if (on && !dev->disk) {
		error = ek_fs_power_on(dev);
		if (error)
			return error;
	} else if (!on && dev->disk) {
		if (disk_openers(dev->disk))
			return ek_fs_refuse(dev, -EBUSY, "the device is open");
		ek_fs_power_off(dev);
	}
	return count;
}
CONFIGFS_ATTR(ek_fs_, power);

/* --- faults --------------------------------------------------------------- */

static ssize_t ek_fs_fault_store(struct config_item *item, u64 *field, u64 most, const char *page,
				 size_t count)
{
	struct ek_fs_dev *dev = ek_fs_to_dev(item);
	u64 value;

	if (kstrtou64(page, 0, &value) || value > most)
		return ek_fs_refuse(dev, -EINVAL, "the value must be a number in range");
	spin_lock_irq(&dev->model_lock);
	*field = value;
	spin_unlock_irq(&dev->model_lock);
	return count;
}

static ssize_t ek_fs_fail_lba_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%llu\n", ek_fs_to_dev(item)->fail_lba);
}

static ssize_t ek_fs_fail_lba_store(struct config_item *item, const char *page, size_t count)
{
	return ek_fs_fault_store(item, &ek_fs_to_dev(item)->fail_lba, S64_MAX, page, count);
}
CONFIGFS_ATTR(ek_fs_, fail_lba);

static ssize_t ek_fs_fail_sectors_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%llu\n", ek_fs_to_dev(item)->fail_sectors);
}

static ssize_t ek_fs_fail_sectors_store(struct config_item *item, const char *page, size_t count)
{
	return ek_fs_fault_store(item, &ek_fs_to_dev(item)->fail_sectors, S64_MAX, page, count);
}
CONFIGFS_ATTR(ek_fs_, fail_sectors);

static ssize_t ek_fs_fail_every_show(struct config_item *item, char *page)
{
	return sysfs_emit(page, "%llu\n", ek_fs_to_dev(item)->fail_every);
}

static ssize_t ek_fs_fail_every_store(struct config_item *item, const char *page, size_t count)
{
	return ek_fs_fault_store(item, &ek_fs_to_dev(item)->fail_every, U32_MAX, page, count);
}
CONFIGFS_ATTR(ek_fs_, fail_every);

/* applies once, to the next command that begins */
static ssize_t ek_fs_hang_ms_store(struct config_item *item, const char *page, size_t count)
{
	struct ek_fs_dev *dev = ek_fs_to_dev(item);
	u32 ms;

	if (kstrtou32(page, 0, &ms))
		return ek_fs_refuse(dev, -EINVAL, "hang_ms must be a number of milliseconds");
	guard(mutex)(&dev->lock);
	if (!dev->disk)
		return ek_fs_refuse(dev, -ENODEV, "hang_ms needs power 1");
	spin_lock_irq(&dev->model_lock);
	dev->model->hang = (u64)ms * NSEC_PER_MSEC;
	spin_unlock_irq(&dev->model_lock);
	return count;
}
CONFIGFS_ATTR_WO(ek_fs_, hang_ms);

static ssize_t ek_fs_power_cut_store(struct config_item *item, const char *page, size_t count)
{
	static const char * const how[] = {
		[EK_FS_DROP] = "drop", [EK_FS_TEAR] = "tear", [EK_FS_KEEP] = "keep",
	};
	struct ek_fs_dev *dev = ek_fs_to_dev(item);
	int i = sysfs_match_string(how, page);

	if (i < 0)
		return ek_fs_refuse(dev, -EINVAL,
				    "power_cut must be one of: drop tear keep (what happens to unflushed data)");
	guard(mutex)(&dev->lock);
	if (!dev->disk)
		return ek_fs_refuse(dev, -ENODEV, "power_cut needs power 1");
	ek_fs_cut_power(dev);
	ek_fs_store_cut(&dev->store, i);
	return count;
}
CONFIGFS_ATTR_WO(ek_fs_, power_cut);

static ssize_t ek_fs_power_restore_store(struct config_item *item, const char *page, size_t count)
{
	struct ek_fs_dev *dev = ek_fs_to_dev(item);
	bool on;

	if (kstrtobool(page, &on) || !on)
		return ek_fs_refuse(dev, -EINVAL, "power_restore must be 1");
	guard(mutex)(&dev->lock);
	if (!dev->disk || !dev->cut)
		return ek_fs_refuse(dev, -EINVAL, "power_restore works only after power_cut");
	ek_fs_store_restore(&dev->store);
	ek_fs_restore_power(dev);
	return count;
}
CONFIGFS_ATTR_WO(ek_fs_, power_restore);

/* --- directories ---------------------------------------------------------- */

static struct configfs_attribute *ek_fs_attrs[] = {
	&ek_fs_attr_kind,
	&ek_fs_attr_capacity_mb,
	&ek_fs_attr_logical_block,
	&ek_fs_attr_depth,
	&ek_fs_attr_active,
	&ek_fs_attr_hw_queues,
	&ek_fs_attr_blocking,
	&ek_fs_attr_max_kb,
	&ek_fs_attr_link_read_mbps,
	&ek_fs_attr_link_write_mbps,
	&ek_fs_attr_link_duplex,
	&ek_fs_attr_cmd_us,
	&ek_fs_attr_cmd_write_us,
	&ek_fs_attr_channels,
	&ek_fs_attr_dies,
	&ek_fs_attr_planes,
	&ek_fs_attr_page_kb,
	&ek_fs_attr_t_r_us,
	&ek_fs_attr_t_prog_us,
	&ek_fs_attr_t_erase_us,
	&ek_fs_attr_block_pages,
	&ek_fs_attr_channel_mbps,
	&ek_fs_attr_chunk_kb,
	&ek_fs_attr_map,
	&ek_fs_attr_map_miss_us,
	&ek_fs_attr_map_cache,
	&ek_fs_attr_map_region_mb,
	&ek_fs_attr_buffer_kb,
	&ek_fs_attr_fua,
	&ek_fs_attr_suspend_us,
	&ek_fs_attr_slc_kb,
	&ek_fs_attr_t_prog_slc_us,
	&ek_fs_attr_slc_refill_kbps,
	&ek_fs_attr_gc_after_kb,
	&ek_fs_attr_gc_valid_pct,
	&ek_fs_attr_spare_pct,
	&ek_fs_attr_wear_pct,
	&ek_fs_attr_full_pct,
	&ek_fs_attr_retry_in,
	&ek_fs_attr_retry_most,
	&ek_fs_attr_flush_us,
	&ek_fs_attr_discard_us,
	&ek_fs_attr_discard_group_kb,
	&ek_fs_attr_discard_group_us,
	&ek_fs_attr_discard_exclusive,
	&ek_fs_attr_bg_after_kb,
	&ek_fs_attr_bg_ms,
	&ek_fs_attr_bg_idle_ms,
	&ek_fs_attr_bg_stop_us,
	&ek_fs_attr_bg_most,
	&ek_fs_attr_heat_mb,
	&ek_fs_attr_heat_cool_mbps,
	&ek_fs_attr_heat_pct,
	&ek_fs_attr_jitter_pct,
	&ek_fs_attr_jitter_tail_in,
	&ek_fs_attr_jitter_tail_x,
	&ek_fs_attr_rpm,
	&ek_fs_attr_seek_min_us,
	&ek_fs_attr_seek_max_us,
	&ek_fs_attr_track_mbps,
	&ek_fs_attr_regions,
	&ek_fs_attr_memory_backed,
	&ek_fs_attr_timeout_ms,
	&ek_fs_attr_seed,
	&ek_fs_attr_preset,
	&ek_fs_attr_power,
	&ek_fs_attr_fail_every,
	&ek_fs_attr_fail_lba,
	&ek_fs_attr_fail_sectors,
	&ek_fs_attr_hang_ms,
	&ek_fs_attr_power_cut,
	&ek_fs_attr_power_restore,
	NULL,
};

static void ek_fs_release(struct config_item *item)
{
	kfree(ek_fs_to_dev(item));
}

static struct configfs_item_operations ek_fs_item_ops = {
	.release = ek_fs_release,
};

static const struct config_item_type ek_fs_dev_type = {
	.ct_item_ops = &ek_fs_item_ops,
	.ct_attrs = ek_fs_attrs,
	.ct_owner = THIS_MODULE,
};

static struct config_group *ek_fs_make_group(struct config_group *parent, const char *name)
{
	struct ek_fs_dev *dev;

	if (strlen(name) >= sizeof(dev->name))
		return ERR_PTR(-ENAMETOOLONG);
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	ek_fs_dev_init(dev, name);
	config_group_init_type_name(&dev->group, name, &ek_fs_dev_type);
	return &dev->group;
}

static void ek_fs_drop_item(struct config_group *parent, struct config_item *item)
{
	struct ek_fs_dev *dev = ek_fs_to_dev(item);

	mutex_lock(&dev->lock);
	ek_fs_power_off(dev);
	mutex_unlock(&dev->lock);
	config_item_put(item);
}

static struct configfs_group_operations ek_fs_root_ops = {
	.make_group = ek_fs_make_group,
	.drop_item = ek_fs_drop_item,
};

static const struct config_item_type ek_fs_root_type = {
	.ct_group_ops = &ek_fs_root_ops,
	.ct_owner = THIS_MODULE,
};

static struct configfs_subsystem ek_fs_subsys = {
	.su_group = {
		.cg_item = {
			.ci_namebuf = "flashsim",
			.ci_type = &ek_fs_root_type,
		},
	},
};

/* Add the directory of the device that the module parameters create. It cannot be removed. */
int ek_fs_config_add(struct ek_fs_dev *dev)
{
	config_group_init_type_name(&dev->group, dev->name, &ek_fs_dev_type);
	return configfs_register_group(&ek_fs_subsys.su_group, &dev->group);
}

void ek_fs_config_remove(struct ek_fs_dev *dev)
{
	configfs_unregister_group(&dev->group);
}

int ek_fs_config_init(void)
{
	config_group_init(&ek_fs_subsys.su_group);
	mutex_init(&ek_fs_subsys.su_mutex);
	return configfs_register_subsystem(&ek_fs_subsys);
}

void ek_fs_config_exit(void)
{
	configfs_unregister_subsystem(&ek_fs_subsys);
}

#endif /* CONFIG_CONFIGFS_FS */
