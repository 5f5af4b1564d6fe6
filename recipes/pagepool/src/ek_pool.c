// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/evenkeel-pagepool: sets the priority directories, and the cgroup to which their
 * pages are charged (the pool).
 *
 * A writer sends commands. A command names a directory or a cgroup by a file descriptor
 * of the writer. The writer must have opened the directory for reading, and must have
 * the right to write to the cgroup. Only one process at a time can have the device open
 * for writing. When it closes the device or ends, all its settings are undone: the page
 * cache then works as without the module. Any process that may open the device can read
 * the totals.
 */
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kernfs.h>
#include <linux/memcontrol.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "ek_pool.h"

/* bytes of a command, with the final NUL */
#define EK_COMMAND_MAX 32
/* bytes of the text with the totals */
#define EK_TEXT_MAX 512

/* protects ek_owner and ek_pool, and serialises changes of directories and probes */
static DEFINE_MUTEX(ek_lock);
/* the open file of the writer, or NULL */
static struct file *ek_owner;
/* the pool's cgroup, on which the device holds a reference, or NULL */
static struct mem_cgroup *ek_pool;

static void ek_set_pool(struct mem_cgroup *memcg)
{
	struct mem_cgroup *before = ek_pool;

	ek_probes_charge_to(memcg);
	ek_pool = memcg;
	if (before)
		css_put(&before->css);
}

/* Remove the probes if there are no directories. Caller: holds ek_lock. */
static void ek_update_probes(void)
{
	if (ek_dirs_count())
		return;
	ek_probes_charge_to(NULL);
	ek_probes_off();
	ek_probes_charge_to(ek_pool);
}

static void ek_update(struct work_struct *work)
{
	mutex_lock(&ek_lock);
	ek_update_probes();
	mutex_unlock(&ek_lock);
}

static DECLARE_WORK(ek_update_work, ek_update);

/*
 * ek_dirs.c calls this when a directory has left the table, perhaps by an unmount. The
 * caller may hold locks of the file system, so a worker removes the probes.
 */
void ek_pool_changed(void)
{
	if (!ek_dirs_count())
		schedule_work(&ek_update_work);
}

static int ek_command_pool(int fd)
{
	struct cgroup_subsys_state *css;
	struct cgroup *cgroup;
	struct file *file;
	int ret;

	file = fget(fd);
	if (!file)
		return -EBADF;
	cgroup = cgroup_get_from_fd(fd);
	if (IS_ERR(cgroup))
		ret = PTR_ERR(cgroup);
	else if (file_inode(file)->i_private != cgroup->kn) /* another thread reused the fd */
		ret = -EBADF;
	else
		ret = file_permission(file, MAY_WRITE);
	fput(file);
	if (ret) {
		if (!IS_ERR(cgroup))
			cgroup_put(cgroup);
		return ret;
	}
	css = cgroup_get_e_css(cgroup, &memory_cgrp_subsys);
	ret = 0;
	if (!css || css->cgroup != cgroup)
		ret = -ENODEV;
	else if (!css->parent)
		ret = -EINVAL;
	cgroup_put(cgroup);
	if (ret) {
		if (css)
			css_put(css);
		return ret;
	}
	ek_set_pool(mem_cgroup_from_css(css));
	return 0;
}

static int ek_command_dir(int fd, bool add)
{
	struct file *file = fget(fd);
	int ret;

	if (!file)
		return -EBADF;
	if (add) {
		ret = ek_dirs_add(file);
		if (!ret) {
			ret = ek_probes_on();
			if (ret)
				ek_dirs_remove(file);
		}
	} else {
		ret = ek_dirs_remove(file);
	}
	fput(file);
	ek_update_probes();
	return ret;
}

static int ek_command(char *text)
{
	char *word = strsep(&text, " ");
	int fd;

	if (!strcmp(word, "clear") && !text) {
		ek_dirs_clear();
		ek_update_probes();
		return 0;
	}
	if (!text)
		return -EINVAL;
	if (!strcmp(word, "pool") && !strcmp(text, "none")) {
		ek_set_pool(NULL);
		return 0;
	}
	if (kstrtoint(text, 10, &fd) || fd < 0)
		return -EINVAL;
	if (!strcmp(word, "pool"))
		return ek_command_pool(fd);
	if (!strcmp(word, "add"))
		return ek_command_dir(fd, true);
	if (!strcmp(word, "remove"))
		return ek_command_dir(fd, false);
	return -EINVAL;
}

/*
 * Returns true if the caller has the user that opened the device, and no capability more.
 * Otherwise a program could pass its open device to a privileged program, for example as
 * standard output, and so use the rights of that program.
 */
static bool ek_as_opened(const struct file *file)
{
	const struct cred *now = current_cred(), *then = file->f_cred;

	return uid_eq(now->euid, then->euid) &&
	       cap_issubset(now->cap_effective, then->cap_effective);
}

static ssize_t ek_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	char text[EK_COMMAND_MAX];
	int ret;

	if (!len || len >= sizeof(text))
		return -EINVAL;
	if (!ek_as_opened(file))
		return -EPERM;
	if (copy_from_user(text, buf, len))
		return -EFAULT;
	text[len] = '\0';
	ret = mutex_lock_interruptible(&ek_lock);
	if (ret)
		return ret;
	ret = ek_command(strim(text));
	mutex_unlock(&ek_lock);
	return ret ? ret : len;
}

static const char *ek_state(void)
{
	if (!ek_pool)
		return "none";
	return mem_cgroup_online(ek_pool) ? "online" : "gone";
}

static ssize_t ek_read(struct file *file, char __user *buf, size_t len, loff_t *pos)
{
	struct ek_counts sum;
	char text[EK_TEXT_MAX];
	int used;

	ek_probes_sum(&sum);
	mutex_lock(&ek_lock);
	used = scnprintf(text, sizeof(text),
			 "directories %u\npool %s\n"
			 "protected_accesses %llu\nprotected_misses %llu\nprotected_added %llu\n"
			 "normal_accesses %llu\nnormal_misses %llu\nmissed_probes %lu\n",
			 ek_dirs_count(), ek_state(), sum.accesses[EK_PROTECTED],
			 sum.misses[EK_PROTECTED], sum.added, sum.accesses[EK_NORMAL],
			 sum.misses[EK_NORMAL], ek_probes_missed());
	mutex_unlock(&ek_lock);
	return simple_read_from_buffer(buf, len, pos, text, used);
}

static int ek_open(struct inode *inode, struct file *file)
{
	int ret = 0;

	if (!(file->f_mode & FMODE_WRITE))
		return 0;
	mutex_lock(&ek_lock);
	if (ek_owner)
		ret = -EBUSY;
	else
		ek_owner = file;
	mutex_unlock(&ek_lock);
	return ret;
}

static int ek_release(struct inode *inode, struct file *file)
{
	mutex_lock(&ek_lock);
	if (ek_owner == file) {
		ek_dirs_clear();
		ek_update_probes();
		ek_set_pool(NULL);
		ek_owner = NULL;
	}
	mutex_unlock(&ek_lock);
	return 0;
}

static const struct file_operations ek_fops = {
	.owner = THIS_MODULE,
	.open = ek_open,
	.release = ek_release,
	.read = ek_read,
	.write = ek_write,
	.llseek = default_llseek,
};

static struct miscdevice ek_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "evenkeel-pagepool",
	.fops = &ek_fops,
	.mode = 0600,
};

static int __init ek_pool_init(void)
{
	int ret;

	ret = ek_probes_init();
	if (ret)
		return ret;
	ret = ek_dirs_init();
	if (ret)
		return ret;
	ret = misc_register(&ek_device);
	if (ret)
		ek_dirs_exit();
	return ret;
}

/* No process has the device open, so there are neither directories nor probes. */
static void __exit ek_pool_exit(void)
{
	misc_deregister(&ek_device);
	ek_dirs_exit();
	cancel_work_sync(&ek_update_work);
}

module_init(ek_pool_init);
module_exit(ek_pool_exit);

MODULE_DESCRIPTION("Evenkeel: priority directories in the page cache");
MODULE_LICENSE("GPL");
