# SPDX-License-Identifier: Apache-2.0
# For a room whose meson.build installs Python modules: they go where the
# target's Python looks, compiled. The root is read-only, so byte code that is
# not there could never be kept; "unchecked": it is taken without a look at the
# source's time, which an image build clamps.
inherit meson python3native

EXTRA_OEMESON += "-Dpython.purelibdir=${PYTHON_SITEPACKAGES_DIR}"

do_install:append() {
    ${PYTHON} -m compileall -q -f --invalidation-mode unchecked-hash -s ${D} -p / ${D}${PYTHON_SITEPACKAGES_DIR}
}
