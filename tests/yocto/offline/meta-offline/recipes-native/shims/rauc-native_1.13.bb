# SPDX-License-Identifier: Apache-2.0
# meta-rauc's bundle class calls rauc by its path in the sysroot.
SUMMARY = "The build machine's rauc, at the path that meta-rauc uses"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COREBASE}/meta/files/common-licenses/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"
inherit native
S = "${UNPACKDIR}"

do_install() {
	install -d ${D}${bindir}
	printf '#!/bin/sh\nexec /usr/bin/rauc "$@"\n' > ${D}${bindir}/rauc
	chmod 0755 ${D}${bindir}/rauc
}
