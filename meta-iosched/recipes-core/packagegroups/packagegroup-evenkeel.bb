# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Evenkeel, by what a product may want of it"
SUMMARY:${PN} = "All that runs on an Evenkeel board"
SUMMARY:${PN}-panel = "The panel and the agent behind it"
SUMMARY:${PN}-board = "What an image with Evenkeel's partitions needs beside the panel"
SUMMARY:${PN}-demo = "A player and a loader on one device"
DESCRIPTION = "\
    All of the appliance, or parts of it: the panel, what an image of ours needs beside it \
    (where the panel runs, a slot is confirmed), and the demo. \
"

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup evenkeel_layers features_check

# the scheduler's, and of the machines that it is for those that isa-l and GRUB are for, too
EXCLUDE_FROM_WORLD = "1"
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
EVENKEEL_LAYERS = "openembedded-layer meta-python webserver"
REQUIRED_DISTRO_FEATURES = "systemd polkit evenkeel"

PACKAGES = "\
    ${PN} \
    ${PN}-panel \
    ${PN}-board \
    ${PN}-demo \
"

RDEPENDS:${PN} = "\
    ${PN}-board \
    ${PN}-panel \
    packagegroup-evenkeel-recorder \
    packagegroup-evenkeel-scheduler \
"

RDEPENDS:${PN}-panel = "evenkeel-agent evenkeel-conf-apps evenkeel-webui"

RDEPENDS:${PN}-board = "\
    ${EVENKEEL_NETWORKD} \
    e2fsprogs-mke2fs \
    evenkeel-board \
    evenkeel-conf-fstab \
    evenkeel-conf-hardening \
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
# a package of its own since walnascar, which systemd only recommends
EVENKEEL_NETWORKD = "${@bb.utils.contains('LAYERSERIES_CORENAMES', 'scarthgap', '', 'systemd-networkd', d)}"

RDEPENDS:${PN}-demo = "evenkeel-demo"
