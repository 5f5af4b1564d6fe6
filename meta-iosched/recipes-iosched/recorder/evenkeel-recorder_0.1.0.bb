# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Real-time recorder for flash storage, and its client libraries"
SUMMARY:libek-recorder = "Library to give records to ek-recorder"
SUMMARY:python3-ek-recorder = "Python package to give records to ek-recorder, and to read recordings"
DESCRIPTION = "\
    ek-recorder takes records by shared memory or a socket, keeps them on a \
    partition of its own, and says which were lost and why. Writers link libek-recorder, or \
    use the Python package ek_recorder. \
"
SECTION = "admin"

inherit evenkeel_room evenkeel_layers evenkeel_python pkgconfig systemd useradd features_check

# isa-l's
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
EVENKEEL_LAYERS = "openembedded-layer"
REQUIRED_DISTRO_FEATURES = "systemd"
EVENKEEL_ROOM = "recipes/recorder"
# units.c is shared with the loads
EVENKEEL_PATHS = "recipes/recorder recipes/common LICENSES"
EXTRA_OEMESON += "-Dwerror=false -Dtests=disabled"
DEPENDS += "isa-l libinih liburing systemd zlib zstd"

PACKAGE_BEFORE_PN = "libek-recorder python3-ek-recorder"

SYSTEMD_SERVICE:${PN} = "ek-recorder.service ek-recorder.socket"

# Numbers that stay, as in the room's sysusers.d file: recordings outlive the
# image that gave their owner its number. The image's check holds both together.
USERADD_PACKAGES = "${PN}"
GROUPADD_PARAM:${PN} = "--system --gid 900 ek-record"
USERADD_PARAM:${PN} = "\
    --system --uid 900 --gid ek-record --no-create-home --home-dir / \
    --shell ${sbindir}/nologin --comment 'Evenkeel recorder' ek-recorder \
"

FILES:${PN} += "\
    ${systemd_system_unitdir} \
    ${nonarch_libdir}/sysusers.d \
    ${nonarch_libdir}/tmpfiles.d \
"
CONFFILES:${PN} = "${sysconfdir}/ek-recorder/recorder.conf"

FILES:libek-recorder = "${libdir}/libek-recorder${SOLIBS}"
# who links it needs the library, not the daemon
DEV_PKG_DEPENDENCY = "libek-recorder (= ${EXTENDPKGV})"

FILES:python3-ek-recorder = "${PYTHON_SITEPACKAGES_DIR}"
RDEPENDS:python3-ek-recorder = "\
    ${PN} \
    libek-recorder \
    python3-core \
    python3-ctypes \
    python3-datetime \
    python3-fcntl \
    python3-html \
    python3-io \
    python3-json \
    python3-tomllib \
"
# 'ek-recorder bench --paper' compares with write() of ek-writer, beside ek-disturb;
# no product that records wants programs that load its device unasked
RSUGGESTS:python3-ek-recorder = "evenkeel-loads"
