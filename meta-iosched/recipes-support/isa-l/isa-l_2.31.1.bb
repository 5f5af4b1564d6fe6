# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Intelligent Storage Acceleration Library"
SUMMARY:igzip = "gzip with the CPU's vector instructions"
DESCRIPTION = "\
    Checksums, erasure codes and compression for storage, with the CPU's vector \
    instructions. The recorder takes CRC-32C from it. \
"
HOMEPAGE = "https://github.com/intel/isa-l"
SECTION = "libs"
LICENSE = "BSD-3-Clause"
LIC_FILES_CHKSUM = "file://LICENSE;md5=2476688d0948d4a3f7c69473a603540d"

DEPENDS:append:x86-64 = " nasm-native"

# in a folder that both the series with WORKDIR and those with UNPACKDIR look into
SRC_URI = "git://github.com/intel/isa-l.git;protocol=https;nobranch=1;destsuffix=${BP}"
SRCREV = "c387163fcbca62701d646149564c550c78a4f985"

inherit autotools pkgconfig

# the igzip command
PACKAGE_BEFORE_PN = "igzip"
FILES:igzip = "${bindir}/igzip"

COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
