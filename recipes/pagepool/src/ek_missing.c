// SPDX-License-Identifier: GPL-2.0-only
/* The module for a kernel that lacks a needed option: it refuses to be loaded, and says why. */
#include <linux/errno.h>
#include <linux/module.h>

static int __init ek_pool_init(void)
{
	pr_err("evenkeel_pagepool: this kernel lacks one of CONFIG_FPROBE, CONFIG_MEMCG, CONFIG_FSNOTIFY and CONFIG_TRACEPOINTS. Priority directories have no effect\n");
	return -EOPNOTSUPP;
}
module_init(ek_pool_init);

MODULE_DESCRIPTION("Evenkeel: priority directories in the page cache");
MODULE_LICENSE("GPL");
