# SPDX-License-Identifier: Apache-2.0
# The Debian image, and the board that boots it.
COMPONENT_SOURCES := $(shell find $(filter-out recipes/image,$(IMAGE_FOLDERS)) recipes/common -type f -not -path '*/tests/*' -not -path '*/.*' -not -path '*__pycache__*' -not -path 'conf/kernel/*' | LC_ALL=C sort)
SUPPLY_SOURCES := $(addprefix recipes/supply/src/evenkeel_supply/,__init__.py debian.py inventory.py licences.py listing.py sbom.py)
# The list leaves out the programs that only boot or copy the finished image. A change of them rebuilds no image.
IMAGE_SOURCES := docs/reference/recorder.md $(shell find recipes/image/data -type f) $(addprefix recipes/image/,meson.build meson.options src/build src/build-root src/boot-loader src/ek-etc.c src/fit-medium.c src/holes src/install-component) $(SUPPLY_SOURCES) $(VERSION_FILE)
ROOT_TAR := $(C)/root-$(ROOT_ID)-$(call hash,recipes/image/data/packages recipes/image/src/build-root).tar
IMAGE_MODULES := $(K)/evenkeel.ko $(K)/evenkeel_pagepool.ko
IMAGE_FILE := $(B)/image/evenkeel-x86_64.img
VENDOR := $(B)/webui/vendor/package-lock.json
# The frequent passwords that the agent refuses, from a Debian package that is pinned in toolroot/passwords
PASSWORDS := $(B)/agent/frequent-passwords
PASSWORDS_PACKAGE := $(B)/agent/$(shell awk '!/^\043/ { print $$2 }' toolroot/passwords).deb

$(ROOT_TAR): | $(TOOLROOT)
	@$(call stage,Debian root of the image,1000)
	$(call once,$@) $(ENTER) recipes/image/src/build-root $@

$(VENDOR): webui/src/fetch-static webui/src/fetch-npm webui/src/static-deps/package-lock.json | $(TOOLROOT)
	@$(call stage,scripts of the panel)
	mkdir -p $(dir $(@D))
	flock $(@D).lock $(ENTER) webui/src/fetch-static $(@D)
	touch $@

$(PASSWORDS): recipes/agent/src/frequent-passwords toolroot/passwords | $(TOOLROOT)
	@$(call stage,list of frequent passwords)
	$(ENTER) recipes/agent/src/fetch-passwords $(@D)

.PHONY: run-keys
run-keys: $(TOOLROOT)
	@if [ -n "$(CSR)" ] && [ "$(RENEW)" != signer ]; then
		echo "make keys: CSR=FILE needs RENEW=signer" >&2; exit 1
	elif [ -n "$(REVOKE)" ] && [ -n "$(RENEW)" ]; then
		echo "make keys: REVOKE and RENEW are two calls" >&2; exit 1
	elif [ -n "$(OUT)" ]; then
		recipes/update/src/keys new "$(OUT)"
	elif [ -n "$(REVOKE)" ]; then
		recipes/update/src/keys revoke "$(KEYS)" "$(REVOKE)"
	else
		recipes/update/src/keys "$(or $(RENEW),show)" "$(KEYS)" $(if $(CSR),"$(CSR)")
	fi

# The certificates that the board trusts for updates. Without KEYRING= the file stays as it is, so `make flash` writes the
# image that `make image KEYRING=FILE` has built. KEYRING=none empties it: such a board accepts no update.
KEYRING_FILE := $(B)/image/keyring.pem
$(KEYRING_FILE): FORCE
	@mkdir -p $(@D)
	case "$(KEYRING)" in
	'') [ -e $@ ] || : > $@ ;;
	none) [ -e $@ ] && [ ! -s $@ ] || : > $@ ;;
	*)
		grep -qs 'BEGIN CERTIFICATE' "$(KEYRING)" || { echo "image: KEYRING=$(KEYRING) is no PEM file with a certificate; 'make keys' makes one" >&2; exit 1; }
		cmp -s "$(KEYRING)" $@ || cat "$(KEYRING)" > $@ ;;
	esac
	[ "$$(grep -c 'BEGIN CERTIFICATE' $@)" = "$$(grep -c 'BEGIN X509 CRL' $@)" ] || { : > $@; echo "image: KEYRING=FILE must have a list of revoked certificates (CRL) for each certificate: with another file, a board refuses all updates. Use keyring.pem of 'make keys'; 'make keys KEYS=DIR' writes it" >&2; exit 1; }

# build/image/inputs has KERNEL and the names of the components' source files. It changes with another KERNEL, or when
# a source file is added or removed. make then builds the image again.
$(B)/image/inputs: FORCE
	@mkdir -p $(@D)
	echo '$(KERNEL) $(COMPONENT_SOURCES)' | cmp -s - $@ || echo '$(KERNEL) $(COMPONENT_SOURCES)' > $@
# what the SBOM cannot read from the image
SBOM_INPUTS := --npm $(VENDOR) --data-package $(PASSWORDS_PACKAGE) $(if $(PIN),--kernel-version $(word 3,$(PIN)))
$(IMAGE_FILE): $(B)/image/inputs $(ROOT_TAR) $(IMAGE_MODULES) $(K)/bzImage $(COMPONENT_SOURCES) $(IMAGE_SOURCES) $(VENDOR) $(PASSWORDS) $(KEYRING_FILE) mk/components
	@$(call stage,image,2000)
	$(ENTER) recipes/image/src/build --root $(ROOT_TAR) --kernel $(K)/board $(addprefix --module ,$(IMAGE_MODULES)) $(IMAGE_COMPONENTS) $(SBOM_INPUTS) --out $(@D)

# `make demo IMAGE=FILE` builds no image. It needs only the build root, which contains QEMU.
DEMO_NEEDS := $(if $(IMAGE),demo-check $(TOOLROOT),$(IMAGE_FILE))
.PHONY: demo-check
demo-check:
	@[ -e "$(IMAGE)" ] || { echo "demo: there is no image $(IMAGE). Check the path that you gave as IMAGE=FILE" >&2; exit 1; }
DEMO := $(if $(IMAGE),env EVENKEEL_IMAGE="$(IMAGE)") recipes/image/src/demo $(if $(DETACH),--detach)

# The check of the device comes before any build. It is a separate target, because `make -n`
# really runs a recipe that contains $(MAKE).
.PHONY: flash-check flash-image
flash-check:
	@recipes/image/src/flash --check "$(DEV)"
flash-image: flash-check
	@$(MAKE) --no-print-directory image
