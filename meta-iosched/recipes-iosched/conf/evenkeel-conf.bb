# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Settings of a board with flash storage"
SUMMARY:${PN}-sysctl = "Writeback sized for flash"
SUMMARY:${PN}-hardening = "Reboot on panic, and restrictions for unprivileged users"
SUMMARY:${PN}-udev = "The scheduler evenkeel on every flash device"
SUMMARY:${PN}-slice = "The slice of a board's apps; I/O and memory accounting of each unit"
SUMMARY:${PN}-journald = "A journal that causes little flash wear"
SUMMARY:${PN}-watchdog = "The hardware watchdog, whose timer PID 1 resets"
SUMMARY:${PN}-network = "DHCP and mDNS on wired interfaces, resolver, clock"
SUMMARY:${PN}-mkfs = "mke2fs options for the partitions of data and recordings"
SUMMARY:${PN}-fstab = "Mounts of an Evenkeel image"
SUMMARY:${PN}-apps = "Folder of the app files, with an example"
DESCRIPTION = "\
    Kernel settings for writeback on flash, the scheduler for each flash device, a journal \
    that causes little flash wear, watchdog and network. Each setting has its own package, so \
    a product can choose among them. \
"

inherit evenkeel_component meson allarch

EVENKEEL_COMPONENT = "conf"
# The paths leave out the kernel fragments and the tests.
EVENKEEL_PATHS = "\
    conf/README.md \
    conf/apps.d \
    conf/fstab \
    conf/meson.build \
    conf/meson.options \
    conf/mkfs \
    conf/sysctl.d \
    conf/systemd \
    conf/udev \
    LICENSES \
    VERSION \
"
# base-files owns /etc/fstab. The image class replaces it with ours.
EXTRA_OEMESON = "-Dbase_etc=${datadir}/evenkeel/etc"

PACKAGE_BEFORE_PN = "\
    ${PN}-hardening \
    ${PN}-sysctl \
    ${PN}-udev \
    ${PN}-slice \
    ${PN}-journald \
    ${PN}-watchdog \
    ${PN}-network \
    ${PN}-mkfs \
    ${PN}-fstab \
    ${PN}-apps \
"
ALLOW_EMPTY:${PN} = "1"

# Without usrmerge, udev reads rules below /lib. (udev also exists without systemd, which requires usrmerge.)
do_install:append() {
    if [ "${nonarch_base_libdir}" != "${nonarch_libdir}" ]; then
        install -d ${D}${nonarch_base_libdir}
        mv ${D}${nonarch_libdir}/udev ${D}${nonarch_base_libdir}/
    fi
}

FILES:${PN}-hardening = "${nonarch_libdir}/sysctl.d/60-evenkeel-board.conf"
FILES:${PN}-sysctl = "${nonarch_libdir}/sysctl.d"
FILES:${PN}-udev = "${nonarch_base_libdir}/udev"
# systemd_system_unitdir would be wrong: without usrmerge it is below /lib.
FILES:${PN}-slice = "\
    ${nonarch_libdir}/systemd/system/evenkeel-apps.slice \
    ${nonarch_libdir}/systemd/system.conf.d/60-evenkeel-accounting.conf \
"
FILES:${PN}-journald = "${nonarch_libdir}/systemd/journald.conf.d"
FILES:${PN}-watchdog = "${nonarch_libdir}/systemd/system.conf.d/60-evenkeel-watchdog.conf"
FILES:${PN}-network = "\
    ${nonarch_libdir}/systemd/network \
    ${nonarch_libdir}/systemd/resolved.conf.d \
    ${nonarch_libdir}/systemd/timesyncd.conf.d \
"
FILES:${PN}-mkfs = "${nonarch_libdir}/evenkeel/mkfs"
FILES:${PN}-fstab = "${datadir}/evenkeel/etc"
FILES:${PN}-apps = "${sysconfdir}/evenkeel/apps.d"

RDEPENDS:${PN} = "${PACKAGE_BEFORE_PN}"
