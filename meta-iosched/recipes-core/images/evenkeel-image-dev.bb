# SPDX-License-Identifier: Apache-2.0
require evenkeel-image.bb

SUMMARY = "The Evenkeel appliance with tools to look into it"
DESCRIPTION = "evenkeel-image with flashsim, tracing and benchmarks. It is not for customers."

EVENKEEL_ROOT_MB = "1024"
EVENKEEL_INSTALL:append = " packagegroup-evenkeel-dev-tools"
