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
SRC_URI = "git://github.com/intel/isa-l.git;protocol=https;branch=master;destsuffix=${BP}"
SRCREV = "c387163fcbca62701d646149564c550c78a4f985"

inherit autotools pkgconfig

# configure takes AS for the assembler, and BitBake's is binutils', which cannot
# read these sources: empty, it finds nasm. It also sets LDFLAGS to its own; the
# distribution's win, and a stack that may be executed stays out with both
EXTRA_OECONF:append:x86-64 = " AS="
EXTRA_OEMAKE += "'LDFLAGS=${LDFLAGS} -Wl,-z,noexecstack'"

# the igzip command
PACKAGE_BEFORE_PN = "igzip"
FILES:igzip = "${bindir}/igzip"

COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
