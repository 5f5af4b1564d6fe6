# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Rate limits with several storage backends"
DESCRIPTION = "Flask-Limiter counts with it; the panel keeps the counters in memory only."
HOMEPAGE = "https://limits.readthedocs.io"
SECTION = "devel/python"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE.txt;md5=2455d5e574bc0fc489411ca45766ac78"

inherit pypi setuptools3 evenkeel_layers

EVENKEEL_LAYERS = "meta-python"
SRC_URI[sha256sum] = "d602ceae5d6b71063d5f9338904e32d569efaa84a7dd0399cde7ca6ff1a8fc9b"

RDEPENDS:${PN} = "\
    python3-asyncio \
    python3-core \
    python3-datetime \
    python3-deprecated \
    python3-json \
    python3-packaging \
    python3-typing-extensions \
"
