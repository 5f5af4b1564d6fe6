# SPDX-License-Identifier: Apache-2.0
# Classes look for Python at a path of its own; Debian's there is the board's
# version, too, so that its byte code fits.
SUMMARY = "The build machine's Python where OE-Core's classes look"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COREBASE}/meta/files/common-licenses/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"
inherit native
S = "${UNPACKDIR}"

do_install() {
	install -d ${D}${bindir}/python3-native
	printf '#!/bin/sh\nexec /usr/bin/python3 "$@"\n' > ${D}${bindir}/python3-native/python3
	chmod 0755 ${D}${bindir}/python3-native/python3
}
