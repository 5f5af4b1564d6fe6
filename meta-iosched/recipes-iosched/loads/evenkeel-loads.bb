# SPDX-License-Identifier: Apache-2.0
SUMMARY = "A player with a deadline and a loader of large I/O"
DESCRIPTION = "\
    Programs that load a device like the apps of a board. ek-player reads a movie at a fixed \
    rate, ek-loader reads 100 MB at a time, ek-writer writes while ek-disturb disturbs it, \
    ek-light-reader measures reads at planned moments. With \
    the option experiments there are also ek-appstart, which starts an app, and ek-commits, \
    which commits to a database. \
"
SECTION = "utils"

inherit evenkeel_component evenkeel_layers meson pkgconfig

EVENKEEL_LAYERS = "openembedded-layer"
EVENKEEL_COMPONENT = "recipes/loads"
# The recorder also uses recipes/common.
EVENKEEL_PATHS = "recipes/loads recipes/common LICENSES VERSION"
EXTRA_OEMESON = "-Dwerror=false -Dtests=disabled"
DEPENDS += "liburing"

PACKAGECONFIG ??= ""
PACKAGECONFIG[experiments] = "-Dexperiments=true,-Dexperiments=false,sqlite3"
