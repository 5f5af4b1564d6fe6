# SPDX-License-Identifier: Apache-2.0
SUMMARY ?= "The Evenkeel appliance"
DESCRIPTION ?= "\
    Scheduler, recorder, agent and panel on a read-only root with two slots. 'make image' \
    builds the same image from Debian packages; this one is built from source. \
"
LICENSE = "Apache-2.0"

inherit core-image evenkeel_image evenkeel_layers

EVENKEEL_LAYERS = "openembedded-layer meta-python webserver"
REQUIRED_DISTRO_FEATURES += "polkit evenkeel"

# The base system, our packages, and the demo. The demo starts only with the credential evenkeel.demo.
EVENKEEL_INSTALL ?= "packagegroup-core-boot packagegroup-evenkeel packagegroup-evenkeel-demo"
IMAGE_INSTALL = "${EVENKEEL_INSTALL} ${CORE_IMAGE_EXTRA_INSTALL}"
IMAGE_LINGUAS = ""
