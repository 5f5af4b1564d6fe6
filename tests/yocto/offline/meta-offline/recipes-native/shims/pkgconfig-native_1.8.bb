# SPDX-License-Identifier: Apache-2.0
# Kbuild and meson call this program to find libraries of the build machine. It runs
# the build machine's pkg-config.
SUMMARY = "pkg-config without the target's sysroot"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COREBASE}/meta/files/common-licenses/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"
inherit native
S = "${UNPACKDIR}"

do_install() {
	install -d ${D}${bindir}
	cat > ${D}${bindir}/pkg-config-native << 'END'
#!/bin/sh
unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSTEM_LIBRARY_PATH PKG_CONFIG_SYSTEM_INCLUDE_PATH
exec pkg-config "$@"
END
	chmod 0755 ${D}${bindir}/pkg-config-native
}
