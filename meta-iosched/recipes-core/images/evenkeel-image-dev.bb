# SPDX-License-Identifier: Apache-2.0
SUMMARY = "The Evenkeel appliance with tools to look into it"
DESCRIPTION = "evenkeel-image with flashsim, tracing and benchmarks. It is not for customers."

# before those of the class, and after those of the machine or product
EVENKEEL_ROOT_MB ?= "1024"
EVENKEEL_DATA_MB ?= "768"

require evenkeel-image.bb

EVENKEEL_INSTALL:append = " packagegroup-evenkeel-dev-tools"
