# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The Evenkeel appliance with development tools"
DESCRIPTION = "evenkeel-image with flashsim, tracing and benchmarks. Not for products."

# Sizes in MiB for this larger image, instead of the class's defaults. A machine or product may set other sizes.
EVENKEEL_ROOT_MB ?= "1024"
EVENKEEL_DATA_MB ?= "768"

require evenkeel-image.bb

EVENKEEL_INSTALL:append = " packagegroup-evenkeel-dev-tools"
