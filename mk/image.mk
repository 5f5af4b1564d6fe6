# SPDX-License-Identifier: Apache-2.0
# The Debian image, and the board that boots it.
COMPONENT_SOURCES := $(shell find $(filter-out recipes/image,$(IMAGE_FOLDERS)) recipes/common -type f -not -path '*/tests/*' -not -path '*/.*' -not -path '*__pycache__*' -not -path 'conf/kernel/*' | LC_ALL=C sort)
# without the programs that only run the finished image
IMAGE_SOURCES := docs/reference/recorder.md $(shell find recipes/image/data -type f) $(addprefix recipes/image/,meson.build meson.options src/build src/build-root src/boot-loader src/install-component) $(VERSION_FILE)
ROOT_TAR := $(C)/root-$(ROOT_ID)-$(call hash,recipes/image/data/packages recipes/image/src/build-root).tar
IMAGE_FILE := $(B)/image/evenkeel-x86_64.img
VENDOR := $(B)/webui/vendor/package-lock.json

$(ROOT_TAR): | $(TOOLROOT)
	@$(call stage,Debian root of the image,1000)
	$(call once,$@) $(ENTER) recipes/image/src/build-root $@

$(VENDOR): webui/src/fetch-static webui/src/static-deps/package-lock.json | $(TOOLROOT)
	@$(call stage,scripts of the panel)
	mkdir -p $(dir $(@D))
	flock $(@D).lock $(ENTER) webui/src/fetch-static $(@D)
	touch $@

# names of all inputs: another kernel, or a file that is gone, makes the image again
$(B)/image/inputs: FORCE
	@mkdir -p $(@D)
	echo '$(KERNEL) $(COMPONENT_SOURCES)' | cmp -s - $@ || echo '$(KERNEL) $(COMPONENT_SOURCES)' > $@
$(IMAGE_FILE): $(B)/image/inputs $(ROOT_TAR) $(K)/evenkeel.ko $(K)/bzImage $(COMPONENT_SOURCES) $(IMAGE_SOURCES) $(VENDOR) mk/components
	@$(call stage,image,2000)
	$(ENTER) recipes/image/src/build --root $(ROOT_TAR) --kernel $(K)/board --module $(K)/evenkeel.ko $(IMAGE_COMPONENTS) --out $(@D)

# `make demo IMAGE=FILE` needs nothing but the build root, which has QEMU
DEMO_NEEDS := $(if $(IMAGE),demo-check $(TOOLROOT),$(IMAGE_FILE))
.PHONY: demo-check
demo-check:
	@[ -e "$(IMAGE)" ] || { echo "demo: there is no image $(IMAGE). Check the path that you gave as IMAGE=FILE" >&2; exit 1; }
DEMO := $(if $(IMAGE),env EVENKEEL_IMAGE="$(IMAGE)") recipes/image/src/demo $(if $(DETACH),--detach)

# The device is checked before anything is built. Two targets, because make -n runs
# a recipe that names $(MAKE).
.PHONY: flash-check flash-image
flash-check:
	@recipes/image/src/flash --check "$(DEV)"
flash-image: flash-check
	@$(MAKE) --no-print-directory image
