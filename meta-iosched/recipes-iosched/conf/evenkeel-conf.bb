# SPDX-License-Identifier: Apache-2.0
SUMMARY = "How a board with flash storage is set up"
DESCRIPTION = "Kernel settings for writeback on flash, the scheduler for each flash device, \
a journal that flash can bear, watchdog and network, each in a package of its own, so \
that a product can take some of them."

inherit evenkeel-room meson allarch

EVENKEEL_ROOM = "conf"
# base-files owns /etc/fstab; the image puts ours in its place
EXTRA_OEMESON = "-Dbase_etc=${datadir}/evenkeel/etc"

PARTS = "sysctl udev slice journald watchdog network mkfs fstab apps"
PACKAGE_BEFORE_PN = "${@' '.join('${PN}-' + part for part in d.getVar('PARTS').split())}"
# what a product that takes the scheduler alone wants is not the partitions of our image
RDEPENDS:${PN} = "${PACKAGE_BEFORE_PN}"
ALLOW_EMPTY:${PN} = "1"

SUMMARY:${PN}-sysctl = "Writeback sized for flash, reboot on panic, hardening"
SUMMARY:${PN}-udev = "The scheduler evenkeel on every flash device"
SUMMARY:${PN}-slice = "The slice of a board's apps, with I/O and memory accounting"
SUMMARY:${PN}-journald = "A journal that flash can bear"
SUMMARY:${PN}-watchdog = "The hardware watchdog, fed by PID 1"
SUMMARY:${PN}-network = "DHCP on wired interfaces"
SUMMARY:${PN}-mkfs = "How the recorder's partition is made"
SUMMARY:${PN}-fstab = "Mounts of an Evenkeel image"
SUMMARY:${PN}-apps = "How an app is listed"

FILES:${PN}-sysctl = "${nonarch_libdir}/sysctl.d"
FILES:${PN}-udev = "${nonarch_libdir}/udev"
FILES:${PN}-slice = "${systemd_system_unitdir}/evenkeel-apps.slice"
FILES:${PN}-journald = "${nonarch_libdir}/systemd/journald.conf.d"
FILES:${PN}-watchdog = "${nonarch_libdir}/systemd/system.conf.d"
FILES:${PN}-network = "${nonarch_libdir}/systemd/network"
FILES:${PN}-mkfs = "${nonarch_libdir}/evenkeel/mkfs"
FILES:${PN}-fstab = "${datadir}/evenkeel/etc"
FILES:${PN}-apps = "${sysconfdir}/evenkeel/apps.d"
