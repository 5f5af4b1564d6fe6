# SPDX-License-Identifier: Apache-2.0
# Kernels, and our modules for them.

# The source of 6.12 is in the build root. toolroot/kernels pins other kernels. PIN is the pin of
# KERNEL: SUITE PACKAGE VERSION SHA256; it is empty for 6.12.
PIN := $(shell awk '$$1 == "$(KERNEL)" { print $$2, $$3, $$4, $$5 }' toolroot/kernels)
BINARY := $(findstring linux-image-,$(PIN))
# The goals of this call that use KERNEL. Only they need a valid KERNEL.
KERNEL_GOALS := $(filter-out help toolroot stop unit fuzz yocto yocto-image format clean clean-cache docs,$(or $(MAKECMDGOALS),help))
ifneq ($(KERNEL_GOALS),)
ifeq ($(or $(PIN),$(filter 6.12,$(KERNEL))),)
$(error there is no kernel '$(KERNEL)'. Known: 6.12 and those of toolroot/kernels, $(shell awk '!/^\043/ { print $$1 }' toolroot/kernels))
endif
ifneq ($(and $(BINARY),$(filter-out kernel,$(KERNEL_GOALS))),)
$(error $(KERNEL) is a binary kernel of Debian, for 'make bench' to measure. It has no source to build modules against. 'make kernel KERNEL=$(KERNEL)' fetches it)
endif
endif

PATCHES := $(sort $(wildcard recipes/kernel/data/patches/$(KERNEL)/*.patch))
SOURCE := $(C)/linux-$(KERNEL)-$(if $(PIN),$(call hash,$(PATCHES),$(PIN)),$(call hash,toolroot/pins $(PATCHES)))
variant = $(shell sed -n '/^$(1) /p' conf/kernel/variants)
fragments = $(patsubst %,conf/kernel/%.cfg,$(shell sed -n 's/^$(1) [a-z0-9]*://p' conf/kernel/variants))
kdir = $(C)/kernel-$(1)-$(KERNEL)-$(call hash,conf/kernel/renamed $(fragments) $(addprefix recipes/kernel/src/,build fragment check-config) toolroot/pins $(PATCHES),$(PIN) $(variant))

define unpack_source
rm -rf $(SOURCE).part; mkdir -p $(SOURCE).part
tar=/usr/src/linux-source-$(KERNEL).tar.xz
if [ -n "$(PIN)" ]; then
	toolroot/fetch-package $(PIN) $(SOURCE).deb
	$(ENTER) dpkg-deb -x $(SOURCE).deb/*.deb $(SOURCE).deb; tar=$(SOURCE).deb$$tar
fi
$(ENTER) tar -C $(SOURCE).part --strip-components=1 -xf $$tar
# If the cache is in a git work tree, git apply silently skips all files. GIT_CEILING_DIRECTORIES hides that work tree.
for patch in $(PATCHES); do $(ENTER) env GIT_CEILING_DIRECTORIES=$(C) git -C $(SOURCE).part apply $(TOP)/$$patch; done
rm -rf $(SOURCE).deb
mv $(SOURCE).part $(SOURCE)
endef
export UNPACK_SOURCE = $(unpack_source)
$(SOURCE)/Makefile: | $(TOOLROOT)
	@$(call stage,kernel source,2500)
	$(call once,$(SOURCE)) bash -euo pipefail -c "$$UNPACK_SOURCE"

# $(call stale,VARIANT) is FORCE if the link build/VERSION/VARIANT does not lead to objects of the current
# fragments, and empty if it does.
stale = $(if $(filter $(call kdir,$(1)),$(shell readlink $(K)/$(1))),,FORCE)

# $(call kernel_rule,VARIANT,SUFFIX): build one variant. build/VERSION/VARIANT is a link to the objects of
# the current fragments. When the link changes, the modules that were built against the old objects are removed.
define kernel_rule
$(call kdir,$(1))/built: | $(SOURCE)/Makefile
	@$$(call stage,kernel $(1),3000)
	$$(call once,$$@) sh -c '$$(ENTER) recipes/kernel/src/build $(1) $(SOURCE) $$(@D) && touch $$@'
$(K)/$(1)/built: $(call kdir,$(1))/built $(call stale,$(1))
	@mkdir -p $(K)
	rm -rf $(K)/module$(2)$(if $(2),, $(K)/*.ko)
	ln -sfnT $(call kdir,$(1)) $(K)/$(1); ln -sfnT $(SOURCE) $(K)/source
endef
# Variants besides board. Each is built only for goals that need it.
VARIANTS := debug kcsan lab uml
$(eval $(call kernel_rule,board,))
$(foreach v,$(VARIANTS),$(eval $(call kernel_rule,$(v),-$(v))))

# Each module is built in a folder of its own: build/VERSION/module-VARIANT/NAME.ko
module_sources = $(shell find $(1)/src $(1)/tests -name '*.[ch]' -o -name Kbuild 2> /dev/null | LC_ALL=C sort) recipes/kernel/src/build-module
define module_rule
$(K)/module$(2)/$(3).ko: $(call module_sources,$(4)) $(call stale,$(1)) | $(K)/$(1)/built
	@$$(call stage,$(3).ko for the $(1) kernel)
	$$(ENTER) recipes/kernel/src/build-module $(4) $(K)/$(1) $$(@D)/$(3) W=1 KCFLAGS=-Werror
	cp $$(@D)/$(3)/*.ko $$(@D)/
	touch $$@
endef
define module_rules
$(call module_rule,board,,$(1),$(2))
$(foreach v,$(VARIANTS),$(call module_rule,$(v),-$(v),$(1),$(2))
)$(K)/$(1).ko: $(K)/module/$(1).ko $(call stale,board)
	@cp $$< $$@
endef
module_name = $(shell sed -n 's/^obj-m := \(.*\)\.o/\1/p' $(1)/src/Kbuild)
MODULE_NAMES := $(foreach f,$(MODULES),$(call module_name,$(f)))
$(foreach f,$(MODULES),$(eval $(call module_rules,$(call module_name,$(f)),$(f))))

ifeq ($(BINARY),)
$(K)/bzImage: $(K)/board/built $(call stale,board)
	@cp $(K)/board/arch/x86/boot/bzImage $@
else
# A binary kernel is unpacked, not built
UNPACKED := $(C)/kernel-$(KERNEL)-$(call hash,recipes/kernel/src/unpack,$(PIN))
$(UNPACKED)/bzImage: | $(TOOLROOT)
	@$(call stage,kernel $(KERNEL),500)
	$(call once,$(UNPACKED)) bash -euc 'toolroot/fetch-package $(PIN) $(UNPACKED).deb; rm -rf $(UNPACKED).part
		$(ENTER) recipes/kernel/src/unpack $(UNPACKED).deb/*.deb $(UNPACKED).part
		rm -rf $(UNPACKED).deb; mv -T $(UNPACKED).part $(UNPACKED)'
$(K)/bzImage: $(UNPACKED)/bzImage $(if $(filter $(UNPACKED)/modules,$(shell readlink $(K)/modules)),,FORCE)
	@mkdir -p $(K)
	ln -sfnT $(UNPACKED)/modules $(K)/modules
	cp $< $@
endif
