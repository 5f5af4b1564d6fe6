# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Real-time recorder for flash storage, and its client libraries"
SUMMARY:libek-recorder = "Library to send records to ek-recorder"
SUMMARY:libek-reader = "Library to read recordings of ek-recorder"
SUMMARY:python3-ek-recorder = "Python package to send records to ek-recorder and read recordings"
DESCRIPTION = "\
    ek-recorder receives records by shared memory or a socket, keeps them on a \
    partition of its own, and reports which were lost and why. Writers link libek-recorder, \
    readers link libek-reader, or both use the Python package ek_recorder. \
"
SECTION = "admin"

inherit evenkeel_component evenkeel_layers evenkeel_python pkgconfig systemd useradd features_check

# isa-l exists only for these architectures.
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"
EVENKEEL_LAYERS = "openembedded-layer"
REQUIRED_DISTRO_FEATURES = "systemd"
EVENKEEL_COMPONENT = "recipes/recorder"
# The loads also use recipes/common.
EVENKEEL_PATHS = "docs/reference/recorder.md recipes/recorder recipes/common LICENSES VERSION"
EXTRA_OEMESON += "-Dwerror=false -Dtests=disabled"
DEPENDS += "isa-l libinih systemd zlib zstd"

PACKAGE_BEFORE_PN = "libek-recorder libek-reader python3-ek-recorder"

SYSTEMD_SERVICE:${PN} = "ek-recorder.service ek-recorder.socket"

# User and group have fixed numbers, because recordings survive an update of the image. The
# numbers must be the same as in the component's sysusers.d file; a test compares both.
USERADD_PACKAGES = "${PN}"
GROUPADD_PARAM:${PN} = "--system --gid 900 ek-record"
USERADD_PARAM:${PN} = "\
    --system --uid 900 --gid ek-record --no-create-home --home-dir / \
    --shell ${sbindir}/nologin --comment 'Evenkeel recorder' ek-recorder \
"

FILES:${PN} += "\
    ${nonarch_libdir}/evenkeel \
    ${systemd_system_unitdir} \
    ${nonarch_libdir}/sysusers.d \
    ${nonarch_libdir}/tmpfiles.d \
"
# templates, which systemd.bbclass does not package
FILES:${PN} += "${systemd_system_unitdir}/ek-recorder-fifo@.service ${systemd_system_unitdir}/ek-recorder-fifo@.socket"
CONFFILES:${PN} = "${sysconfdir}/ek-recorder/recorder.conf"

FILES:libek-recorder = "${libdir}/libek-recorder${SOLIBS}"
FILES:libek-reader = "${libdir}/libek-reader${SOLIBS}"
# The -dev package depends on the library alone: a program that links it does not need the daemon.
DEV_PKG_DEPENDENCY = "libek-recorder (= ${EXTENDPKGV})"

FILES:python3-ek-recorder = "${PYTHON_SITEPACKAGES_DIR}"
RDEPENDS:python3-ek-recorder = "\
    libek-reader \
    libek-recorder \
    python3-core \
    python3-ctypes \
    python3-datetime \
    python3-io \
"
