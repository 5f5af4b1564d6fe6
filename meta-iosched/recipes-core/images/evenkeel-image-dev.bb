# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The Evenkeel appliance with tools to look into it"
DESCRIPTION = "evenkeel-image with flashsim, tracing and benchmarks. It is not for customers."

require evenkeel-image.bb

EVENKEEL_ROOT_MB = "1024"
EVENKEEL_DATA_MB = "768"
EVENKEEL_INSTALL:append = " packagegroup-evenkeel-dev-tools"
