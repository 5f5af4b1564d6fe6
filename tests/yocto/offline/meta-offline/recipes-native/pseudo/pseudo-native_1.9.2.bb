# SPDX-License-Identifier: Apache-2.0
# OE-Core's recipe fetches from git and needs a prebuilt archive. Debian's archive has the source of a later release.
SUMMARY = "Lets tasks set file owners and modes like root"
HOMEPAGE = "https://git.yoctoproject.org/pseudo/"
LICENSE = "LGPL-2.1-only"
LIC_FILES_CHKSUM = "file://COPYING;md5=a1d8023a6f953ac6ea4af765ff62d574"
SRC_URI = "${DEBIAN_MIRROR}/main/p/pseudo/pseudo_1.9.2+git20250711+d1db9c219abf.orig.tar.xz \
           file://fallback-passwd \
           file://fallback-group \
           "
SRC_URI[sha256sum] = "4bb3b20e2e487db4d0668f5be7269d6e48556f1c73e1ee37a08ce4e734f30053"
FILESEXTRAPATHS:prepend := "${COREBASE}/meta/recipes-devtools/pseudo/files:"
S = "${UNPACKDIR}/pseudo-1.9.2+git20250711+d1db9c219abf"
B = "${S}"
inherit native
PROVIDES += "virtual/fakeroot-native"

do_configure() {
	./configure --enable-force-async --without-passwd-fallback --enable-epoll --enable-xattr \
		--prefix=${prefix} --libdir=${prefix}/lib/pseudo/lib64 --bits=64 --cflags="${CFLAGS}" \
		--with-sqlite=/usr --with-sqlite-lib=lib/x86_64-linux-gnu --without-rpath
}
do_compile() {
	oe_runmake
}
do_install() {
	oe_runmake DESTDIR=${D} LIB=lib/pseudo/lib64 install
	install -D -m 444 ${UNPACKDIR}/fallback-passwd ${D}${sysconfdir}/passwd
	install -D -m 444 ${UNPACKDIR}/fallback-group ${D}${sysconfdir}/group
}
