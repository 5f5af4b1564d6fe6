# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Evenkeel, by what a product may want of it"
DESCRIPTION = "All of the appliance, or parts of it: the panel, what an image of ours needs, the demo, \
and tools to look into a board."

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup evenkeel-layers features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python webserver"
REQUIRED_DISTRO_FEATURES = "systemd polkit evenkeel"

PACKAGES = "\
    ${PN} \
    ${PN}-panel \
    ${PN}-board \
    ${PN}-demo \
    ${PN}-dev-tools \
"

SUMMARY:${PN} = "All that runs on an Evenkeel board"
RDEPENDS:${PN} = "\
    packagegroup-evenkeel-scheduler \
    packagegroup-evenkeel-recorder \
    ${PN}-panel \
    ${PN}-board \
"

SUMMARY:${PN}-panel = "The panel and the agent behind it"
RDEPENDS:${PN}-panel = "evenkeel-agent evenkeel-conf-apps evenkeel-webui"

SUMMARY:${PN}-board = "What an image with Evenkeel's partitions needs"
RDEPENDS:${PN}-board = "\
    e2fsprogs-mke2fs \
    evenkeel-board \
    evenkeel-conf-fstab \
    evenkeel-conf-journald \
    evenkeel-conf-mkfs \
    evenkeel-conf-network \
    evenkeel-conf-watchdog \
    iproute2 \
    kernel-image \
    kernel-modules \
    less \
    mmc-utils \
    procps \
"

SUMMARY:${PN}-demo = "A player and a loader on one device"
RDEPENDS:${PN}-demo = "evenkeel-demo"

SUMMARY:${PN}-dev-tools = "Tools to look into a board"
RDEPENDS:${PN}-dev-tools = "blktrace fio flashsim-module strace"
