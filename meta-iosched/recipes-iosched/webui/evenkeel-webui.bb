# SPDX-License-Identifier: Apache-2.0
SUMMARY = "Web panel to see and set the I/O weights of a board's apps"
DESCRIPTION = "\
    The panel runs unprivileged behind nginx (TLS), asks the agent over D-Bus, and \
    shows each app's throughput, share and latency. On the first boot it makes a certificate, \
    and shows its addresses, the certificate's fingerprint and the first password on console and screen. \
"
SECTION = "net"
# htmx is 0BSD, uPlot is MIT. The licence text of each is downloaded with it.
LICENSE = "Apache-2.0 & 0BSD & MIT"
LIC_FILES_CHKSUM = "\
    file://${EVENKEEL_S}/LICENSES/Apache-2.0.txt;md5=3b83ef96387f14655fc854ddc3c6bd57 \
    file://${EVENKEEL_UNPACKDIR}/htmx-${HTMX_VERSION}.LICENSE;md5=c77e5d4278133d7e3ce7ec8b86a6a6dd \
    file://${EVENKEEL_UNPACKDIR}/uPlot-${UPLOT_VERSION}.LICENSE;md5=e6317ce4dbbe5c9f1c6946e3aba62296 \
"

inherit evenkeel_component evenkeel_layers evenkeel_python systemd useradd features_check

EVENKEEL_LAYERS = "openembedded-layer meta-python webserver"
# With the feature evenkeel, nginx has HTTP/2 and runs as www-data.
REQUIRED_DISTRO_FEATURES = "systemd polkit evenkeel"
EVENKEEL_COMPONENT = "webui"

# Versions of the scripts that the pages load in the browser. They must be the same as in webui/src/static-deps.
HTMX_VERSION = "2.0.11"
UPLOT_VERSION = "1.6.32"
# names of the scripts in the CVE database
CVE_PRODUCT = "evenkeel-webui htmx uplot"
SRC_URI += "\
    https://raw.githubusercontent.com/bigskysoftware/htmx/v${HTMX_VERSION}/LICENSE;name=htmxlicense;downloadfilename=htmx-${HTMX_VERSION}.LICENSE \
    https://raw.githubusercontent.com/leeoniya/uPlot/${UPLOT_VERSION}/LICENSE;name=uplotlicense;downloadfilename=uPlot-${UPLOT_VERSION}.LICENSE \
    https://raw.githubusercontent.com/bigskysoftware/htmx/v${HTMX_VERSION}/dist/htmx.min.js;name=htmx;downloadfilename=htmx-${HTMX_VERSION}.min.js \
    https://raw.githubusercontent.com/leeoniya/uPlot/${UPLOT_VERSION}/dist/uPlot.iife.min.js;name=uplot;downloadfilename=uPlot-${UPLOT_VERSION}.iife.min.js \
    https://raw.githubusercontent.com/leeoniya/uPlot/${UPLOT_VERSION}/dist/uPlot.min.css;name=uplotcss;downloadfilename=uPlot-${UPLOT_VERSION}.min.css \
"
SRC_URI[htmxlicense.sha256sum] = "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38"
SRC_URI[uplotlicense.sha256sum] = "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"
SRC_URI[htmx.sha256sum] = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
SRC_URI[uplot.sha256sum] = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
SRC_URI[uplotcss.sha256sum] = "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"

EXTRA_OEMESON += "-Dvendor=${B}/vendor"
do_configure:prepend() {
    mkdir -p ${B}/vendor
    cp ${EVENKEEL_UNPACKDIR}/htmx-${HTMX_VERSION}.LICENSE ${B}/vendor/htmx.LICENSE
    cp ${EVENKEEL_UNPACKDIR}/uPlot-${UPLOT_VERSION}.LICENSE ${B}/vendor/uPlot.LICENSE
    cp ${EVENKEEL_UNPACKDIR}/htmx-${HTMX_VERSION}.min.js ${B}/vendor/htmx.min.js
    cp ${EVENKEEL_UNPACKDIR}/uPlot-${UPLOT_VERSION}.iife.min.js ${B}/vendor/uPlot.iife.min.js
    cp ${EVENKEEL_UNPACKDIR}/uPlot-${UPLOT_VERSION}.min.css ${B}/vendor/uPlot.min.css
}

SYSTEMD_SERVICE:${PN} = "\
    evenkeel-first-password.service \
    evenkeel-firstboot.service \
    evenkeel-panel.service \
    evenkeel-panel.socket \
    evenkeel-screen.service \
"

# Users and groups have fixed numbers, because settings.db and the certificate survive an update of the image.
# The numbers must be the same as in the component's sysusers.d file.
USERADD_PACKAGES = "${PN}"
GROUPADD_PARAM:${PN} = "--system --gid 901 evenkeel-panel; --system --gid 905 evenkeel-certificate"
USERADD_PARAM:${PN} = "\
    --system --uid 901 --gid evenkeel-panel --no-create-home --home-dir ${localstatedir}/lib/evenkeel-panel \
    --shell ${sbindir}/nologin --comment 'Evenkeel web panel' evenkeel-panel; \
    --system --uid 905 --gid evenkeel-certificate --no-create-home --home-dir / \
    --shell ${sbindir}/nologin --comment 'Evenkeel certificate' evenkeel-certificate \
"

FILES:${PN} += "\
    ${datadir}/evenkeel-panel \
    ${nonarch_libdir}/evenkeel \
    ${systemd_system_unitdir} \
    ${nonarch_libdir}/sysusers.d \
    ${nonarch_libdir}/tmpfiles.d \
    ${PYTHON_SITEPACKAGES_DIR} \
"
CONFFILES:${PN} = "${sysconfdir}/nginx/conf.d/evenkeel.conf"

# nginx supports 'http2 on' since 1.25.1
RDEPENDS:${PN} = "\
    evenkeel-agent \
    evenkeel-history \
    nginx (>= 1.25.1) \
    openssl-bin \
    python3-asyncio \
    python3-compression \
    python3-core \
    python3-crypt \
    python3-datetime \
    python3-dbus-fast \
    python3-fcntl \
    python3-flask \
    python3-flask-wtf \
    python3-gunicorn \
    python3-io \
    python3-json \
    python3-logging \
    python3-misc \
    python3-mmap \
    python3-msgspec \
    python3-netclient \
    python3-netserver \
    python3-numbers \
    python3-prometheus-client \
    python3-sqlite3 \
    python3-xml \
"
