# SPDX-License-Identifier: Apache-2.0
SUMMARY = "One-time passwords for Python"
DESCRIPTION = "The agent uses it to check the codes of authenticator apps (RFC 6238)."
HOMEPAGE = "https://pyauth.github.io/pyotp/"
SECTION = "devel/python"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE;md5=f4889ab24aecac0a410d83c0323f9daf"

inherit pypi setuptools3

SRC_URI[sha256sum] = "346b6642e0dbdde3b4ff5a930b664ca82abfa116356ed48cc42c7d6590d36f63"

RDEPENDS:${PN} = "\
    python3-core \
    python3-crypt \
    python3-datetime \
    python3-netclient \
"
