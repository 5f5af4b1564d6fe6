# SPDX-License-Identifier: Apache-2.0
# An image with Evenkeel's partitions: two read-only slots, bootstate, recorder,
# data. For a product's own image: inherit this class and core-image, and install
# packagegroup-evenkeel. An image needs at least packagegroup-evenkeel-board, which confirms
# a slot. Sizes are in MiB. The default sizes together fit a "4 GB" eMMC.
EVENKEEL_ROOT_MB ?= "640"
EVENKEEL_RECORDER_MB ?= "640"
EVENKEEL_DATA_MB ?= "1536"

inherit features_check
REQUIRED_DISTRO_FEATURES += "systemd usrmerge"

IMAGE_FEATURES += "read-only-rootfs"

# No syslog daemon: the journal already keeps the messages, and a second daemon would
# write them to the flash again. (apt cannot ignore a recommendation, so for deb the
# package is excluded.)
BAD_RECOMMENDATIONS:append = "${@'' if d.getVar('IMAGE_PKGTYPE') == 'deb' else ' busybox-syslog'}"
PACKAGE_EXCLUDE:append = "${@' busybox-syslog' if d.getVar('IMAGE_PKGTYPE') == 'deb' else ''}"

# The ext4 image is a slot, the unit that an update writes. EXTRA_IMAGECMD below removes two
# features, because GRUB cannot read a file system that has them, and the journal, because the
# board never writes to a slot. If the root file system does not fit a slot, the build fails.
IMAGE_FSTYPES = "ext4 wic wic.bmap"
IMAGE_ROOTFS_SIZE = "${@int(d.getVar('EVENKEEL_ROOT_MB')) * 1024}"
IMAGE_ROOTFS_EXTRA_SPACE = "0"
IMAGE_ROOTFS_MAXSIZE = "${IMAGE_ROOTFS_SIZE}"
IMAGE_OVERHEAD_FACTOR = "1.0"
# UUID and hash_seed are fixed, so that the same files give the same bytes; recipes/image/src/build
# has the same values. Inode tables are not lazy: their content would depend on the build machine's kernel.
EXTRA_IMAGECMD:ext4 = "-m 0 -L root -O ^has_journal,^metadata_csum_seed,^orphan_file \
                       -U e7e2ee10-0000-4000-8000-0000000000f1 -E hash_seed=e7e2ee10-0000-4000-8000-0000000000f1,lazy_itable_init=0"
# mke2fs and debugfs read SOURCE_DATE_EPOCH only since 1.47.1 (scarthgap has 1.47.0), and
# e2fsck never does. These two variables give them the same time.
export E2FSPROGS_FAKE_TIME = "${SOURCE_DATE_EPOCH}"
export E2FSCK_TIME = "${SOURCE_DATE_EPOCH}"
# Set the access time and the change time of every file to a fixed value. Otherwise mke2fs would
# copy both from the tree. There, reading a file changes its access time, and no program can set
# a change time. mke2fs 1.47.1 and later limits both times to SOURCE_DATE_EPOCH; the step takes
# only a second, so it runs in all series.
IMAGE_CMD:append:ext4 = " ; evenkeel_settle_times"
evenkeel_settle_times() {
    find ${IMAGE_ROOTFS} -printf 'set_inode_field "/%P" atime @${SOURCE_DATE_EPOCH}\nset_inode_field "/%P" ctime @${SOURCE_DATE_EPOCH}\n' |
        debugfs -w -f - ${IMGDEPLOYDIR}/${IMAGE_NAME}.ext4 > /dev/null
}

EVENKEEL_LAYERDIR[vardepvalue] = "evenkeel"
WKS_SEARCH_PATH:append = ":${EVENKEEL_LAYERDIR}/files/wic"
# A product sets EVENKEEL_WKS_FILE to use another file. WKS_FILE cannot serve for this, because machines set it.
EVENKEEL_WKS_FILE ?= "evenkeel.wks.in"
WKS_FILE = "${EVENKEEL_WKS_FILE}"
# :forcevariable takes precedence over the machine's value, even over a value with an override of the machine.
WKS_FILES:forcevariable = "${EVENKEEL_WKS_FILE}"
# wic copies finished partition files, so it needs no boot loaders and no tools for other file systems.
WKS_FILE_DEPENDS ?= "bmaptool-native e2fsprogs-native"
# "wic" is not an override here: image.bbclass reads a variable of this name. The append keeps the machine's value
# nooelint: oelint.vars.overrideappend
IMAGE_TYPEDEP:wic:append = " ext4"
do_image_wic[depends] += "evenkeel-bootloader:do_deploy e2fsprogs-native:do_populate_sysroot"

# Makes the partitions recorder and data, which are empty on a new board.
EVENKEEL_PARTITIONS = "${WORKDIR}/evenkeel-partitions"
do_image_wic[prefuncs] += "evenkeel_make_partitions"
do_image_wic[vardeps] += "EVENKEEL_ROOT_MB EVENKEEL_RECORDER_MB EVENKEEL_DATA_MB"
evenkeel_make_partitions() {
    rm -rf ${EVENKEEL_PARTITIONS}
    mkdir -p ${EVENKEEL_PARTITIONS}
    ln -s ${IMGDEPLOYDIR}/${IMAGE_LINK_NAME}.ext4 ${EVENKEEL_PARTITIONS}/root.ext4
    # The options are in conf/mkfs. mke2fs uses only one -E, so the -E of this class is merged into
    # the -E of that file.
    sed -e '/^#/d' -e 's/^-E /-E hash_seed=e7e2ee10-0000-4000-8000-0000000000f4,nodiscard,root_owner=0:0,/' \
        ${IMAGE_ROOTFS}${nonarch_libdir}/evenkeel/mkfs/data |
        xargs mke2fs -q -t ext4 -U e7e2ee10-0000-4000-8000-0000000000f4 -L data \
            ${EVENKEEL_PARTITIONS}/data.ext4 ${EVENKEEL_DATA_MB}M
    # e2fsprogs before 1.47.1 does not know root_perms, and scarthgap has 1.47.0. So in every series
    # debugfs sets the mode of the root folder afterwards.
    options=${IMAGE_ROOTFS}${nonarch_libdir}/evenkeel/mkfs/recorder
    mode=$(sed -n 's/^-E .*,root_perms=\([0-7]*\).*/\1/p' $options)
    sed -e '/^#/d' -e 's/,root_perms=[0-7]*//' -e 's/^-E /-E hash_seed=e7e2ee10-0000-4000-8000-0000000000f3,nodiscard,/' $options |
        xargs mke2fs -q -t ext4 -U e7e2ee10-0000-4000-8000-0000000000f3 -L recorder \
            ${EVENKEEL_PARTITIONS}/recorder.ext4 ${EVENKEEL_RECORDER_MB}M
    # The exit status of debugfs is always 0, so the class checks the result.
    debugfs -w -R "set_inode_field <2> mode 04$mode" ${EVENKEEL_PARTITIONS}/recorder.ext4
    debugfs -R 'stat <2>' ${EVENKEEL_PARTITIONS}/recorder.ext4 | grep -q "Mode:  $mode "
}

# The initramfs may be built by its own multiconfig, as in kernel.bbclass.
EVENKEEL_INITRAMFS = "${@d.getVar('INITRAMFS_DEPLOY_DIR_IMAGE') or d.getVar('DEPLOY_DIR_IMAGE')}/${INITRAMFS_IMAGE_NAME}"
# Kernel types that GRUB can load. A machine that boots by U-Boot alone often builds another
# type. Then the function below skips the recipe with a message at once; otherwise the build would
# fail after hours.
EVENKEEL_KERNEL_TYPES = "bzImage Image"
python () {
    initramfs, other = d.getVar('INITRAMFS_IMAGE'), d.getVar('INITRAMFS_MULTICONFIG')
    if initramfs and other:
        here = d.getVar('BB_CURRENT_MC')
        d.appendVarFlag('do_rootfs', 'mcdepends', ' mc:%s:%s:%s:do_image_complete'
                        % ('' if here == 'default' else here, other, initramfs))
    elif initramfs:
        d.appendVarFlag('do_rootfs', 'depends', ' %s:do_image_complete' % initramfs)
    if d.getVar('PARSE_ALL_RECIPES'):
        return
    names = ('KERNEL_IMAGETYPE', 'KERNEL_ALT_IMAGETYPE', 'KERNEL_IMAGETYPES')
    types = ' '.join(d.getVar(name) or '' for name in names).split()
    if types and not set(types) & set(d.getVar('EVENKEEL_KERNEL_TYPES').split()):
        raise bb.parse.SkipRecipe('GRUB loads a bzImage or an Image, but the kernel of %s is a %s: '
                                  'KERNEL_IMAGETYPES:append = " Image" builds one, too'
                                  % (d.getVar('MACHINE'), types[0]))
}

# This function runs after the last read of the package manager's database in /var, and before
# OE-Core sets the time stamps of the files to reproducible values.
IMAGE_PREPROCESS_COMMAND:prepend = "evenkeel_settle_rootfs "
evenkeel_settle_rootfs() {
    # Without evenkeel-board nothing confirms a slot, so the board would start the slots in turn, three times each.
    [ -e ${IMAGE_ROOTFS}${systemd_system_unitdir}/evenkeel-slot-good.service ] || bbfatal "the image has no evenkeel-board: install packagegroup-evenkeel or packagegroup-evenkeel-board"

    # Replace the files of base-files and netbase, which own these paths.
    for file in fstab hostname hosts; do
        install -m 0644 ${IMAGE_ROOTFS}${datadir}/evenkeel/etc/$file ${IMAGE_ROOTFS}${sysconfdir}/$file
    done
    ln -sf /proc/self/mounts ${IMAGE_ROOTFS}${sysconfdir}/mtab
    # Programs ask systemd-resolved, which also knows names in .local. OE-Core links a file without them.
    ln -sf ../run/systemd/resolve/stub-resolv.conf ${IMAGE_ROOTFS}${sysconfdir}/resolv.conf

    # The boot loader loads /boot/vmlinuz: make it a link to the kernel, whose name has type and version.
    kernel=
    for type in ${EVENKEEL_KERNEL_TYPES}; do
        [ -n "$kernel" ] || kernel=$(cd ${IMAGE_ROOTFS}/boot && ls | sed -n "/^$type-/{p;q}")
    done
    [ -n "$kernel" ] || bbfatal "the image has none of ${EVENKEEL_KERNEL_TYPES} in /boot: install kernel-image"
    ln -sf $kernel ${IMAGE_ROOTFS}/boot/vmlinuz

    # If the machine has an initramfs, its kernel needs it to find the medium, so install it. This also
    # applies to an initramfs that is bundled with the kernel: the packaged kernel does not contain it.
    if [ -n "${INITRAMFS_IMAGE}" ]; then
        initrd=
        for type in ${INITRAMFS_FSTYPES}; do
            file=${EVENKEEL_INITRAMFS}.$type
            if [ -z "$initrd" ] && [ -e $file ]; then initrd=$file; fi
        done
        [ -n "$initrd" ] || bbfatal "there is no ${INITRAMFS_IMAGE} of any type in INITRAMFS_FSTYPES (${INITRAMFS_FSTYPES}): ${EVENKEEL_INITRAMFS}.*"
        install -m 0644 $initrd ${IMAGE_ROOTFS}/boot/initrd
    fi

    # Create the mount points that preinit and fstab use: nothing else creates them.
    install -d ${IMAGE_ROOTFS}/data ${IMAGE_ROOTFS}/recorder ${IMAGE_ROOTFS}/bootstate

    # machine-id must exist and be empty. preinit fills it on the board. If it were missing,
    # systemd would take this for a first boot and apply all presets.
    : > ${IMAGE_ROOTFS}${sysconfdir}/machine-id

    # Empty /var of the image. On the board, systemd-tmpfiles creates the folders and files that
    # packages have in /var: at the first boot, and after an update that adds a package. It copies
    # files from the factory folder, and leaves existing ones alone. If do_image runs again on the same
    # root file system, /var is already empty, and this step does nothing.
    if [ -n "$(ls -A ${IMAGE_ROOTFS}${localstatedir})" ]; then
        made=${WORKDIR}/evenkeel-var.conf
        factory=${IMAGE_ROOTFS}${datadir}/factory${localstatedir}
        (
            cd ${IMAGE_ROOTFS}${localstatedir}
            odd=$(find . -name '*[[:space:]%]*' | head -n 1)
            [ -z "$odd" ] || bbfatal "${localstatedir}/$odd: tmpfiles.d cannot name a file with a space or a percent sign"
            # Delete files that belong to this build and not to a board. Paths are relative to /var,
            # so that no link in /var can lead outside the image
            find . -type f '(' -path './cache/*' -o -path './log/*' -o -path './tmp/*' -o -path './volatile/*' \
                -o -path './lib/apt/*' -o -path './lib/dnf/*' -o -path './lib/dpkg/*' -o -path './lib/opkg/*' -o -path './lib/rpm/*' ')' -delete
            if [ -n "$(find . -type f | head -n 1)" ]; then
                # mode 0700: a user who must not read a folder in /var must not read its copy either
                install -d -m 0700 $factory
                find . -type f > $made.files
                cpio -pdm --quiet $factory < $made.files
            fi
            find . -type f -printf 'C ${localstatedir}/%P %#m %U %G -\n'
            find . -mindepth 1 -type d -printf 'd ${localstatedir}/%P %#m %U %G -\n'
            find . -mindepth 1 -type l -printf 'L ${localstatedir}/%P - - - - %l\n'
        ) > $made
        sort $made > ${IMAGE_ROOTFS}${nonarch_libdir}/tmpfiles.d/evenkeel-var.conf
        find ${IMAGE_ROOTFS}${localstatedir} -mindepth 1 -delete
    fi

    # Other contents have another identity, also if the version is the same: slot-good then knows that they are
    # new. This may also run twice on the same root file system.
    release=${IMAGE_ROOTFS}${nonarch_libdir}/os-release
    [ -e $release ] || bbfatal "the image has no ${nonarch_libdir}/os-release, and without it no slot is confirmed: install os-release"
    sed -i '/^BUILD_ID=/d' $release
    identity=$(tar -C ${IMAGE_ROOTFS} --sort=name --mtime=@0 --numeric-owner -cf - . | sha256sum | cut -c1-16)
    echo "BUILD_ID=$identity" >> $release
}
