# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Fast serialization and validation for Python"
DESCRIPTION = "The agent defines its schema by msgspec structs, which give D-Bus signatures, JSON, OpenAPI and validation."
HOMEPAGE = "https://jcristharif.com/msgspec/"
SECTION = "devel/python"
LICENSE = "BSD-3-Clause"
LIC_FILES_CHKSUM = "file://LICENSE;md5=c21402f8022478021f697044388b97c4"

inherit pypi setuptools3

SRC_URI[sha256sum] = "604037e7cd475345848116e89c553aa9a233259733ab51986ac924ab1b976f8e"

RDEPENDS:${PN} = "\
    python3-core \
    python3-datetime \
    python3-json \
    python3-numbers \
"
