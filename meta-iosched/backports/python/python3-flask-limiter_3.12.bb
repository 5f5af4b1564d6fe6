# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Rate limits for Flask"
DESCRIPTION = "The panel uses it to limit how often a password may be tried."
HOMEPAGE = "https://flask-limiter.readthedocs.io"
SECTION = "devel/python"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE.txt;md5=2455d5e574bc0fc489411ca45766ac78"

PYPI_PACKAGE = "flask_limiter"

inherit pypi setuptools3 evenkeel_layers

EVENKEEL_LAYERS = "meta-python"
SRC_URI[sha256sum] = "f9e3e3d0c4acd0d1ffbfa729e17198dd1042f4d23c130ae160044fc930e21300"

RDEPENDS:${PN} = "\
    python3-core \
    python3-datetime \
    python3-flask \
    python3-json \
    python3-limits \
    python3-logging \
    python3-ordered-set \
    python3-rich \
    python3-typing-extensions \
"
