// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of the priority directories, and the check whether a file lies directly
 * in one of them.
 *
 * Each directory has an fsnotify mark (audit rules and nfsd use such marks, too). The
 * mark keeps the inode in memory, so the address of the inode identifies the
 * directory. Unlike an open file, a mark does not block an unmount: when the directory
 * is deleted or its file system is unmounted, fsnotify removes the mark, and
 * ek_freeing_mark() removes the directory from the table.
 *
 * A file lies in a directory if one of its names in the kernel's memory (its dentries)
 * does. So all cases have an answer:
 *
 * - An open file always has the name by which it was opened.
 * - A rename moves the name.
 * - A hard link is another name.
 * - Bind mounts share names.
 * - A deleted file has no name.
 *
 * The page cache has the pages of a file on overlayfs under the file in its layer. So
 * the user must name the directory of the layer, not the one on overlayfs.
 */
#include <linux/backing-dev.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fsnotify_backend.h>
#include <linux/hashtable.h>
#include <linux/magic.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "compat.h"
#include "ek_pool.h"

/* the maximum number of priority directories: users should name a few, with often used files */
#define EK_MAX_DIRS 256
/* how many names of a file are examined at most: more would make adding a page too slow */
#define EK_MAX_NAMES 16

/**
 * struct ek_dir - a priority directory
 * @mark: the mark on the directory's inode
 * @inode: the directory's inode; only compared, never dereferenced
 * @users: number of users: the table, and ek_dirs_clear() while it runs; all users
 *	together hold one reference on @mark
 * @node: entry in the table ek_dirs; changed under ek_dirs_lock, read under RCU
 * @rcu: for freeing the structure
 */
struct ek_dir {
	struct fsnotify_mark mark;
	const struct inode *inode;
	refcount_t users;
	struct hlist_node node;
	struct rcu_head rcu;
};

static DEFINE_HASHTABLE(ek_dirs, 8);
/* protects ek_dirs and ek_nr_dirs */
static DEFINE_SPINLOCK(ek_dirs_lock);
static unsigned int ek_nr_dirs;
atomic_t ek_generation;
/* number of marks that are not freed yet; the module must not be unloaded before they are */
static atomic_t ek_nr_marks;
static DECLARE_WAIT_QUEUE_HEAD(ek_no_marks);
static struct fsnotify_group *ek_group;

unsigned int ek_dirs_count(void)
{
	return READ_ONCE(ek_nr_dirs);
}

/* Returns true if @dir is a priority directory. Caller: holds the RCU read lock. */
static bool ek_is_priority(const struct inode *dir)
{
	struct ek_dir *d;

	hash_for_each_possible_rcu(ek_dirs, d, node, (unsigned long)dir)
		if (d->inode == dir)
			return true;
	return false;
}

/*
 * Returns true if @inode is a regular file directly in a priority directory. Callable in any
 * context except interrupts.
 */
bool ek_dirs_own(struct inode *inode)
{
	struct dentry *name;
	unsigned int examined = 0;
	bool own = false;

	if (!S_ISREG(inode->i_mode))
		return false;
	rcu_read_lock();
	spin_lock(&inode->i_lock);
	hlist_for_each_entry(name, &inode->i_dentry, EK_ALIAS) {
		/* A rename may change the parent now. RCU keeps both parents in memory. */
		struct dentry *parent = READ_ONCE(name->d_parent);

		if (!d_unhashed(name) && ek_is_priority(d_inode_rcu(parent))) {
			own = true;
			break;
		}
		if (++examined == EK_MAX_NAMES)
			break;
	}
	spin_unlock(&inode->i_lock);
	rcu_read_unlock();
	return own;
}

static void ek_dir_put(struct ek_dir *d)
{
	if (refcount_dec_and_test(&d->users))
		fsnotify_put_mark(&d->mark);
}

static void ek_dir_leave_table(struct ek_dir *d)
{
	spin_lock(&ek_dirs_lock);
	hash_del_rcu(&d->node);
	WRITE_ONCE(ek_nr_dirs, ek_nr_dirs - 1);
	spin_unlock(&ek_dirs_lock);
	atomic_inc(&ek_generation);
	ek_dir_put(d);
}

/* fsnotify calls this when a file has come into the directory or left it. */
static int ek_handle_event(struct fsnotify_mark *mark, u32 mask, struct inode *inode,
			   struct inode *dir, const struct qstr *name, u32 cookie)
{
	atomic_inc(&ek_generation);
	return 0;
}

static void ek_freeing_mark(struct fsnotify_mark *mark, struct fsnotify_group *group)
{
	ek_dir_leave_table(container_of(mark, struct ek_dir, mark));
	ek_pool_changed();
}

static void ek_free_mark(struct fsnotify_mark *mark)
{
	kfree_rcu(container_of(mark, struct ek_dir, mark), rcu);
	if (atomic_dec_and_test(&ek_nr_marks))
		wake_up(&ek_no_marks);
}

static const struct fsnotify_ops ek_fsnotify_ops = {
	.handle_inode_event = ek_handle_event,
	.freeing_mark = ek_freeing_mark,
	.free_mark = ek_free_mark,
};

static int ek_dirs_check(const struct file *file)
{
	const struct inode *inode = file_inode(file);

	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!S_ISDIR(inode->i_mode))
		return -ENOTDIR;
	if (inode->i_sb->s_magic == OVERLAYFS_SUPER_MAGIC)
		return -EXDEV;
	/* tmpfs, proc and similar have no device from which a page could be read again */
	if (inode->i_sb->s_bdi == &noop_backing_dev_info)
		return -EOPNOTSUPP;
	return 0;
}

/* Caller: holds the device's lock (ek_lock in ek_pool.c). */
int ek_dirs_add(struct file *file)
{
	struct inode *inode = file_inode(file);
	struct ek_dir *d;
	bool known;
	int ret = ek_dirs_check(file);

	if (ret)
		return ret;
	if (ek_dirs_count() >= EK_MAX_DIRS)
		return -ENOSPC;
	d = kzalloc(sizeof(*d), GFP_KERNEL_ACCOUNT);
	if (!d)
		return -ENOMEM;
	atomic_inc(&ek_nr_marks);
	fsnotify_init_mark(&d->mark, ek_group);
	d->mark.mask = FS_CREATE | FS_DELETE | FS_MOVED_FROM | FS_MOVED_TO;
	d->inode = inode;
	refcount_set(&d->users, 1);
	rcu_read_lock();
	known = ek_is_priority(inode);
	rcu_read_unlock();
	if (known) {
		ek_dir_put(d);
		return -EEXIST;
	}
	/*
	 * Add the directory to the table before its mark: an unmount may remove the mark as soon
	 * as it exists, and then ek_freeing_mark() removes the directory from the table.
	 */
	spin_lock(&ek_dirs_lock);
	hash_add_rcu(ek_dirs, &d->node, (unsigned long)inode);
	WRITE_ONCE(ek_nr_dirs, ek_nr_dirs + 1);
	spin_unlock(&ek_dirs_lock);
	ret = fsnotify_add_inode_mark(&d->mark, inode, 0);
	if (ret) {
		ek_dir_leave_table(d);
		return ret;
	}
	atomic_inc(&ek_generation);
	return 0;
}

/* Caller: holds the device's lock. */
int ek_dirs_remove(struct file *file)
{
	struct fsnotify_mark *mark;

	mark = fsnotify_find_inode_mark(file_inode(file), ek_group);
	if (!mark)
		return -ENOENT;
	fsnotify_destroy_mark(mark, ek_group);
	fsnotify_put_mark(mark);
	return 0;
}

/* Caller: holds the device's lock. */
void ek_dirs_clear(void)
{
	struct ek_dir *d, *found;
	int bucket;

	do {
		found = NULL;
		spin_lock(&ek_dirs_lock);
		hash_for_each(ek_dirs, bucket, d, node) {
			found = d;
			refcount_inc(&d->users);
			break;
		}
		spin_unlock(&ek_dirs_lock);
		if (found) {
			/* If an unmount is removing the mark, this returns at once: try again. */
			fsnotify_destroy_mark(&found->mark, ek_group);
			ek_dir_put(found);
			cond_resched();
		}
	} while (found);
}

int __init ek_dirs_init(void)
{
	ek_group = fsnotify_alloc_group(&ek_fsnotify_ops, 0);
	return PTR_ERR_OR_ZERO(ek_group);
}

/* Caller: has removed all directories. */
void ek_dirs_exit(void)
{
	wait_event(ek_no_marks, !atomic_read(&ek_nr_marks));
	/* the worker that freed the last mark may still be in ek_free_mark() */
	fsnotify_wait_marks_destroyed();
	fsnotify_put_group(ek_group);
}
