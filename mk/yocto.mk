# SPDX-License-Identifier: Apache-2.0
# The Yocto layer: its tests, and the image by BitBake without internet.
OFFLINE := tests/yocto/offline
BITBAKE_ROOT := $(C)/bitbake-root-$(call hash,toolroot/packages toolroot/pins toolroot/preferences toolroot/python.txt toolroot/create $(OFFLINE)/packages $(OFFLINE)/create-root)
BITBAKE_IMAGE := $(B)/yocto-image/evenkeel-x86_64.img
# The folder of BitBake's downloads, shared state and work files. Another build needs only downloads and shared state.
BITBAKE_OUT ?= $(C)/yocto

$(BITBAKE_ROOT)/etc/evenkeel-toolroot:
	@$(call stage,build root of BitBake,4000)
	$(call once,$(BITBAKE_ROOT)) $(OFFLINE)/create-root $(BITBAKE_ROOT)

# Each of the five variables may name several trees, one per series, separated by colons.
YOCTO := OECORE="$(OECORE)" BITBAKE="$(BITBAKE)" METAOE="$(METAOE)" METARAUC="$(METARAUC)" METAYOCTO="$(METAYOCTO)" YOCTO_IMAGE="$(or $(YOCTO_IMAGE),$(wildcard $(BITBAKE_IMAGE)))"

.PHONY: run-yocto run-yocto-image
run-yocto:
	@$(call stage,Yocto layer,$(if $(OECORE),3000))
	$(YOCTO) tests/yocto/host-needs $(B)/yocto-venv
	$(YOCTO) PATH="$$PATH:/usr/sbin" $(B)/yocto-venv/bin/pytest -q tests/yocto
run-yocto-image: $(BITBAKE_ROOT)/etc/evenkeel-toolroot $(ROOT_TAR) $(VENDOR)
	@$(call stage,image by BitBake,12000)
	if [ -z "$(OECORE)" ] || [ -z "$(BITBAKE)" ]; then
		echo "make yocto-image: OECORE=DIR and BITBAKE=DIR must name checkouts of OE-Core (walnascar) and BitBake (2.12)" >&2
		exit 2
	fi
	$(OFFLINE)/build --root $(BITBAKE_ROOT) --oecore $(OECORE) --bitbake $(BITBAKE) $(if $(METARAUC),--metarauc $(METARAUC)) \
		--debian $(ROOT_TAR) --vendor $(dir $(VENDOR)) --out $(BITBAKE_OUT) --deploy $(dir $(BITBAKE_IMAGE))
	EVENKEEL_IMAGE=$(BITBAKE_IMAGE) $(PYTEST) tests/boot
