# SPDX-License-Identifier: Apache-2.0
SUMMARY = "History of the I/O of a board's apps"
DESCRIPTION = "\
    evenkeel-history samples the scheduler's statistics each second and keeps throughput, \
    latencies, waiting times and wear for two years. It runs unprivileged. \
"
SECTION = "admin"

inherit evenkeel_component evenkeel_layers evenkeel_python systemd useradd features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python"
REQUIRED_DISTRO_FEATURES = "systemd polkit"
EVENKEEL_COMPONENT = "recipes/history"
EXTRA_OEMESON += "-Dwerror=false"

SYSTEMD_SERVICE:${PN} = "evenkeel-history.service"

# User and group have fixed numbers, because history.db survives an update of the image.
# The numbers must be the same as in the component's sysusers.d file.
USERADD_PACKAGES = "${PN}"
GROUPADD_PARAM:${PN} = "--system --gid 903 evenkeel-history"
USERADD_PARAM:${PN} = "\
    --system --uid 903 --gid evenkeel-history --no-create-home --home-dir / \
    --shell ${sbindir}/nologin --comment 'Evenkeel history' evenkeel-history \
"

FILES:${PN} += "\
    ${nonarch_libdir}/sysusers.d \
    ${nonarch_libdir}/tmpfiles.d \
    ${systemd_system_unitdir} \
    ${PYTHON_SITEPACKAGES_DIR} \
"

# evenkeel-agent has the Python package evenkeel_common and the list of apps
RDEPENDS:${PN} = "\
    evenkeel-agent \
    libzstd \
    python3-compression \
    python3-core \
    python3-ctypes \
    python3-io \
    python3-json \
    python3-logging \
    python3-msgspec \
    python3-netclient \
    python3-numbers \
    python3-sqlite3 \
    python3-threading \
"
