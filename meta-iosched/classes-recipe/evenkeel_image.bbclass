# SPDX-License-Identifier: Apache-2.0
# An image with Evenkeel's partitions: two read-only slots, bootstate, recorder,
# data. For a product's own image: inherit it beside core-image and install
# packagegroup-evenkeel, or of it packagegroup-evenkeel-board and -panel: a slot is
# confirmed when agent, panel and web server run. Sizes in MiB; together they end
# below what a "4 GB" eMMC has.
EVENKEEL_ROOT_MB ?= "640"
EVENKEEL_RECORDER_MB ?= "640"
EVENKEEL_DATA_MB ?= "1536"

inherit features_check
REQUIRED_DISTRO_FEATURES += "systemd usrmerge"

IMAGE_FEATURES += "read-only-rootfs"

# the journal is what keeps messages: a second daemon would write them to the flash again
# (apt knows what is not to be installed, not what is not recommended)
BAD_RECOMMENDATIONS:append = "${@'' if d.getVar('IMAGE_PKGTYPE') == 'deb' else ' busybox-syslog'}"
PACKAGE_EXCLUDE:append = "${@' busybox-syslog' if d.getVar('IMAGE_PKGTYPE') == 'deb' else ''}"

# a slot: what an update writes. GRUB reads it (the two options), nobody writes
# to it (no journal), and one that does not fit fails here and not on the board
IMAGE_FSTYPES = "ext4 wic wic.bmap"
IMAGE_ROOTFS_SIZE = "${@int(d.getVar('EVENKEEL_ROOT_MB')) * 1024}"
IMAGE_ROOTFS_EXTRA_SPACE = "0"
IMAGE_ROOTFS_MAXSIZE = "${IMAGE_ROOTFS_SIZE}"
IMAGE_OVERHEAD_FACTOR = "1.0"
# UUID and hash_seed as in recipes/image/build: the same files give the same bytes.
# What is lazy about inode tables would hang on the kernel of who builds
EXTRA_IMAGECMD:ext4 = "-m 0 -L root -O ^has_journal,^metadata_csum_seed,^orphan_file \
                       -U e7e2ee10-0000-4000-8000-0000000000f1 -E hash_seed=e7e2ee10-0000-4000-8000-0000000000f1,lazy_itable_init=0"
# mke2fs and debugfs know SOURCE_DATE_EPOCH since 1.47.1 (scarthgap has 1.47.0), and
# e2fsck does not: the same time by the names that they know
export E2FSPROGS_FAKE_TIME = "${SOURCE_DATE_EPOCH}"
export E2FSCK_TIME = "${SOURCE_DATE_EPOCH}"
# The times of access and change of each file, of which whoever reads the tree moves
# the one, and nobody can set the other: mke2fs caps them since 1.47.1, and copies them
# before. It takes a second, so that all series do it alike
IMAGE_CMD:append:ext4 = " ; evenkeel_settle_times"
evenkeel_settle_times() {
    find ${IMAGE_ROOTFS} -printf 'set_inode_field "/%P" atime @${SOURCE_DATE_EPOCH}\nset_inode_field "/%P" ctime @${SOURCE_DATE_EPOCH}\n' |
        debugfs -w -f - ${IMGDEPLOYDIR}/${IMAGE_NAME}.ext4 > /dev/null
}

EVENKEEL_LAYERDIR[vardepvalue] = "evenkeel"
WKS_SEARCH_PATH:append = ":${EVENKEEL_LAYERDIR}/files/wic"
# a name of its own, as machines set WKS_FILE for images of theirs
EVENKEEL_WKS_FILE ?= "evenkeel.wks.in"
WKS_FILE = "${EVENKEEL_WKS_FILE}"
# whatever the machine has, with overrides of its own
WKS_FILES:forcevariable = "${EVENKEEL_WKS_FILE}"
# each partition is a file that is there: no boot loaders nor tools of other file systems
WKS_FILE_DEPENDS ?= "bmaptool-native e2fsprogs-native"
# wic is no override: image.bbclass reads a variable of that name, to which what a machine has is kept
# nooelint: oelint.vars.overrideappend
IMAGE_TYPEDEP:wic:append = " ext4"
do_image_wic[depends] += "evenkeel-bootloader:do_deploy e2fsprogs-native:do_populate_sysroot"

# partitions that are empty on a new board
EVENKEEL_PARTITIONS = "${WORKDIR}/evenkeel-partitions"
do_image_wic[prefuncs] += "evenkeel_make_partitions"
do_image_wic[vardeps] += "EVENKEEL_ROOT_MB EVENKEEL_RECORDER_MB EVENKEEL_DATA_MB"
evenkeel_make_partitions() {
    rm -rf ${EVENKEEL_PARTITIONS}
    mkdir -p ${EVENKEEL_PARTITIONS}
    ln -s ${IMGDEPLOYDIR}/${IMAGE_LINK_NAME}.ext4 ${EVENKEEL_PARTITIONS}/root.ext4
    mke2fs -q -t ext4 -m 0 -L data -U e7e2ee10-0000-4000-8000-0000000000f4 \
        -E hash_seed=e7e2ee10-0000-4000-8000-0000000000f4,lazy_itable_init=0,nodiscard,root_owner=0:0 \
        -O ^metadata_csum_seed,^orphan_file ${EVENKEEL_PARTITIONS}/data.ext4 ${EVENKEEL_DATA_MB}M
    # The options are conf's; mke2fs takes one -E only. root_perms is new in e2fsprogs
    # 1.47.1, and scarthgap has 1.47.0: the mode is set afterwards, in every series alike
    options=${IMAGE_ROOTFS}${nonarch_libdir}/evenkeel/mkfs/recorder
    mode=$(sed -n 's/^-E .*,root_perms=\([0-7]*\).*/\1/p' $options)
    sed -e '/^#/d' -e 's/,root_perms=[0-7]*//' -e 's/^-E /-E hash_seed=e7e2ee10-0000-4000-8000-0000000000f3,nodiscard,/' $options |
        xargs mke2fs -q -t ext4 -U e7e2ee10-0000-4000-8000-0000000000f3 -L recorder \
            ${EVENKEEL_PARTITIONS}/recorder.ext4 ${EVENKEEL_RECORDER_MB}M
    # debugfs succeeds whatever happened
    debugfs -w -R "set_inode_field <2> mode 04$mode" ${EVENKEEL_PARTITIONS}/recorder.ext4
    debugfs -R 'stat <2>' ${EVENKEEL_PARTITIONS}/recorder.ext4 | grep -q "Mode:  $mode "
}

# an initramfs may be built by a configuration of its own, as the kernel's class has it
EVENKEEL_INITRAMFS = "${@d.getVar('INITRAMFS_DEPLOY_DIR_IMAGE') or d.getVar('DEPLOY_DIR_IMAGE')}/${INITRAMFS_IMAGE_NAME}"
# What is wrong is said before hours of building. A machine whose boot loader is U-Boot alone often has another.
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
        raise bb.parse.SkipRecipe('GRUB loads a bzImage or an Image, and the kernel of %s is a %s: '
                                  'KERNEL_IMAGETYPES:append = " Image" makes that, too'
                                  % (d.getVar('MACHINE'), types[0]))
}

# After the package manager's data base in /var was read for the last time, and
# before times of files are made reproducible.
IMAGE_PREPROCESS_COMMAND:prepend = "evenkeel_settle_rootfs "
evenkeel_settle_rootfs() {
    # A slot that is never confirmed boots three times, and then the board goes back: an
    # image without what the confirmation asks for is told here. Not where the product
    # has the unit replaced or masked; a drop-in could not take a Requisite= away
    good=evenkeel-slot-good.service
    units=${IMAGE_ROOTFS}${systemd_system_unitdir}
    own=${IMAGE_ROOTFS}${sysconfdir}/systemd/system
    [ -e $units/$good ] || bbfatal "the image has no evenkeel-board: install packagegroup-evenkeel, or packagegroup-evenkeel-board and packagegroup-evenkeel-panel"
    if [ ! -e $own/$good ] && [ ! -L $own/$good ]; then
        for unit in $(sed -n 's/^Requisite=//p' $units/$good); do
            [ -e $units/$unit ] || [ -e $own/$unit ] || bbfatal "the image has no $unit, without which $good confirms no slot: install packagegroup-evenkeel-panel, or change what it asks for (docs/yocto.md)"
        done
    fi

    # files that base-files and netbase own on other images
    for file in fstab hostname hosts; do
        install -m 0644 ${IMAGE_ROOTFS}${datadir}/evenkeel/etc/$file ${IMAGE_ROOTFS}${sysconfdir}/$file
    done
    ln -sf /proc/self/mounts ${IMAGE_ROOTFS}${sysconfdir}/mtab

    # the name that the boot loader knows, whatever the type and version
    kernel=
    for type in ${EVENKEEL_KERNEL_TYPES}; do
        [ -n "$kernel" ] || kernel=$(cd ${IMAGE_ROOTFS}/boot && ls | sed -n "/^$type-/{p;q}")
    done
    [ -n "$kernel" ] || bbfatal "the image has none of ${EVENKEEL_KERNEL_TYPES} in /boot: install kernel-image"
    ln -sf $kernel ${IMAGE_ROOTFS}/boot/vmlinuz

    # An initramfs, where the machine's kernel needs one to find its medium. Also
    # where it is bundled: the kernel that is packaged is the one without it.
    if [ -n "${INITRAMFS_IMAGE}" ]; then
        initrd=
        for type in ${INITRAMFS_FSTYPES}; do
            file=${EVENKEEL_INITRAMFS}.$type
            if [ -z "$initrd" ] && [ -e $file ]; then initrd=$file; fi
        done
        [ -n "$initrd" ] || bbfatal "there is no ${INITRAMFS_IMAGE} of a type in INITRAMFS_FSTYPES (${INITRAMFS_FSTYPES}): ${EVENKEEL_INITRAMFS}.*"
        install -m 0644 $initrd ${IMAGE_ROOTFS}/boot/initrd
    fi

    # mount points; what preinit and fstab mount is nowhere else created
    install -d ${IMAGE_ROOTFS}/data ${IMAGE_ROOTFS}/recorder ${IMAGE_ROOTFS}/bootstate

    # Empty: preinit fills it on the board. Missing would mean "first boot", and
    # systemd would apply all presets there.
    : > ${IMAGE_ROOTFS}${sysconfdir}/machine-id

    # /var starts empty, on the first boot as after an update that brings a new
    # package: systemd-tmpfiles makes what packages would have put there, files as copies
    # of those below factory, where the board has none. do_image may
    # run again on the same root file system, where all that is done already.
    if [ -n "$(ls -A ${IMAGE_ROOTFS}${localstatedir})" ]; then
        made=${WORKDIR}/evenkeel-var.conf
        factory=${IMAGE_ROOTFS}${datadir}/factory${localstatedir}
        (
            cd ${IMAGE_ROOTFS}${localstatedir}
            odd=$(find . -name '*[[:space:]%]*' | head -n 1)
            [ -z "$odd" ] || bbfatal "${localstatedir}/$odd: tmpfiles.d cannot name a file with a space or a percent sign"
            # of this build, and no board's. From here, so that no link leads anywhere else
            find . -type f '(' -path './cache/*' -o -path './log/*' -o -path './tmp/*' -o -path './volatile/*' \
                -o -path './lib/apt/*' -o -path './lib/dnf/*' -o -path './lib/dpkg/*' -o -path './lib/opkg/*' -o -path './lib/rpm/*' ')' -delete
            if [ -n "$(find . -type f | head -n 1)" ]; then
                # whoever may not read a folder in /var may not read its copy
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
}
