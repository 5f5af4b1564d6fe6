# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The recorder, and the options for its partition"
DESCRIPTION = "For a product that takes only the recorder: daemon, libraries, Python package, mke2fs options."

inherit packagegroup evenkeel_layers features_check

# isa-l exists only for these architectures.
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"

EVENKEEL_LAYERS = "openembedded-layer"
REQUIRED_DISTRO_FEATURES = "systemd"

RDEPENDS:${PN} = "\
    e2fsprogs-mke2fs \
    evenkeel-conf-mkfs \
    evenkeel-recorder \
    python3-ek-recorder \
"
