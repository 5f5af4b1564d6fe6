# SPDX-License-Identifier: Apache-2.0
# The build root: the Debian tree in which everything is built (toolroot/README.md).
ROOT_ID := $(call hash,toolroot/packages toolroot/pins toolroot/preferences toolroot/python.txt toolroot/create)
export EVENKEEL_TOOLROOT := $(C)/toolroot-$(ROOT_ID)
ENTER := $(TOP)/toolroot/enter
PYTEST := $(ENTER) python3 -m pytest -q

# build/toolroot is a link to the build root. toolroot/enter reads the link when a person
# calls it without make. Targets that need the build root depend on the link.
TOOLROOT := $(B)/toolroot
$(TOOLROOT): $(if $(filter $(EVENKEEL_TOOLROOT),$(shell readlink $(TOOLROOT))),,FORCE) | $(EVENKEEL_TOOLROOT)/etc/evenkeel-toolroot
	@mkdir -p $(@D)
	ln -sfnT $(EVENKEEL_TOOLROOT) $@
$(EVENKEEL_TOOLROOT)/etc/evenkeel-toolroot:
	@$(call stage,build root,4000)
	$(call once,$(EVENKEEL_TOOLROOT)) toolroot/create $(EVENKEEL_TOOLROOT)
