# SPDX-License-Identifier: Apache-2.0
# A release: make release VERSION=x.y.z. mk/release has the steps. It runs without the
# variables of this make: in the kernel's Makefile, VERSION is part of the kernel's version.
RELEASE := $(B)/release

.PHONY: run-release
run-release:
	@env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u VERSION mk/release "$(VERSION)" $(RELEASE)
