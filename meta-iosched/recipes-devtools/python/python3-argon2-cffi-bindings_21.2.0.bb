# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Low-level CFFI bindings for Argon2"
DESCRIPTION = "Bindings to the Argon2 password hash; they contain the library's source."
HOMEPAGE = "https://github.com/hynek/argon2-cffi-bindings"
SECTION = "devel/python"
# The bindings are MIT. The library is CC0 or Apache-2.0.
LICENSE = "MIT & (CC0-1.0 | Apache-2.0)"
LIC_FILES_CHKSUM = "\
    file://LICENSE;md5=4642dfcbd13c1cc49e9f99df9de51ba1 \
    file://extras/libargon2/LICENSE;md5=97ba219b479900241a90026f4d22b403 \
"

inherit pypi python_setuptools_build_meta

# the library's name in the CVE database
CVE_PRODUCT:append = " argon2"

SRC_URI[sha256sum] = "bb89ceffa6c791807d1305ceb77dbfacc5aa499891d2c55661c6459651fc39e3"

# Set whether the target has SSE2. Without this, setup.py would test the build machine.
export ARGON2_CFFI_USE_SSE2 = "0"
ARGON2_CFFI_USE_SSE2:x86-64 = "1"

DEPENDS += "python3-cffi-native python3-setuptools-scm-native"
RDEPENDS:${PN} = "python3-cffi python3-core"
