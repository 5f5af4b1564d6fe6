# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Frequent passwords and words that Evenkeel's agent refuses"
DESCRIPTION = "\
    The agent refuses these passwords, also with digits and signs around them. The list is made from the \
    lists of zxcvbn. Without this package, only the rules of the agent apply. \
"
HOMEPAGE = "https://github.com/dwolfhub/zxcvbn-python"
SECTION = "admin"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE.txt;md5=3bcfaef208b2324b170691f910ed3f40"

PYPI_PACKAGE = "zxcvbn"
EVENKEEL_PATHS = "recipes/agent/src/frequent-passwords"

inherit allarch evenkeel_src pypi python3native

SRC_URI[sha256sum] = "70392c0fff39459d7f55d0211151401e79e76fcc6e2c22b61add62900359c7c1"

do_configure[noexec] = "1"

do_compile() {
    # It reads the lists of zxcvbn, and executes nothing of it.
    ${PYTHON} ${EVENKEEL_S}/recipes/agent/src/frequent-passwords ${S}/zxcvbn/frequency_lists.py ${B}/frequent-passwords
}

do_install() {
    install -d ${D}${datadir}/evenkeel-agent
    install -m 0644 ${B}/frequent-passwords ${D}${datadir}/evenkeel-agent/
    # the licence requires that a copy of it comes with the list
    install -m 0644 ${S}/LICENSE.txt ${D}${datadir}/evenkeel-agent/frequent-passwords.LICENSE
}

FILES:${PN} = "${datadir}/evenkeel-agent"
