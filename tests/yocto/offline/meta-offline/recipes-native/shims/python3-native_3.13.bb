# SPDX-License-Identifier: Apache-2.0
# OE-Core's classes call Python at a fixed path in the sysroot. The build machine's
# Python has the same version as the board's, so its byte code fits.
SUMMARY = "The build machine's Python, at the path that OE-Core's classes use"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COREBASE}/meta/files/common-licenses/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"
inherit native
S = "${UNPACKDIR}"

do_install() {
	install -d ${D}${bindir}/python3-native
	printf '#!/bin/sh\nexec /usr/bin/python3 "$@"\n' > ${D}${bindir}/python3-native/python3
	chmod 0755 ${D}${bindir}/python3-native/python3
}
