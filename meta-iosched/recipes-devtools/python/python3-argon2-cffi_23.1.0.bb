# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Argon2 for Python"
DESCRIPTION = "The Argon2 password hash with safe defaults; the panel stores passwords with it."
HOMEPAGE = "https://argon2-cffi.readthedocs.io"
SECTION = "devel/python"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE;md5=e91e96ef55f45fe9caf7fc3e73672c4b"

PYPI_PACKAGE = "argon2_cffi"

inherit pypi python_hatchling

SRC_URI[sha256sum] = "879c3e79a2729ce768ebb7d36d4609e3a78a4ca2ec3a9f12286ca057e3d0db08"

DEPENDS += "python3-hatch-fancy-pypi-readme-native python3-hatch-vcs-native"
RDEPENDS:${PN} = "python3-argon2-cffi-bindings python3-core"
