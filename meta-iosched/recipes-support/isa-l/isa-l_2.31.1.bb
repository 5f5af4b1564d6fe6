# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Intelligent Storage Acceleration Library"
SUMMARY:igzip = "gzip with the CPU's vector instructions"
DESCRIPTION = "\
    Checksums, erasure codes and compression for storage, with the CPU's vector \
    instructions. The recorder uses its CRC-32C. \
"
HOMEPAGE = "https://github.com/intel/isa-l"
SECTION = "libs"
LICENSE = "BSD-3-Clause"
LIC_FILES_CHKSUM = "file://LICENSE;md5=2476688d0948d4a3f7c69473a603540d"

DEPENDS:append:x86-64 = " nasm-native"

# destsuffix=${BP}: git is unpacked to the default of S, both in series with UNPACKDIR and in those without
SRC_URI = "git://github.com/intel/isa-l.git;protocol=https;branch=master;destsuffix=${BP}"
SRCREV = "c387163fcbca62701d646149564c550c78a4f985"

inherit autotools pkgconfig

# configure uses the assembler that AS names. BitBake sets AS to the assembler of binutils, which
# cannot assemble these sources. If AS is empty, configure finds nasm.
# configure also replaces LDFLAGS. EXTRA_OEMAKE restores the distribution's LDFLAGS, and keeps
# the stack non-executable.
EXTRA_OECONF:append:x86-64 = " AS="
EXTRA_OEMAKE += "'LDFLAGS=${LDFLAGS} -Wl,-z,noexecstack'"

# the igzip command
PACKAGE_BEFORE_PN = "igzip"
FILES:igzip = "${bindir}/igzip"

COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
