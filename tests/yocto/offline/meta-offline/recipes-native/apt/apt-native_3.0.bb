# SPDX-License-Identifier: Apache-2.0
# Settings for apt and dpkg, by which OE-Core assembles a root file system from .deb
# packages. The programs apt and dpkg are the build machine's.
SUMMARY = "Settings of apt to assemble a root file system"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COREBASE}/meta/files/common-licenses/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"
SRC_URI = "file://apt.conf.sample"
S = "${UNPACKDIR}"
inherit native

do_install() {
	# OE-Core fills in the other paths when it builds a root file system.
	install -d ${D}${sysconfdir}/apt ${D}${localstatedir}/lib/apt ${D}${localstatedir}/log/apt ${D}${localstatedir}/cache/apt/archives/partial
	sed -e 's|@STATE@|${localstatedir}|' ${UNPACKDIR}/apt.conf.sample \
		> ${D}${sysconfdir}/apt/apt.conf.sample
	touch ${D}${localstatedir}/lib/apt/.keep ${D}${localstatedir}/log/apt/.keep ${D}${localstatedir}/cache/apt/archives/partial/.keep
}
SSTATE_SCAN_FILES += "apt.conf.sample"
