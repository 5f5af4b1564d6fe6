# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Agent that sets the I/O weights of a board's apps, and its command line"
DESCRIPTION = "\
    evenkeeld sets the I/O weight of each listed app through systemd, samples the scheduler's \
    statistics, and answers on D-Bus (org.evenkeel.Agent1) those callers that polkit allows. \
    ekctl is its command line. \
"
SECTION = "admin"

inherit evenkeel_component evenkeel_layers evenkeel_python systemd features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python"
REQUIRED_DISTRO_FEATURES = "systemd polkit"
EVENKEEL_COMPONENT = "recipes/agent"
EXTRA_OEMESON += "-Dwerror=false"
DEPENDS += "libaio"

SYSTEMD_SERVICE:${PN} = "evenkeeld.service"

FILES:${PN} += "\
    ${nonarch_libdir}/evenkeel \
    ${nonarch_libdir}/modules-load.d \
    ${systemd_system_unitdir} \
    ${datadir}/dbus-1 \
    ${datadir}/polkit-1 \
    ${PYTHON_SITEPACKAGES_DIR} \
"

VIRTUAL-RUNTIME_dbus ?= "dbus"
RDEPENDS:${PN} = "\
    ${VIRTUAL-RUNTIME_dbus} \
    polkit \
    python3-asyncio \
    python3-core \
    python3-dbus-fast \
    python3-io \
    python3-json \
    python3-logging \
    python3-math \
    python3-tomllib \
    python3-xml \
"
# without the module the agent still answers, and reports that the module is missing
RRECOMMENDS:${PN} = "kernel-module-evenkeel evenkeel-conf-slice"

# Packages that share a folder must agree on its owner and mode. In scarthgap polkit's
# recipe makes this folder readable only for polkitd. In later series it belongs to root
# and everybody can read it.
EVENKEEL_POLKIT_OWNS_RULES = "${@bb.utils.contains('LAYERSERIES_CORENAMES', 'scarthgap', 'true', 'false', d)}"
inherit_defer ${@'useradd' if d.getVar('EVENKEEL_POLKIT_OWNS_RULES') == 'true' else ''}
USERADD_PACKAGES = "${PN}"
USERADD_PARAM:${PN} = "--system --no-create-home --user-group --home-dir ${sysconfdir}/polkit-1 --shell /bin/nologin polkitd"
do_install:append() {
    if ${EVENKEEL_POLKIT_OWNS_RULES}; then
        chmod 700 ${D}${datadir}/polkit-1/rules.d
        chown polkitd:root ${D}${datadir}/polkit-1/rules.d
    fi
}
