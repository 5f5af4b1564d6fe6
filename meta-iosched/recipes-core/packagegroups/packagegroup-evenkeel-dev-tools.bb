# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Tools to look into an Evenkeel board"
DESCRIPTION = "\
    The flash model, block traces, system calls, I/O of any kind and as a board's apps do it. \
    For development images. \
"

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup evenkeel_layers

# as flashsim-module
EXCLUDE_FROM_WORLD = "1"
COMPATIBLE_HOST = "(x86_64|aarch64|riscv64|powerpc64|loongarch64).*-linux"

EVENKEEL_LAYERS = "openembedded-layer"

RDEPENDS:${PN} = "\
    blktrace \
    evenkeel-loads \
    fio \
    flashsim-module \
    strace \
"
