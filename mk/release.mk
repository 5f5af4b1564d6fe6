# SPDX-License-Identifier: Apache-2.0
# A release: make release VERSION=x.y.z. mk/release has the steps.
RELEASE := $(B)/release

.PHONY: run-release
run-release:
	@mk/release "$(VERSION)" $(RELEASE)
