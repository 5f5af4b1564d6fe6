# SPDX-License-Identifier: Apache-2.0
# For a component whose meson.build installs Python modules. The modules are
# installed in the search path of the target's Python, with their byte code: the
# root is read-only, so Python could not save byte code on the board.
# "unchecked": Python uses the byte code without comparing the time of the
# source, because an image build changes that time.
inherit meson python3native

EXTRA_OEMESON += "-Dpython.purelibdir=${PYTHON_SITEPACKAGES_DIR}"

do_install:append() {
    ${PYTHON} -m compileall -q -f --invalidation-mode unchecked-hash -s ${D} -p / ${D}${PYTHON_SITEPACKAGES_DIR}
}
