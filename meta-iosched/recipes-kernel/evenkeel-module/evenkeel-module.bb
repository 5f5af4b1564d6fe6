# SPDX-License-Identifier: Apache-2.0
SUMMARY = "I/O scheduler whose weights hold at any size of I/O"
DESCRIPTION = "\
    evenkeel.ko, a blk-mq I/O scheduler for flash storage. cgroups share a device by \
    io.weight, even under contention from direct I/O of 100 MB, and a group can get a fixed share. \
"

require evenkeel-module.inc

EVENKEEL_COMPONENT = "recipes/scheduler/src"
EVENKEEL_KERNEL_OPTIONS = "CONFIG_64BIT CONFIG_BLK_CGROUP"
