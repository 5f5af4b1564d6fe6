# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Development tools for an Evenkeel board"
DESCRIPTION = "\
    The flash model, block and system call tracing, fio, and programs that load a device \
    like the apps of a board. For development images. \
"

PACKAGE_ARCH = "${MACHINE_ARCH}"

inherit packagegroup evenkeel_layers

# Excluded from world builds, because it needs flashsim-module, which is excluded, too.
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
