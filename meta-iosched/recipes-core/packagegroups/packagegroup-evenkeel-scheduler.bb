# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The scheduler evenkeel, and the settings that go with it"
DESCRIPTION = "\
    For a product that takes the scheduler alone: the module, the rule that chooses it for \
    flash devices, the slice of the apps, writeback sized for flash. Weights are systemd's IOWeight=. \
    Needs no layer but core. \
"

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup

RDEPENDS:${PN} = "\
    evenkeel-conf-slice \
    evenkeel-conf-sysctl \
    evenkeel-conf-udev \
    evenkeel-module \
"
