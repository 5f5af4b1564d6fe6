# SPDX-License-Identifier: Apache-2.0
SUMMARY = "A block device that behaves like flash storage"
DESCRIPTION = "\
    flashsim.ko, a model of an eMMC, an SSD or an NVMe device in memory. Test the \
    scheduler with it. For development images. \
"

require evenkeel-module.inc

EVENKEEL_COMPONENT = "tests/flashsim/src"
EVENKEEL_KERNEL_OPTIONS = "CONFIG_64BIT"
