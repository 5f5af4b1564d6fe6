# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Validation of a board's flash device and its scheduler"
DESCRIPTION = "\
    ek-validate measures limits, latencies and the experiments of the papers on the board itself, \
    compares them with what was promised, and restores everything that it has changed. \
"
SECTION = "admin"

inherit evenkeel_component evenkeel_layers evenkeel_python systemd features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python"
REQUIRED_DISTRO_FEATURES = "systemd polkit"
EVENKEEL_COMPONENT = "recipes/validate"
EXTRA_OEMESON += "-Dwerror=false"
DEPENDS += "libaio"

SYSTEMD_SERVICE:${PN} = "evenkeel-validate-restore.service"

FILES:${PN} += "\
    ${nonarch_libdir}/evenkeel \
    ${systemd_system_unitdir} \
    ${PYTHON_SITEPACKAGES_DIR} \
"

# evenkeel-agent has the Python package evenkeel_common. evenkeel-loads has the player, the light reader and the
# recording program.
# util-linux allocates space and discards it.
RDEPENDS:${PN} = "\
    evenkeel-agent \
    evenkeel-loads \
    fio \
    smartmontools \
    python3-asyncio \
    python3-core \
    python3-ctypes \
    python3-datetime \
    python3-fcntl \
    python3-html \
    python3-io \
    python3-json \
    python3-math \
    python3-mmap \
    python3-msgspec \
    python3-tomllib \
    util-linux-fallocate \
    util-linux-fstrim \
"
