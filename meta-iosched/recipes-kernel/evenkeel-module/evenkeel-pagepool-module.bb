# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Priority directories in the page cache"
DESCRIPTION = "\
    evenkeel_pagepool.ko charges the pages of files in chosen directories to a cgroup of their \
    own, and counts hits and misses. evenkeel-pagepool has the service that uses it. \
"

require evenkeel-module.inc

EVENKEEL_COMPONENT = "recipes/pagepool/src"
# For a kernel without one of the other options, Kbuild builds a module that refuses to load and says why.
EVENKEEL_KERNEL_OPTIONS = "CONFIG_64BIT"
