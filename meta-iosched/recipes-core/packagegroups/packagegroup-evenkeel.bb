# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Evenkeel, divided into the parts that a product may want"
SUMMARY:${PN} = "Everything that runs on an Evenkeel board"
SUMMARY:${PN}-panel = "The panel and the agent behind it"
SUMMARY:${PN}-board = "Packages that an image with Evenkeel's partitions needs"
SUMMARY:${PN}-demo = "A player and a loader on one device"
DESCRIPTION = "\
    The whole appliance, or parts of it: the panel, the packages that an image with our \
    partitions also needs, and the demo. \
"

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup evenkeel_layers features_check

# Excluded from world builds, because the groups need evenkeel-module, which is excluded, too. isa-l and the boot loader
# exist only for the two architectures.
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
    evenkeel-pagepool \
    evenkeel-pagepool-module \
    evenkeel-validate \
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
# Since walnascar, networkd is a package of its own, and the package systemd only recommends it.
EVENKEEL_NETWORKD = "${@bb.utils.contains('LAYERSERIES_CORENAMES', 'scarthgap', '', 'systemd-networkd', d)}"

RDEPENDS:${PN}-demo = "evenkeel-demo"
