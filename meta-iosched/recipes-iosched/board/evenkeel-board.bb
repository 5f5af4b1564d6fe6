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
# The paths leave out files that only the Debian image needs.
EVENKEEL_PATHS = "\
    recipes/image/meson.build \
    recipes/image/meson.options \
    recipes/image/src/ek-etc.c \
    recipes/image/src/fit-medium.c \
    recipes/image/data/masked-units \
    recipes/image/data/rootfs \
    LICENSES \
    VERSION \
"
# base-files and netbase own /etc/hostname and /etc/hosts. The image class replaces both with ours.
EXTRA_OEMESON = "-Dwerror=false -Dbase_etc=${datadir}/evenkeel/etc"

# The preset enables fstrim.timer. OE-Core builds util-linux without units (systemd
# needs util-linux to be built), so this recipe installs the timer.
PACKAGECONFIG ??= "fstrim"
PACKAGECONFIG[fstrim] = "-Dfstrim=true,-Dfstrim=false,,util-linux-fstrim"

# The root shell of evenkeel-console.service uses the kernel's last console, or /dev/console if none is named.
do_install:append() {
    port="${@((d.getVar('EVENKEEL_CONSOLE') or '').split() or ['none'])[-1].partition(',')[0]}"
    [ "$port" != none ] || port=console
    sed -i "s|^TTYPath=.*|TTYPath=/dev/$port|" ${D}${systemd_system_unitdir}/evenkeel-console.service
}

FILES:${PN} += "\
    ${datadir}/evenkeel/etc \
    ${nonarch_libdir}/evenkeel \
    ${nonarch_libdir}/systemd \
    ${sysconfdir}/evenkeel \
    ${sysconfdir}/systemd \
"

# preinit needs e2fsck, mount, umount and sha256sum; slot-good needs grub-editenv; preseed needs mount and umount;
# make-empty needs mke2fs; factory-reset needs blkdiscard; our grub-editenv needs flock and mktemp;
# evenkeel-console.service needs bash.
# preseed also needs evenkeel-agent; without it, nothing applies a preseed file.
# The health checks need cksum and timeout, which poky's BusyBox does not have, and slot-good needs os-release.
RDEPENDS:${PN} = "\
    bash \
    coreutils \
    e2fsprogs-e2fsck \
    e2fsprogs-mke2fs \
    evenkeel-conf-fstab \
    evenkeel-conf-mkfs \
    grub-editenv \
    os-release \
    util-linux-blkdiscard \
    util-linux-flock \
    util-linux-mount \
    util-linux-umount \
"
