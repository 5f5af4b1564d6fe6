# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Service that keeps files of chosen directories in the page cache"
DESCRIPTION = "\
    ek-pool gives the priority directories of the apps to the kernel module evenkeel_pagepool, and \
    keeps the protected pool at the size that these files need. \
"
SECTION = "admin"

inherit evenkeel_component evenkeel_layers evenkeel_python systemd features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python"
REQUIRED_DISTRO_FEATURES = "systemd polkit"
EVENKEEL_COMPONENT = "recipes/pagepool"

SYSTEMD_SERVICE:${PN} = "evenkeel-pool.service"

FILES:${PN} += "\
    ${nonarch_libdir}/evenkeel \
    ${systemd_system_unitdir} \
    ${PYTHON_SITEPACKAGES_DIR} \
"

# evenkeel-agent has the Python package evenkeel_common, the schema and the list of apps
RDEPENDS:${PN} = "\
    evenkeel-agent \
    python3-core \
    python3-io \
    python3-json \
    python3-msgspec \
"
# The module is only recommended: without it the service reports that the page pool is off.
RRECOMMENDS:${PN} = "kernel-module-evenkeel-pagepool"
