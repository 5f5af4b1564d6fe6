# SPDX-License-Identifier: Apache-2.0
# What an image consists of, and the vulnerabilities that are known of it (recipes/supply/README.md).
IMAGE_SBOM := $(IMAGE_FILE:.img=.spdx.json)
# The check needs only Python and dpkg. `make cve SBOM=FILE` checks a released image, and builds nothing.
CVE_SBOM := $(or $(SBOM),$(IMAGE_SBOM))
CVE_JSON := $(B)/cve.json

.PHONY: run-sbom run-cve cve-check
run-sbom: $(IMAGE_FILE)
	@echo "sbom: $(IMAGE_SBOM:$(TOP)/%=%) (SPDX 2.3). Licences: $(IMAGE_FILE:$(TOP)/%.img=%).licences.txt; their texts: licences.tar.xz next to it."
# before the image is built
cve-check:
	@[ -n "$(CVE_DATA)" ] || { echo "cve: CVE_DATA=FILE must name the data of Debian's security tracker. docs/howto/supply-chain.md says how to get it" >&2; exit 2; }
run-cve: cve-check $(if $(SBOM),,$(IMAGE_FILE))
	@mkdir -p $(B)
	PYTHONPATH=recipes/supply/src PYTHONDONTWRITEBYTECODE=1 python3 -m evenkeel_supply.cve --sbom $(CVE_SBOM) --json $(CVE_JSON) \
		--data "$(CVE_DATA)" $(if $(CVE_KERNEL_DATA),--kernel-data "$(CVE_KERNEL_DATA)") \
		$(foreach file,$(VEX),--vex $(file)) $(if $(CVE_MAX_AGE),--max-age $(CVE_MAX_AGE)) $(if $(CVE_FAIL),--fail $(CVE_FAIL))
