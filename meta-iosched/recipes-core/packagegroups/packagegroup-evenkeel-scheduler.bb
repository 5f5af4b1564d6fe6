# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The scheduler evenkeel, and the settings that go with it"
DESCRIPTION = "\
    For a product that takes the scheduler alone: the module, the rule that chooses it for \
    flash devices, the slice of the apps, writeback sized for flash. Weights are systemd's IOWeight=. \
    Needs no layer but core. Without systemd there are evenkeel-module and evenkeel-conf-udev. \
"

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup features_check

# as the module, and without it nothing of a world
EXCLUDE_FROM_WORLD = "1"
COMPATIBLE_HOST = "(x86_64|aarch64|riscv64|powerpc64|loongarch64).*-linux"

# slice and weights are its
REQUIRED_DISTRO_FEATURES = "systemd"

RDEPENDS:${PN} = "\
    evenkeel-conf-slice \
    evenkeel-conf-sysctl \
    evenkeel-conf-udev \
    evenkeel-module \
"
