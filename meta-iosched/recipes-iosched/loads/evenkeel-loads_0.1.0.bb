# SPDX-License-Identifier: Apache-2.0
SUMMARY = "A player with a deadline and a loader of large I/O"
DESCRIPTION = "\
    Programs that load a device as a board's apps do: ek-player reads a movie at a \
    fixed rate, ek-loader 100 MB at a time, ek-writer writes beside ek-disturb; with experiments also \
    an app that starts. \
"
SECTION = "utils"

inherit evenkeel_room evenkeel_layers meson pkgconfig

EVENKEEL_LAYERS = "openembedded-layer"
EVENKEEL_ROOM = "recipes/loads"
# units.c is shared with the recorder
EVENKEEL_PATHS = "recipes/loads recipes/common LICENSES"
EXTRA_OEMESON = "-Dwerror=false -Dtests=disabled"
DEPENDS += "liburing"

PACKAGECONFIG ??= ""
PACKAGECONFIG[experiments] = "-Dexperiments=true,-Dexperiments=false"
