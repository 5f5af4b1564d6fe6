# SPDX-License-Identifier: Apache-2.0
# For recipes of components. A component is a folder of the repository with its own build
# file. EVENKEEL_COMPONENT is the path of this folder.
inherit evenkeel_src

SECTION ?= "base"
LICENSE ?= "Apache-2.0"
LIC_FILES_CHKSUM ?= "file://${EVENKEEL_S}/LICENSES/Apache-2.0.txt;md5=3b83ef96387f14655fc854ddc3c6bd57"

# All components have the same version (layer.conf). When the file VERSION changes, BitBake parses the recipe again.
PV = "${EVENKEEL_VERSION}"
python () {
    bb.parse.mark_dependency(d, d.getVar('EVENKEEL_VERSION_FILE'))
}
# If the source is fetched from git, the commit is part of the package version.
PV:append = "${@'' if d.getVar('EVENKEEL_SRC') else '+git'}"
# No component runs a program of the target while it is built, so QEMU is not needed.
EXEWRAPPER_ENABLED = "False"

# The paths include the file VERSION, because each meson.build reads it.
EVENKEEL_PATHS ?= "${EVENKEEL_COMPONENT} LICENSES VERSION"
S = "${EVENKEEL_S}/${EVENKEEL_COMPONENT}"

# The same files must give the same bytes in every clone. For local sources, OE-Core writes the time of the
# newest file into SDE_FILE. In a clone this is the time of the checkout. So this function, which runs after
# OE-Core's function, overwrites SDE_FILE with SOURCE_DATE_EPOCH_FALLBACK. Sources that are fetched from git
# (EVENKEEL_GIT) keep the time of their commit. The function does not set the variable SOURCE_DATE_EPOCH,
# because the distribution may set it.
do_unpack[postfuncs] += "evenkeel_source_date_epoch"
python evenkeel_source_date_epoch() {
    if d.getVar('EVENKEEL_SRC'):
        oe.reproducible.epochfile_write(int(d.getVar('SOURCE_DATE_EPOCH_FALLBACK')), d.getVar('SDE_FILE'), d)
}
