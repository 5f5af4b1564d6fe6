# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The demo: a player and a loader on one flash-speed device"
DESCRIPTION = "\
    Units of the demo. They start only if the machine gets the system credential \
    evenkeel.demo. \
"

inherit evenkeel_component evenkeel_layers meson useradd features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python"
REQUIRED_DISTRO_FEATURES = "systemd polkit"
EVENKEEL_COMPONENT = "recipes/demo"
EXTRA_OEMESON = "-Dtests=disabled"

# The user must be the same as in the component's sysusers.d file.
USERADD_PACKAGES = "${PN}"
USERADD_PARAM:${PN} = "\
    --system --user-group --no-create-home --home-dir / --shell ${sbindir}/nologin \
    --comment 'Evenkeel demo' evenkeel-demo \
"

FILES:${PN} += "\
    ${nonarch_libdir}/evenkeel \
    ${nonarch_libdir}/sysusers.d \
    ${systemd_system_unitdir} \
"
CONFFILES:${PN} = "\
    ${sysconfdir}/evenkeel/apps.d/loader.toml \
    ${sysconfdir}/evenkeel/apps.d/player.toml \
"
RDEPENDS:${PN} = "evenkeel-agent evenkeel-loads"
RRECOMMENDS:${PN} = "kernel-module-null-blk"
