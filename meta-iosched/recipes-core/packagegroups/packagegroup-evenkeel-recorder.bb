# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The recorder, and how its partition is made"
DESCRIPTION = "For a product that takes the recorder alone."

inherit packagegroup evenkeel_layers features_check

# isa-l's
COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"

EVENKEEL_LAYERS = "openembedded-layer"
REQUIRED_DISTRO_FEATURES = "systemd"

RDEPENDS:${PN} = "\
    e2fsprogs-mke2fs \
    evenkeel-conf-mkfs \
    evenkeel-recorder \
    python3-ek-recorder \
"
