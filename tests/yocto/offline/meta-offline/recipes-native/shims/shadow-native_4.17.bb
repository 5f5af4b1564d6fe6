# SPDX-License-Identifier: Apache-2.0
# useradd.bbclass passes --root. Debian's programs then call chroot, after which they
# cannot write as pseudo's root. --prefix names the same files without chroot.
SUMMARY = "The build machine's useradd and groupadd for another root"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COREBASE}/meta/files/common-licenses/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"
inherit native
S = "${UNPACKDIR}"

do_install() {
	install -d ${D}${bindir}
	for program in groupadd useradd usermod; do
		cat > ${D}${bindir}/$program << END
#!/bin/sh
[ "\$1" != --root ] || { shift; set -- --prefix "\$@"; }
exec /usr/sbin/$program "\$@"
END
		chmod 0755 ${D}${bindir}/$program
	done
}
