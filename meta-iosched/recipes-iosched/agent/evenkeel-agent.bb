# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Agent that sets the I/O weights of a board's apps, and its command line"
DESCRIPTION = "\
    evenkeeld sets the I/O weight of each listed app through systemd, samples the scheduler's \
    statistics, and answers on D-Bus (org.evenkeel.Agent1) those callers that polkit allows. \
    ekctl is its command line. \
"
SECTION = "admin"

inherit evenkeel_component evenkeel_layers evenkeel_python systemd useradd features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python"
REQUIRED_DISTRO_FEATURES = "systemd polkit"
EVENKEEL_COMPONENT = "recipes/agent"
EXTRA_OEMESON += "-Dwerror=false"

SYSTEMD_SERVICE:${PN} = "evenkeeld.service evenkeel-network-boot.service"

# Users and groups have fixed numbers, because files of the agent and its helpers survive an update of the image.
# The numbers must be the same as in the component's sysusers.d file.
USERADD_PACKAGES = "${PN}"
GROUPADD_PARAM:${PN} = "\
    --system --gid 902 evenkeel-agent; \
    --system --gid 904 evenkeel-network; \
    --system --gid 906 evenkeel-system \
"
USERADD_PARAM:${PN} = "\
    ${@'--system --no-create-home --user-group --home-dir %s/polkit-1 --shell /bin/nologin polkitd;' % d.getVar('sysconfdir') if d.getVar('EVENKEEL_POLKIT_OWNS_RULES') == 'true' else ''} \
    --system --uid 902 --gid evenkeel-agent --no-create-home --home-dir / \
    --shell ${sbindir}/nologin --comment 'Evenkeel agent' evenkeel-agent; \
    --system --uid 904 --gid evenkeel-network --no-create-home --home-dir / \
    --shell ${sbindir}/nologin --comment 'Evenkeel network settings' evenkeel-network; \
    --system --uid 906 --gid evenkeel-system --no-create-home --home-dir / \
    --shell ${sbindir}/nologin --comment 'Evenkeel system orders' evenkeel-system \
"

FILES:${PN} += "\
    ${nonarch_libdir}/evenkeel \
    ${nonarch_libdir}/modules-load.d \
    ${nonarch_libdir}/sysusers.d \
    ${nonarch_libdir}/tmpfiles.d \
    ${systemd_system_unitdir} \
    ${datadir}/dbus-1 \
    ${datadir}/polkit-1 \
    ${PYTHON_SITEPACKAGES_DIR} \
"

VIRTUAL-RUNTIME_dbus ?= "dbus"
RDEPENDS:${PN} = "\
    ${VIRTUAL-RUNTIME_dbus} \
    polkit \
    python3-argon2-cffi \
    python3-asyncio \
    python3-compression \
    python3-core \
    python3-crypt \
    python3-ctypes \
    python3-datetime \
    python3-dbus-fast \
    python3-email \
    python3-io \
    python3-json \
    python3-logging \
    python3-math \
    python3-msgspec \
    python3-netclient \
    python3-numbers \
    python3-pyotp \
    python3-sqlite3 \
    python3-tomllib \
    python3-xml \
"
# The module is only recommended: without it the agent still answers, and reports that the module is missing.
# Alerts to servers with TLS need the certificates. Without the list of frequent passwords, the agent's rules apply.
RRECOMMENDS:${PN} = "\
    ca-certificates \
    evenkeel-conf-slice \
    evenkeel-frequent-passwords \
    kernel-module-evenkeel \
"

# Packages that share a folder must agree on its owner and mode. In scarthgap, the recipe of
# polkit gives ${datadir}/polkit-1/rules.d to polkitd, and nobody else can read it. In later
# series the folder belongs to root, and everybody can read it.
EVENKEEL_POLKIT_OWNS_RULES = "${@bb.utils.contains('LAYERSERIES_CORENAMES', 'scarthgap', 'true', 'false', d)}"
do_install:append() {
    if ${EVENKEEL_POLKIT_OWNS_RULES}; then
        chmod 700 ${D}${datadir}/polkit-1/rules.d
        chown polkitd:root ${D}${datadir}/polkit-1/rules.d
    fi
}
