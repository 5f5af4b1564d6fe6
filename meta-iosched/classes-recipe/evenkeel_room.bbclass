# SPDX-License-Identifier: Apache-2.0
# A recipe for a room of the repository, a folder with a build file of its own
# (EVENKEEL_ROOM): where it is, and its licence.
inherit evenkeel_src

SECTION ?= "base"
LICENSE ?= "Apache-2.0"
LIC_FILES_CHKSUM ?= "file://${EVENKEEL_S}/LICENSES/Apache-2.0.txt;md5=3b83ef96387f14655fc854ddc3c6bd57"

# of a commit that is fetched, packages are told apart by it (as any recipe of a git repository)
PV:append = "${@'' if d.getVar('EVENKEEL_SRC') else '+git'}"
# no program of the target runs while a room is built: no QEMU is wanted for it
EXEWRAPPER_ENABLED = "False"

EVENKEEL_PATHS ?= "${EVENKEEL_ROOM} LICENSES"
S = "${EVENKEEL_S}/${EVENKEEL_ROOM}"

# Files of a clone have the time of its checkout, and the youngest would be the time of what is built: the
# same files would give other bytes in each clone. A commit that is fetched has a time of its own. This is
# after OE-Core's own search, and not SOURCE_DATE_EPOCH itself, which is a distribution's to set.
do_unpack[postfuncs] += "evenkeel_source_date_epoch"
python evenkeel_source_date_epoch() {
    if d.getVar('EVENKEEL_SRC'):
        oe.reproducible.epochfile_write(int(d.getVar('SOURCE_DATE_EPOCH_FALLBACK')), d.getVar('SDE_FILE'), d)
}
