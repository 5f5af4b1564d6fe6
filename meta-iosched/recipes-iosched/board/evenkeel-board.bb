# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Base files of an Evenkeel image"
DESCRIPTION = "\
    The first process of a read-only slot, the confirmation of a slot, presets, masked units, \
    and drop-ins. For an image with Evenkeel's partitions; a product with other partitions does \
    not need it. \
"

inherit evenkeel_component evenkeel_console meson features_check

# evenkeel-bootloader exists only for these architectures.
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
REQUIRED_DISTRO_FEATURES = "systemd usrmerge"
EVENKEEL_COMPONENT = "recipes/image"
# without the files that only the build of the Debian image needs
EVENKEEL_PATHS = "\
    recipes/image/meson.build \
    recipes/image/meson.options \
    recipes/image/data/masked-units \
    recipes/image/data/rootfs \
    LICENSES \
    VERSION \
"
# base-files and netbase own /etc/hostname and /etc/hosts; the image class replaces them with ours
EXTRA_OEMESON = "-Dbase_etc=${datadir}/evenkeel/etc"

# The preset enables fstrim.timer. OE-Core builds util-linux without units (systemd
# needs util-linux to be built), so this recipe installs the timer.
PACKAGECONFIG ??= "fstrim"
PACKAGECONFIG[fstrim] = "-Dfstrim=true,-Dfstrim=false,,util-linux-fstrim"

# the root shell of evenkeel-console.service is on the kernel's console
do_install:append() {
    port="${@((d.getVar('EVENKEEL_CONSOLE') or '').split() or ['none'])[-1].partition(',')[0]}"
    [ "$port" != none ] || port=console
    sed -i "s|^TTYPath=.*|TTYPath=/dev/$port|" ${D}${systemd_system_unitdir}/evenkeel-console.service
}

FILES:${PN} += "\
    ${datadir}/evenkeel/etc \
    ${nonarch_libdir}/evenkeel \
    ${nonarch_libdir}/systemd \
    ${sysconfdir}/systemd \
"

# e2fsck and mount: preinit; grub-editenv: slot-good; bash: evenkeel-console.service
RDEPENDS:${PN} = "\
    bash \
    e2fsprogs-e2fsck \
    evenkeel-conf-fstab \
    grub-editenv \
    util-linux-mount \
    util-linux-umount \
"
