# SPDX-License-Identifier: Apache-2.0
SUMMARY = "What an Evenkeel image has beside its packages"
DESCRIPTION = "\
    The first process of a read-only slot, the confirmation of a slot, presets, units \
    that stay off, and drop-ins. For an image with Evenkeel's partitions; a product with an image of \
    its own does not want it. \
"

inherit evenkeel_room evenkeel_console meson features_check

# where evenkeel-bootloader is made
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
REQUIRED_DISTRO_FEATURES = "systemd usrmerge"
EVENKEEL_ROOM = "recipes/image"
# not what builds the fast image
EVENKEEL_PATHS = "\
    recipes/image/meson.build \
    recipes/image/meson.options \
    recipes/image/masked-units \
    recipes/image/rootfs \
    LICENSES \
"
# base-files and netbase own these files; the image puts ours in their place
EXTRA_OEMESON = "-Dbase_etc=${datadir}/evenkeel/etc"

# fstrim.timer, which the preset enables: OE-Core builds util-linux without its
# units, because systemd needs util-linux to be built
PACKAGECONFIG ??= "fstrim"
PACKAGECONFIG[fstrim] = "-Dfstrim=true,-Dfstrim=false,,util-linux-fstrim"

# the tests' shell is where the kernel's console is
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

# preinit: mount, checks; slot-good: the boot loader's state; a shell for tests
RDEPENDS:${PN} = "\
    bash \
    e2fsprogs-e2fsck \
    evenkeel-conf-fstab \
    grub-editenv \
    util-linux-mount \
    util-linux-umount \
"
