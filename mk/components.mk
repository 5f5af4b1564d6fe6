# SPDX-License-Identifier: Apache-2.0
# The table mk/components as variables of make.
# $(call component,AWK): the output of the awk statement AWK for each component's line
component = $(shell awk '!/^[ \t]*\043/ && NF { $(1) }' $(TOP)/mk/components)

COMPONENT_FOLDERS := $(call component,print $$2)
UNIT_PYTEST := $(call component,if ($$3 == "pytest") print $$2 "/tests")
UNIT_MESON := $(call component,if ($$3 == "meson") print $$2)
IMAGE_FOLDERS := $(call component,if ($$5 != "-") print $$2)
# arguments for recipes/image/src/build: --component FOLDER[:OPTION=VALUE]
IMAGE_COMPONENTS := $(subst @B@,$(B),$(call component,if ($$5 != "-") print "--component " $$2 ($$5 == "yes" ? "" : ":" $$5)))
# folders of the components that are kernel modules: those with a src/Kbuild
MODULES := $(foreach f,$(COMPONENT_FOLDERS),$(if $(wildcard $(TOP)/$(f)/src/Kbuild),$(f)))
