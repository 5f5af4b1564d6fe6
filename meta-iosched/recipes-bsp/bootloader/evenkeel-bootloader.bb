# SPDX-License-Identifier: Apache-2.0
SUMMARY = "GRUB for two slots, as finished partitions for an image"
DESCRIPTION = "\
    The EFI system partition contains one GRUB program and its script, which chooses a slot \
    and counts its tries. A second partition, bootstate, stores the state. The recipe deploys \
    both partitions as files, and makes no package. \
"
SECTION = "bootloaders"
# grub.cfg and boot-loader are Apache-2.0. The program is built from GRUB's modules, which are GPL-3.0-only.
LICENSE = "Apache-2.0 & GPL-3.0-only"
LIC_FILES_CHKSUM = "\
    file://${EVENKEEL_S}/LICENSES/Apache-2.0.txt;md5=3b83ef96387f14655fc854ddc3c6bd57 \
    file://${COMMON_LICENSE_DIR}/GPL-3.0-only;md5=c79ff39f19dfec6d293b95dea7b07891 \
"

# grub-efi has GRUB's modules for the target
DEPENDS += "dosfstools-native e2fsprogs-native grub-efi grub-native mtools-native"

inherit evenkeel_component evenkeel_console deploy nopackages

EVENKEEL_COMPONENT = "recipes/image"
EVENKEEL_PATHS = "\
    recipes/image/src/boot-loader \
    recipes/image/data/cmdline \
    recipes/image/data/grub.cfg \
    LICENSES \
"
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"

GRUB_FORMAT:x86-64 = "x86_64-efi"
GRUB_FORMAT:aarch64 = "arm64-efi"

# mke2fs and debugfs before 1.47.1 read this variable instead of SOURCE_DATE_EPOCH
export E2FSPROGS_FAKE_TIME = "${SOURCE_DATE_EPOCH}"

do_configure[noexec] = "1"
do_install[noexec] = "1"

# "true" if the initramfs of this series can restart the board (init_fatal_reboot). scarthgap's cannot.
EVENKEEL_INITRAMFS_REBOOTS = "${@bb.utils.contains('LAYERSERIES_CORENAMES', 'scarthgap', 'false', 'true', d)}"

do_compile() {
    rm -rf ${B}/boot ${B}/state
    mkdir -p ${B}/boot ${B}/state
    ${S}/src/boot-loader ${GRUB_FORMAT} ${B}/boot ${STAGING_LIBDIR}/grub/${GRUB_FORMAT} "${EVENKEEL_CONSOLE}"
    # By default OE-Core's initramfs waits 5 s for the root and then hangs, so the board would never
    # try the other slot. With these parameters it waits 60 s and then restarts the board
    if [ -n "${INITRAMFS_IMAGE}" ]; then
        sed -i 's| rootwait | rootwait roottimeout=60 init_fatal_reboot |' ${B}/boot/grub.cfg
        grep -q init_fatal_reboot ${B}/boot/grub.cfg
        ${EVENKEEL_INITRAMFS_REBOOTS} || bbwarn "${INITRAMFS_IMAGE}: the initramfs of this series does not restart the board when the root does not appear, so the other slot is never tried. Give initramfs-framework the init of a later series (init_fatal_reboot), or build the driver of the medium into the kernel."
    fi
    mv ${B}/boot/grubenv ${B}/state/
    find ${B}/boot ${B}/state -exec touch -d @${SOURCE_DATE_EPOCH} {} +

    # Sizes, serial numbers and options are the same as in recipes/image/data/genimage.cfg and recipes/image/src/build
    rm -f ${B}/esp.vfat ${B}/bootstate.ext4
    mkfs.vfat -C --invariant -i ec000001 -n ESP ${B}/esp.vfat 65536
    mmd -i ${B}/esp.vfat ::EFI ::EFI/BOOT
    mcopy -m -i ${B}/esp.vfat ${B}/boot/* ::EFI/BOOT/
    mke2fs -q -t ext4 -m 0 -N 64 -L bootstate -U e7e2ee10-0000-4000-8000-0000000000f2 \
        -E hash_seed=e7e2ee10-0000-4000-8000-0000000000f2,lazy_itable_init=0,nodiscard,root_owner=0:0 \
        -O ^metadata_csum_seed,^orphan_file ${B}/bootstate.ext4 16M
    # The exit status of debugfs is always 0, so the recipe checks the result.
    debugfs -w -R "write ${B}/state/grubenv grubenv" ${B}/bootstate.ext4
    debugfs -R "cat grubenv" ${B}/bootstate.ext4 | cmp - ${B}/state/grubenv
}

do_deploy() {
    install -m 0644 -D ${B}/esp.vfat ${DEPLOYDIR}/evenkeel-esp.vfat
    install -m 0644 -D ${B}/bootstate.ext4 ${DEPLOYDIR}/evenkeel-bootstate.ext4
}
addtask deploy after do_compile before do_build
