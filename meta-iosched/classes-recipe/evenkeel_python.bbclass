# SPDX-License-Identifier: Apache-2.0
# For a component whose meson.build installs Python modules. The class installs the
# modules in the search path of the target's Python. It also installs their byte code,
# because the board's root is read-only, so Python could not save byte code there.
# unchecked-hash: Python uses the byte code without comparing it with the time stamp of its
# source, because the build of an image changes that time stamp.
inherit meson python3native

EXTRA_OEMESON += "-Dpython.purelibdir=${PYTHON_SITEPACKAGES_DIR}"

do_install:append() {
    ${PYTHON} -m compileall -q -f --invalidation-mode unchecked-hash -s ${D} -p / ${D}${PYTHON_SITEPACKAGES_DIR}
}
