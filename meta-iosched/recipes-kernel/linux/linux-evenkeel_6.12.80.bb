# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Linux for an Evenkeel board"
DESCRIPTION = "\
    An unpatched long-term kernel with exactly the options of conf/kernel, for x86-64. \
    'make kernel' builds the same kernel. \
"
HOMEPAGE = "https://www.kernel.org"
SECTION = "kernel"
LICENSE = "GPL-2.0-only"
LIC_FILES_CHKSUM = "file://COPYING;md5=6bc538ed5bd9a7fc9398086aedcd7e46"

DEPENDS += "elfutils-native openssl-native"

inherit kernel evenkeel_src

LINUX_VERSION ?= "6.12.80"
PV = "${LINUX_VERSION}"

# To use another tarball of this release, set these two variables. A URI to be downloaded must end in ";name=linux",
# which ties it to the checksum. For another release, also set LINUX_VERSION. If the tarball unpacks to another folder,
# also set S.
LINUX_URI ?= "https://cdn.kernel.org/pub/linux/kernel/v6.x/linux-${LINUX_VERSION}.tar.xz;name=linux"
LINUX_SHA256SUM ?= "c92591d896e79ecddbc3319136f0c2f855e832b397de7593f013ad7590a43e53"
SRC_URI += "${LINUX_URI}"
SRC_URI[linux.sha256sum] = "${LINUX_SHA256SUM}"
S = "${EVENKEEL_UNPACKDIR}/linux-${LINUX_VERSION}"

# the name of a line of conf/kernel/variants; an image boots only with board and
# board-debug (KASAN, lockdep)
EVENKEEL_KERNEL_VARIANT ?= "board"
EVENKEEL_PATHS = "conf/kernel recipes/kernel/src/fragment recipes/kernel/src/check-config"
KERNEL_LOCALVERSION = "-evenkeel"

# The .cfg files that a product's append adds to SRC_URI, as for linux-yocto. Their options
# override the options of conf/kernel.
EVENKEEL_KERNEL_FRAGMENTS ?= "${@evenkeel_kernel_fragments(d)}"
def evenkeel_kernel_fragments(d):
    names = (url.split(';')[0] for url in d.getVar('SRC_URI').split())
    return ' '.join('%s/%s' % (d.getVar('EVENKEEL_UNPACKDIR'), name[len('file://'):])
                    for name in names if name.startswith('file://') and name.endswith('.cfg'))

COMPATIBLE_HOST = "x86_64.*-linux"

# As in recipes/kernel/src/build: an option that no fragment sets is off, unless Kconfig needs it
# for an option that is on. If Kconfig drops an option of a fragment, the build fails.
KERNEL_CONFIG_COMMAND = "evenkeel_configure_kernel"
evenkeel_configure_kernel() {
    line=$(grep "^${EVENKEEL_KERNEL_VARIANT} x86:" ${EVENKEEL_S}/conf/kernel/variants) ||
        bbfatal "conf/kernel/variants has no variant ${EVENKEEL_KERNEL_VARIANT} for x86"
    mkdir -p ${B}/conf
    : > ${B}/conf/product.sed
    for name in ${EVENKEEL_KERNEL_FRAGMENTS}; do
        sed -n -e 's|^\(CONFIG_[A-Za-z0-9_]*\)=.*|/^\1=/d|p' \
            -e 's|^# \(CONFIG_[A-Za-z0-9_]*\) is not set$|/^\1=/d|p' $name >> ${B}/conf/product.sed
    done
    fragments=
    for name in ${line#*:}; do
        ${EVENKEEL_S}/recipes/kernel/src/fragment ${LINUX_VERSION} ${EVENKEEL_S}/conf/kernel/$name.cfg > ${B}/conf/$name.cfg
        sed -i -f ${B}/conf/product.sed ${B}/conf/$name.cfg
        fragments="$fragments ${B}/conf/$name.cfg"
    done
    fragments="$fragments ${EVENKEEL_KERNEL_FRAGMENTS}"
    cat $fragments > ${B}/fragments
    KCONFIG_ALLCONFIG=${B}/fragments oe_runmake_call -C ${S} CC="${KERNEL_CC}" LD="${KERNEL_LD}" O=${B} allnoconfig
    ${EVENKEEL_S}/recipes/kernel/src/check-config ${B}/.config $fragments
}
