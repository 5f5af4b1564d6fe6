# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Evenkeel, by what a product may want of it"
DESCRIPTION = "Groups of packages: the scheduler with its settings, the recorder, the panel, what an \
image of ours needs, the demo, and tools to look into a board."

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup evenkeel-layers features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python webserver"
REQUIRED_DISTRO_FEATURES = "systemd polkit evenkeel"

PACKAGES = "\
    ${PN} \
    ${PN}-scheduler \
    ${PN}-recorder \
    ${PN}-panel \
    ${PN}-board \
    ${PN}-demo \
    ${PN}-dev-tools \
"

SUMMARY:${PN} = "All that runs on an Evenkeel board"
RDEPENDS:${PN} = "${PN}-scheduler ${PN}-recorder ${PN}-panel ${PN}-board"

SUMMARY:${PN}-scheduler = "The scheduler, and the settings that go with it"
RDEPENDS:${PN}-scheduler = "\
    evenkeel-conf-slice \
    evenkeel-conf-sysctl \
    evenkeel-conf-udev \
    evenkeel-module \
"

SUMMARY:${PN}-recorder = "The recorder, and how its partition is made"
RDEPENDS:${PN}-recorder = "evenkeel-conf-mkfs evenkeel-recorder python3-ek-recorder"

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
