# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The scheduler evenkeel and its settings"
DESCRIPTION = "\
    For a product that takes only the scheduler: the module, the udev rule that selects it for \
    flash devices, the slice of the apps, writeback sized for flash. Set weights by systemd's IOWeight=. \
    Needs no layer but core. Without systemd, use evenkeel-module and evenkeel-conf-udev. \
"

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup features_check

# Excluded from world builds, because it needs evenkeel-module, which is excluded, too.
EXCLUDE_FROM_WORLD = "1"
COMPATIBLE_HOST = "(x86_64|aarch64|riscv64|powerpc64|loongarch64).*-linux"

# systemd provides slices, and sets weights.
REQUIRED_DISTRO_FEATURES = "systemd"

RDEPENDS:${PN} = "\
    evenkeel-conf-slice \
    evenkeel-conf-sysctl \
    evenkeel-conf-udev \
    evenkeel-module \
"
