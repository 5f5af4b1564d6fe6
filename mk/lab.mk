# SPDX-License-Identifier: Apache-2.0
# The programs of the lab and of its guests, and the bench.
LOADS := $(B)/loads
RECORDER := $(B)/recorder
ORACLE := $(B)/oracle
GUEST_PROGRAMS := $(LOADS)/ek-player $(LOADS)/ek-pairs $(RECORDER)/ek-recorder
# The lab runs the oracle on the host, not in a guest.
LAB_PROGRAMS := $(GUEST_PROGRAMS) $(ORACLE)/ek-oracle
LAB_NEEDS := $(K)/evenkeel.ko $(K)/flashsim.ko $(K)/evenkeel_pagepool.ko $(K)/bzImage $(LAB_PROGRAMS)
# The bytes of a program must not depend on the clone's path, because the lab stores
# a guest's report under a hash of the guest's programs.
MESON_SETUP := $(ENTER) env CFLAGS=-ffile-prefix-map=$(CURDIR)=. meson setup
# kernels on which the full bench measures, in addition to 6.12
BENCH_KERNELS := 7.3

# $(call meson_build,NAME,FOLDER,OPTIONS): build FOLDER in build/NAME
define meson_build
@$(call stage,$(1))
[ -e $(B)/$(1)/build.ninja ] || $(MESON_SETUP) $(B)/$(1) $(2) --prefix=/usr $(3) > $(B)/$(1).log || { cat $(B)/$(1).log; exit 1; }
$(ENTER) meson compile -C $(B)/$(1) > $(B)/$(1).log || { cat $(B)/$(1).log; exit 1; }
endef
program_sources = $(wildcard recipes/common/src/*) $(VERSION_FILE) $(shell find $(1) -name 'meson.*' -o -path '*/src/*' -type f -not -name '*.py' -not -name '*.pyc')

$(LOADS)/ek-player: $(call program_sources,recipes/loads) | $(TOOLROOT)
	$(call meson_build,loads,recipes/loads)
	touch $@

$(RECORDER)/ek-recorder: $(call program_sources,recipes/recorder) | $(TOOLROOT)
	$(call meson_build,recorder,recipes/recorder,-Dtests=disabled)
	touch $@

$(ORACLE)/ek-oracle: $(call program_sources,tests/lab/oracle) $(wildcard tests/flashsim/src/flashsim_[tp]*.[ch] tests/flashsim/tests/user_space.h) | $(TOOLROOT)
	$(call meson_build,oracle,tests/lab/oracle,-Dtests=disabled)
	touch $@

# ek-pairs belongs to ek-validate, which runs it to find flash channels.
$(LOADS)/ek-pairs: recipes/validate/src/ek_pairs.c recipes/validate/meson.build $(VERSION_FILE) | $(TOOLROOT)
	$(call meson_build,validate,recipes/validate)
	mkdir -p $(LOADS)
	cp $(B)/validate/ek-pairs $@

# Modules for the kernel variant `lab`, which has baselines and layers that the board's kernel lacks. To build them,
# make also builds that kernel.
LAB_KERNEL := $(foreach m,$(MODULE_NAMES),$(K)/module-lab/$(m).ko)

.PHONY: run-bench bench-kernels run-baselines
# bench-kernels is a separate target, because `make -n` really runs a recipe that contains $(MAKE).
bench-kernels: $(TOOLROOT) $(if $(and $(QUICK),$(if $(BASELINES),,1)),,$(LAB_KERNEL))
	@for version in $(if $(QUICK),,$(BENCH_KERNELS)); do $(MAKE) --no-print-directory module KERNEL=$$version; done
	$(if $(QUICK),:,$(MAKE) --no-print-directory kernel KERNEL=5.10)
# The guest of the rows panel.*, which are deep, is the board's image.
run-bench: $(LAB_NEEDS) $(if $(DEEP),$(IMAGE_FILE)) bench-kernels
	@$(call stage,bench,2000)
	cd tests/lab
	$(ENTER) python3 -m lab bench $(if $(QUICK),--quick) $(if $(BASELINES),--baselines) $(if $(DEEP),--deep) $(BENCH_OPTIONS)
run-baselines: $(LAB_NEEDS) $(LAB_KERNEL)
	@$(call stage,baselines)
	$(PYTEST) -s tests/baselines
