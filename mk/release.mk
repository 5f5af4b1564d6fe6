# SPDX-License-Identifier: Apache-2.0
# A release: make release VERSION=x.y.z. mk/release has the steps. The variable must
# not reach the kernel's own make, where VERSION is part of the kernel's version.
RELEASE := $(B)/release

.PHONY: run-release
run-release:
	@env -u MAKEFLAGS -u MFLAGS -u MAKEOVERRIDES -u VERSION mk/release "$(VERSION)" $(RELEASE)
