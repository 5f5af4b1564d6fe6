# SPDX-License-Identifier: Apache-2.0
# The front door. `make` alone lists the targets.
#   EVENKEEL_CACHE  folder for what is expensive to build (default build/cache);
#                   set it to share between clones
#   EVENKEEL_PORT   port of the panel on 127.0.0.1 (default 8443)
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

# make knows no quoting: such a path would be taken for several
ifneq ($(words [$(CURDIR)] [$(EVENKEEL_CACHE)]),2)
$(error the path of the clone and EVENKEEL_CACHE must not contain spaces)
endif
ifneq ($(findstring :,$(CURDIR)$(EVENKEEL_CACHE)),)
$(error the path of the clone and EVENKEEL_CACHE must not contain a colon)
endif

TOP := $(CURDIR)
KERNEL ?= 6.12
B := $(TOP)/build
K := $(B)/$(KERNEL)
override export EVENKEEL_CACHE := $(abspath $(or $(EVENKEEL_CACHE),$(B)/cache))
C := $(EVENKEEL_CACHE)

# What is expensive lives in the cache under a name that says what went in, so
# that a change of inputs builds anew and going back costs nothing.
hash = $(shell cd $(TOP) && { cat $(1) < /dev/null; printf '%s' '$(2)'; } | sha256sum | cut -c1-12)
ROOT_ID := $(call hash,toolroot/packages toolroot/pins toolroot/preferences toolroot/python.txt toolroot/create)
export EVENKEEL_TOOLROOT := $(C)/toolroot-$(ROOT_ID)
# a kernel that toolroot/kernels pins: SUITE PACKAGE VERSION SHA256; 6.12 is in the tool root
PIN := $(shell awk '$$1 == "$(KERNEL)" { print $$2, $$3, $$4, $$5 }' toolroot/kernels)
BINARY := $(findstring linux-image-,$(PIN))
# what is asked for and has to do with a kernel
KERNEL_GOALS := $(filter-out help toolroot stop unit fuzz yocto yocto-image format clean,$(or $(MAKECMDGOALS),help))
ifneq ($(KERNEL_GOALS),)
ifeq ($(or $(PIN),$(filter 6.12,$(KERNEL))),)
$(error no kernel '$(KERNEL)'; there are 6.12 and, in toolroot/kernels, $(shell awk '!/^\043/ { print $$1 }' toolroot/kernels))
endif
ifneq ($(and $(BINARY),$(filter-out kernel,$(KERNEL_GOALS))),)
$(error $(KERNEL) is a binary kernel of Debian's, there to be measured by 'make bench'; it has no source that our modules could be built against. 'make kernel KERNEL=$(KERNEL)' fetches it)
endif
endif
PATCHES := $(sort $(wildcard recipes/kernel/patches/$(KERNEL)/*.patch))
SOURCE := $(C)/linux-$(KERNEL)-$(if $(PIN),$(call hash,$(PATCHES),$(PIN)),$(call hash,toolroot/pins $(PATCHES)))
variant = $(shell sed -n '/^$(1) /p' conf/kernel/variants)
fragments = $(patsubst %,conf/kernel/%.cfg,$(shell sed -n 's/^$(1) [a-z0-9]*://p' conf/kernel/variants))
kdir = $(C)/kernel-$(1)-$(KERNEL)-$(call hash,conf/kernel/renamed $(fragments) $(addprefix recipes/kernel/,build fragment check-config) toolroot/pins $(PATCHES),$(PIN) $(variant))

ENTER := $(TOP)/toolroot/enter
TOOLROOT := $(B)/toolroot
# a stage prints its name when it begins and its time when it ends; one that
# says how many MB it writes refuses to begin without them
define stage
mkdir -p $(B) $(C); stage_free=$$(df --output=avail -m $(C) | tail -n 1 | tr -d ' ')
[ "$$stage_free" -ge $(or $(2),0) ] || { echo "$(1): needs $(2) MB in $(C), there are $$stage_free; EVENKEEL_CACHE names another folder" >&2; exit 1; }
stage_name="$(1)"; stage_begin=$$SECONDS; echo "=== $$stage_name"; mkdir -p $(B)
trap 'code=$$?; echo "--- $$stage_name: $$((SECONDS - stage_begin)) s$$([ $$code = 0 ] || echo ", failed")" | tee -a $(B)/stages.log; exit $$code' EXIT
endef

.PHONY: FORCE
FORCE:

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target about; do printf '  make %-12s %s\n' "$$target" "$$about"; done
	printf '%s\n' '' 'In the environment or after make:' \
		'  EVENKEEL_CACHE=DIR  where what is expensive to build is kept (default build/cache); clones may share it' \
		'  EVENKEEL_PORT=N     the port of the panel on 127.0.0.1 (default 8443)' \
		'  FRESH=1             a demo on a new board: what the last one wrote is dropped'

# --- the tool root ---------------------------------------------------------

.PHONY: toolroot
toolroot: $(TOOLROOT) ## the Debian tree that everything is built in

# what needs the tree asks for the link, by which toolroot/enter finds it where make did not call it
$(TOOLROOT): $(if $(filter $(EVENKEEL_TOOLROOT),$(shell readlink $(TOOLROOT))),,FORCE) | $(EVENKEEL_TOOLROOT)/etc/evenkeel-toolroot
	@mkdir -p $(@D)
	ln -sfnT $(EVENKEEL_TOOLROOT) $@
$(EVENKEEL_TOOLROOT)/etc/evenkeel-toolroot:
	@$(call stage,tool root,4000)
	toolroot/create $(EVENKEEL_TOOLROOT)

# --- kernels and modules ---------------------------------------------------

$(SOURCE)/Makefile: | $(TOOLROOT)
	@$(call stage,kernel source,2500)
	rm -rf $(SOURCE).part; mkdir -p $(SOURCE).part
	tar=/usr/src/linux-source-$(KERNEL).tar.xz
	if [ -n "$(PIN)" ]; then
		toolroot/fetch-package $(PIN) $(SOURCE).deb
		$(ENTER) dpkg-deb -x $(SOURCE).deb/*.deb $(SOURCE).deb; tar=$(SOURCE).deb$$tar
	fi
	$(ENTER) tar -C $(SOURCE).part --strip-components=1 -xf $$tar
	# not as part of the clone that the cache may lie in: there git skips what is ignored
	for patch in $(PATCHES); do $(ENTER) env GIT_CEILING_DIRECTORIES=$(C) git -C $(SOURCE).part apply $(TOP)/$$patch; done
	rm -rf $(SOURCE).deb
	rm -rf $(SOURCE); mv $(SOURCE).part $(SOURCE)

# not empty when build/VERSION/VARIANT is not of today's fragments
stale = $(if $(filter $(call kdir,$(1)),$(shell readlink $(K)/$(1))),,FORCE)

# build/VERSION/VARIANT is a link to the objects that fit the fragments of today;
# modules built against others are dropped with the old link
define kernel_rule
$(call kdir,$(1))/built: | $(SOURCE)/Makefile
	@$$(call stage,kernel $(1),3000)
	$$(ENTER) recipes/kernel/build $(1) $(SOURCE) $$(@D)
	touch $$@
$(K)/$(1)/built: $(call kdir,$(1))/built $(call stale,$(1))
	@mkdir -p $(K)
	rm -rf $(K)/module$(2)$(if $(2),, $(K)/*.ko)
	ln -sfnT $(call kdir,$(1)) $(K)/$(1); ln -sfnT $(SOURCE) $(K)/source
endef
$(eval $(call kernel_rule,board,))
$(eval $(call kernel_rule,debug,-debug))
$(eval $(call kernel_rule,kcsan,-kcsan))
$(eval $(call kernel_rule,uml,-uml))

# our modules: NAME ROOM; each is built in a folder of its own and ends up as build/VERSION/module-VARIANT/NAME.ko
room_sources = $(shell find $(1)/src $(1)/tests -name '*.[ch]' -o -name Kbuild 2> /dev/null | LC_ALL=C sort) recipes/kernel/build-module
define module_rule
$(K)/module$(2)/$(3).ko: $(call room_sources,$(4)) $(call stale,$(1)) | $(K)/$(1)/built
	@$$(call stage,$(3).ko for the $(1) kernel)
	$$(ENTER) recipes/kernel/build-module $(4) $(K)/$(1) $$(@D)/$(3) W=1 KCFLAGS=-Werror
	cp $$(@D)/$(3)/*.ko $$(@D)/
	touch $$@
endef
define module_rules
$(call module_rule,board,,$(1),$(2))
$(call module_rule,debug,-debug,$(1),$(2))
$(call module_rule,kcsan,-kcsan,$(1),$(2))
$(call module_rule,uml,-uml,$(1),$(2))
$(K)/$(1).ko: $(K)/module/$(1).ko $(call stale,board)
	@cp $$< $$@
endef
$(eval $(call module_rules,evenkeel,recipes/scheduler))
$(eval $(call module_rules,flashsim,tests/flashsim))

.PHONY: kernel module
kernel: $(K)/bzImage ## the board's kernel: build/6.12/bzImage (KERNEL=7.3, 5.10: recipes/kernel/README.md)
ifeq ($(BINARY),)
$(K)/bzImage: $(K)/board/built $(call stale,board)
	@cp $(K)/board/arch/x86/boot/bzImage $@
module: $(K)/evenkeel.ko $(K)/flashsim.ko $(K)/bzImage ## the scheduler and the flash model: build/6.12/{evenkeel,flashsim}.ko
else
# a kernel of Debian's: nothing is built, and our modules have no source to be built against
UNPACKED := $(C)/kernel-$(KERNEL)-$(call hash,recipes/kernel/unpack,$(PIN))
$(UNPACKED)/bzImage: | $(TOOLROOT)
	@$(call stage,kernel $(KERNEL),500)
	toolroot/fetch-package $(PIN) $(UNPACKED).deb
	$(ENTER) recipes/kernel/unpack $(UNPACKED).deb/*.deb $(UNPACKED)
	rm -rf $(UNPACKED).deb
$(K)/bzImage: $(UNPACKED)/bzImage $(if $(filter $(UNPACKED)/modules,$(shell readlink $(K)/modules)),,FORCE)
	@mkdir -p $(K)
	ln -sfnT $(UNPACKED)/modules $(K)/modules
	cp $< $@
endif

# --- the image -------------------------------------------------------------

ROOMS := conf recipes/agent recipes/recorder recipes/loads recipes/demo webui
ROOM_SOURCES := $(shell find $(ROOMS) recipes/common -type f -not -path '*/tests/*' -not -path '*/.*' -not -path '*__pycache__*' -not -path 'conf/kernel/*' | LC_ALL=C sort)
# not what only runs the finished image
IMAGE_SOURCES := $(shell find recipes/image/rootfs -type f) $(addprefix recipes/image/,meson.build meson.options build build-root boot-loader packages masked-units genimage.cfg grub.cfg cmdline)
ROOT_TAR := $(C)/root-$(ROOT_ID)-$(call hash,recipes/image/packages recipes/image/build-root).tar
IMAGE := $(B)/image/evenkeel-x86_64.img

$(ROOT_TAR): | $(TOOLROOT)
	@$(call stage,Debian root of the image,1000)
	$(ENTER) recipes/image/build-root $@

$(B)/webui/vendor/package-lock.json: webui/fetch-static webui/static-deps/package-lock.json | $(TOOLROOT)
	@$(call stage,scripts of the panel)
	$(ENTER) webui/fetch-static $(@D)
	touch $@

$(IMAGE): $(ROOT_TAR) $(K)/evenkeel.ko $(K)/bzImage $(ROOM_SOURCES) $(IMAGE_SOURCES) $(B)/webui/vendor/package-lock.json
	@$(call stage,image,2000)
	$(ENTER) recipes/image/build --root $(ROOT_TAR) --kernel $(K)/board --module $(K)/evenkeel.ko \
		--room conf --room recipes/image --room recipes/agent --room recipes/recorder:tests=disabled --room recipes/loads:experiments=false --room recipes/demo --room webui:vendor=$(B)/webui/vendor --out $(@D)

.PHONY: image demo stop flash flash-check flash-image
image: $(IMAGE) ## the disk image: build/image/evenkeel-x86_64.img
	@echo "image: $(IMAGE:$(TOP)/%=%) ($$(($$(stat -c %s $(IMAGE)) >> 20)) MiB); 'make flash DEV=/dev/sdX' writes it to a medium"
demo: $(IMAGE) ## boot it in QEMU and print the panel's address (DETACH=1: return then)
	@exec recipes/image/demo $(if $(DETACH),--detach)
stop: ## end a detached demo
	@recipes/image/stop
# apart, for a recipe that names $(MAKE) is run by make -n, too
flash-check:
	@recipes/image/flash --check "$(DEV)"
flash-image: flash-check
	@$(MAKE) --no-print-directory image
flash: flash-image ## write the image to a medium: make flash DEV=/dev/sdX
	@recipes/image/flash "$(DEV)"

# --- the same image, by BitBake --------------------------------------------

OFFLINE := tests/yocto/offline
BITBAKE_ROOT := $(C)/bitbake-root-$(call hash,toolroot/packages toolroot/pins toolroot/preferences toolroot/python.txt toolroot/create $(OFFLINE)/packages $(OFFLINE)/create-root)
BITBAKE_IMAGE := $(B)/yocto-image/evenkeel-x86_64.img
# downloads, shared state and work; a second build needs the first two only
BITBAKE_OUT ?= $(C)/yocto

$(BITBAKE_ROOT)/etc/evenkeel-toolroot:
	@$(call stage,Debian tree for BitBake,4000)
	$(OFFLINE)/create-root $(BITBAKE_ROOT)

.PHONY: yocto-image
yocto-image: $(BITBAKE_ROOT)/etc/evenkeel-toolroot $(ROOT_TAR) $(B)/webui/vendor/package-lock.json ## the image by BitBake, without internet, and its boot test: OECORE=DIR BITBAKE=DIR [METARAUC=DIR]
	@$(call stage,image by BitBake,12000)
	if [ -z "$(OECORE)" ] || [ -z "$(BITBAKE)" ]; then
		echo "make yocto-image: OECORE=DIR and BITBAKE=DIR name OE-Core (walnascar) and BitBake (2.12)" >&2
		exit 2
	fi
	$(OFFLINE)/build --root $(BITBAKE_ROOT) --oecore $(OECORE) --bitbake $(BITBAKE) $(if $(METARAUC),--metarauc $(METARAUC)) \
		--debian $(ROOT_TAR) --vendor $(B)/webui/vendor --out $(BITBAKE_OUT) --deploy $(dir $(BITBAKE_IMAGE))
	EVENKEEL_IMAGE=$(BITBAKE_IMAGE) $(PYTEST) tests/boot

# --- the lab ---------------------------------------------------------------

LOADS := $(B)/loads
RECORDER := $(B)/recorder
LAB_NEEDS := $(K)/evenkeel.ko $(K)/flashsim.ko $(K)/bzImage $(LOADS)/ek-player $(LOADS)/ek-pairs $(RECORDER)/ek-recorder
# the same bytes wherever the clone lies: what a guest reports is kept under their hash
MESON_SETUP := $(ENTER) env CFLAGS=-ffile-prefix-map=$(CURDIR)=. meson setup
# the kernels of the full bench beside 6.12
BENCH_KERNELS := 7.3

$(LOADS)/ek-player: $(wildcard recipes/common/*.[ch]) $(shell find recipes/loads -name meson.build -o -path '*/src/*.[ch]') | $(TOOLROOT)
	@$(call stage,loads)
	[ -e $(LOADS)/build.ninja ] || $(MESON_SETUP) $(LOADS) recipes/loads --prefix=/usr > $(B)/loads.log || { cat $(B)/loads.log; exit 1; }
	$(ENTER) meson compile -C $(LOADS) > $(B)/loads.log || { cat $(B)/loads.log; exit 1; }
	touch $@

$(RECORDER)/ek-recorder: $(wildcard recipes/common/*.[ch]) $(shell find recipes/recorder -name meson.build -o -path '*/src/*' -type f -o -path '*/include/*.h') | $(TOOLROOT)
	@$(call stage,recorder)
	[ -e $(RECORDER)/build.ninja ] || $(MESON_SETUP) $(RECORDER) recipes/recorder --prefix=/usr -Dtests=disabled > $(B)/recorder.log || { cat $(B)/recorder.log; exit 1; }
	$(ENTER) meson compile -C $(RECORDER) > $(B)/recorder.log || { cat $(B)/recorder.log; exit 1; }
	touch $@

# of the agent's room, where it is part of ekctl
$(LOADS)/ek-pairs: recipes/agent/src/ek_pairs.c recipes/agent/meson.build | $(TOOLROOT)
	@$(call stage,ek-pairs)
	[ -e $(B)/agent/build.ninja ] || $(MESON_SETUP) $(B)/agent recipes/agent --prefix=/usr > $(B)/agent.log || { cat $(B)/agent.log; exit 1; }
	$(ENTER) meson compile -C $(B)/agent > $(B)/agent.log || { cat $(B)/agent.log; exit 1; }
	mkdir -p $(LOADS)
	cp $(B)/agent/ek-pairs $@

.PHONY: loads bench
loads: $(LOADS)/ek-player $(LOADS)/ek-pairs $(RECORDER)/ek-recorder ## the programs that the lab's guests run: build/loads, build/recorder
bench: $(LAB_NEEDS) ## every figure beside its peers: build/bench/{results.json,index.html} (QUICK=1: in 10 min, DEEP=1: all of it)
	@$(call stage,bench,2000)
	cd tests/lab
	if [ -z "$(QUICK)" ]; then
		for version in $(BENCH_KERNELS); do $(MAKE) -C $(TOP) --no-print-directory module KERNEL=$$version; done
		$(MAKE) -C $(TOP) --no-print-directory kernel KERNEL=5.10
	fi
	$(ENTER) python3 -m lab bench $(if $(QUICK),--quick) $(if $(DEEP),--deep) $(BENCH_OPTIONS)

# --- tests -----------------------------------------------------------------

PYTEST := $(ENTER) python3 -m pytest -q
.PHONY: test lint unit fuzz kunit lab torture boot browser
test: ## all of it; each stage also by its name: lint unit kunit lab torture boot browser
	@begin=$$SECONDS; rm -f $(B)/stages.log
	for t in lint unit kunit torture lab boot browser; do $(MAKE) --no-print-directory $$t; done
	echo "=== stages"; cat $(B)/stages.log; echo "all tests in $$(((SECONDS - begin) / 60)) min"
	echo "stages: 7 passed, 0 failed"

lint: $(TOOLROOT) $(SOURCE)/Makefile $(K)/board/built
	@$(call stage,lint)
	$(ENTER) tests/lint $(SOURCE) $(K)/board
unit: $(TOOLROOT) $(B)/webui/vendor/package-lock.json
	@$(call stage,unit tests)
	$(PYTEST) --hypothesis-profile=ci --ignore recipes/loads --ignore recipes/demo --ignore recipes/recorder conf recipes webui tests/lab/tests tests/flashsim/tests
	$(ENTER) tests/meson recipes/loads recipes/demo recipes/recorder
	$(PYTEST) tests/yocto
fuzz: $(TOOLROOT) ## the property tests with new examples each time, FUZZ times (default 20)
	for i in $$(seq $(or $(FUZZ),20)); do $(PYTEST) -m hypothesis recipes tests/flashsim/tests; done
kunit: $(K)/module-uml/evenkeel.ko $(K)/module-uml/flashsim.ko
	@$(call stage,KUnit)
	EVENKEEL_KERNEL=$(KERNEL) $(PYTEST) tests/kunit
# VARIANT=kcsan: the same on the kernel that finds data races
torture: VARIANT := $(or $(VARIANT),debug)
torture: $(K)/module-$(or $(VARIANT),debug)/evenkeel.ko
	@$(call stage,torture on the $(VARIANT) kernel)
	EVENKEEL_KERNEL=$(KERNEL) EVENKEEL_TORTURE_VARIANT=$(VARIANT) $(PYTEST) tests/torture
lab: $(LAB_NEEDS)
	@$(call stage,lab,1000)
	$(PYTEST) -s tests/flashsim/guest tests/bench
boot: $(IMAGE)
	@$(call stage,boot)
	$(PYTEST) tests/boot
browser: $(IMAGE)
	@$(call stage,browser)
	# a browser that no longer answers has no time limit of its own: then it is told where pytest waits
	$(ENTER) timeout --foreground --signal=ABRT 30m python3 -m pytest -q -s tests/browser

# OE-Core and BitBake are the reader's: several series separated by colons
YOCTO := OECORE="$(OECORE)" BITBAKE="$(BITBAKE)" METAOE="$(METAOE)" METARAUC="$(METARAUC)" METAYOCTO="$(METAYOCTO)" YOCTO_IMAGE="$(or $(YOCTO_IMAGE),$(wildcard $(BITBAKE_IMAGE)))"
.PHONY: yocto
yocto: ## the Yocto layer, by BitBake: OECORE=DIR BITBAKE=DIR [METAOE=DIR] [METARAUC=DIR] [METAYOCTO=DIR], see docs/yocto.md
	@$(call stage,Yocto layer,$(if $(OECORE),3000))
	$(YOCTO) tests/yocto/host-needs $(B)/yocto-venv
	$(YOCTO) PATH="$$PATH:/usr/sbin" $(B)/yocto-venv/bin/pytest -q tests/yocto

.PHONY: format clean
format: $(TOOLROOT) ## bring all code into its form
	@$(ENTER) tests/format $(SOURCE)
clean: ## drop what is built, keep the cache
	@for lock in $(B)/*/lock "$${EVENKEEL_RUN:-$(B)/run}/lock"; do
		EVENKEEL_RUN="$${lock%/lock}" recipes/image/stop --check || { echo "make clean: nothing was dropped" >&2; exit 1; }
	done
	[ ! -d $(B) ] || find $(B) -mindepth 1 -maxdepth 1 -not -path $(C) -exec rm -rf {} +
