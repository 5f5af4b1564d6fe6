# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Signed updates of a board, by RAUC"
DESCRIPTION = "\
    RAUC's configuration, service and D-Bus policy for the two slots of evenkeel-image. \
    Only root and the agent may give orders to RAUC. Takes the place of rauc-conf and \
    rauc-service of meta-rauc. \
"
SECTION = "admin"

inherit evenkeel_component evenkeel_layers features_check

EVENKEEL_LAYERS = "rauc"
REQUIRED_DISTRO_FEATURES = "systemd"
EVENKEEL_COMPONENT = "recipes/update"

PACKAGE_ARCH = "${MACHINE_ARCH}"

# The certificates that the boards trust for updates. Without them, boards accept no update.
EVENKEEL_KEYRING ?= ""
RAUC_BUNDLE_COMPATIBLE ?= "evenkeel-${MACHINE}"
EXTRA_OEMESON += "-Dcompatible=${RAUC_BUNDLE_COMPATIBLE} -Dkeyring=${EVENKEEL_KEYRING}"

FILES:${PN} += "\
    ${datadir}/dbus-1 \
    ${nonarch_libdir}/rauc \
    ${systemd_system_unitdir} \
"

RDEPENDS:${PN} = "rauc"
RPROVIDES:${PN} = "rauc-service virtual-rauc-conf"
RCONFLICTS:${PN} = "rauc-service rauc-conf"
