# SPDX-License-Identifier: Apache-2.0
# A recipe for a room of the repository, a folder with a build file of its own
# (EVENKEEL_ROOM): where it is, and its licence.
inherit evenkeel_src

SECTION ?= "base"
LICENSE ?= "Apache-2.0"
LIC_FILES_CHKSUM ?= "file://${EVENKEEL_S}/LICENSES/Apache-2.0.txt;md5=3b83ef96387f14655fc854ddc3c6bd57"

EVENKEEL_PATHS ?= "${EVENKEEL_ROOM} LICENSES"
S = "${EVENKEEL_S}/${EVENKEEL_ROOM}"
