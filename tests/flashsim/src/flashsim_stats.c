// SPDX-License-Identifier: GPL-2.0-only
/* Statistics in debugfs: /sys/kernel/debug/flashsim/NAME/{regions,stats,timing}. */
#include <linux/seq_file.h>

#include "flashsim.h"

static struct dentry *ek_fs_debugfs;

/* slice read_ios read_bytes read_ns write_ios write_bytes write_ns */
static int regions_show(struct seq_file *m, void *unused)
{
	struct ek_fs_dev *dev = m->private;
	u32 i;

	for (i = 0; i < dev->params.regions; i++) {
		struct ek_fs_region r;

		spin_lock_irq(&dev->model_lock);
		r = dev->region[i];
		spin_unlock_irq(&dev->model_lock);
		seq_printf(m, "%u %llu %llu %llu %llu %llu %llu\n", i, r.ios[0], r.bytes[0],
			   r.ns[0], r.ios[1], r.bytes[1], r.ns[1]);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(regions);

static int stats_show(struct seq_file *m, void *unused)
{
	struct ek_fs_dev *dev = m->private;
	u64 busy[EK_FS_CHANNELS];
	struct ek_fs_totals t;
	u64 errors, timeouts;
	u32 inside, i;

	spin_lock_irq(&dev->model_lock);
	t = dev->model->totals;
	t.reserve_left = dev->model->reserve;
	t.slc_left = dev->model->slc;
	inside = dev->model->inside;
	errors = dev->errors;
	timeouts = dev->timeouts;
	for (i = 0; i < dev->params.channels; i++)
		busy[i] = dev->model->chan[i].busy;
	spin_unlock_irq(&dev->model_lock);

	seq_printf(m, "gc_pauses %llu\ngc_ns %llu\nflushes %llu\n", t.gc_pauses, t.gc_ns,
		   t.flushes);
	seq_printf(m, "buffer_stalls %llu\nbuffer_stall_ns %llu\nsuspends %llu\nmap_misses %llu\n",
		   t.buffer_stalls, t.buffer_stall_ns, t.suspends, t.map_misses);
	seq_printf(m, "retries %llu\ndiscards %llu\nerase_ns %llu\nbackground_ns %llu\nthrottles %llu\n",
		   t.retries, t.discards, t.erase_ns, t.background_ns, t.throttles);
	seq_printf(m, "reserve_left %llu\nslc_left %llu\n", t.reserve_left, t.slc_left);
	seq_printf(m, "in_device %u\nmax_queue %u\nerrors %llu\ntimeouts %llu\n", inside,
		   t.max_queue, errors, timeouts);
	for (i = 0; i < dev->params.channels; i++)
		seq_printf(m, "channel%u_busy_ns %llu\n", i, busy[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int timing_show(struct seq_file *m, void *unused)
{
	struct ek_fs_dev *dev = m->private;
	struct ek_flash_params p = dev->params;
	char value[32];
	u32 i;

	ek_flash_age(&p);
	for (i = 0; i < ek_fs_nr_params; i++) {
		ek_flash_show(&p, &ek_fs_params[i], value, sizeof(value));
		seq_printf(m, "%s %s", ek_fs_params[i].name, value);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(timing);

void ek_fs_stats_add(struct ek_fs_dev *dev)
{
	dev->debugfs = debugfs_create_dir(dev->name, ek_fs_debugfs);
	debugfs_create_file("regions", 0444, dev->debugfs, dev, &regions_fops);
	debugfs_create_file("stats", 0444, dev->debugfs, dev, &stats_fops);
	debugfs_create_file("timing", 0444, dev->debugfs, dev, &timing_fops);
}

/* Waits for readers of the files. */
void ek_fs_stats_remove(struct ek_fs_dev *dev)
{
	debugfs_remove_recursive(dev->debugfs);
	dev->debugfs = NULL;
}

void ek_fs_stats_init(void)
{
	ek_fs_debugfs = debugfs_create_dir("flashsim", NULL);
}

void ek_fs_stats_exit(void)
{
	debugfs_remove_recursive(ek_fs_debugfs);
}
