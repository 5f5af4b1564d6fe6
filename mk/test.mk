# SPDX-License-Identifier: Apache-2.0
# The stages of `make test`. tests/stages has their order and time budgets.

# tests of the booted board, from tests/stages; tests/boot/test_NAME.py is the stage boot-NAME
BOOT_STAGES := $(shell awk '/^boot-/ { print $$1 }' $(TOP)/tests/stages)

# Building a kernel is a stage separate from the tests on it, because a build keeps all cores busy, and
# the tests keep only one busy.
.PHONY: debug-kernel uml-kernel
debug-kernel: $(K)/module-debug/evenkeel.ko
uml-kernel: $(foreach m,$(MODULE_NAMES),$(K)/module-uml/$(m).ko)

.PHONY: unit-python unit-c unit-yocto $(BOOT_STAGES) run-kunit run-torture run-lab run-guests run-browser run-pages run-lint run-supply

unit-python: $(TOOLROOT) $(VENDOR)
	@$(call stage,unit tests in Python)
	@# The limit is the usual one. With a higher one, tests that leave files open are not seen here.
	ulimit -n 1024; $(PYTEST) --hypothesis-profile=ci $(UNIT_PYTEST) tests/unit tests/lab/tests
unit-c: $(TOOLROOT)
	@$(call stage,unit tests under the sanitizers)
	$(ENTER) tests/meson $(UNIT_MESON)
unit-yocto: $(TOOLROOT)
	@$(call stage,recipes of the Yocto layer against the components)
	$(PYTEST) tests/yocto
run-lint: $(TOOLROOT) $(SOURCE)/Makefile $(K)/board/built
	@$(call stage,lint)
	tests/lint-commits
	$(ENTER) tests/lint $(SOURCE) $(K)/board
run-kunit: $(foreach m,$(MODULE_NAMES),$(K)/module-uml/$(m).ko)
	@$(call stage,KUnit)
	EVENKEEL_KERNEL=$(KERNEL) $(PYTEST) tests/kunit
# With VARIANT=kcsan, the torture tests run on the kernel that finds data races.
run-torture: VARIANT := $(or $(VARIANT),debug)
run-torture: $(K)/module-$(or $(VARIANT),debug)/evenkeel.ko
	@$(call stage,torture on the $(VARIANT) kernel)
	EVENKEEL_KERNEL=$(KERNEL) EVENKEEL_TORTURE_VARIANT=$(VARIANT) $(PYTEST) tests/torture
run-lab: $(LAB_NEEDS)
	@$(call stage,lab,1000)
	$(PYTEST) -s tests/bench/test_bench.py tests/bench/test_pictures.py
# one guest at a time, where the quick bench runs two
run-guests: $(LAB_NEEDS)
	@$(call stage,guests,1000)
	$(PYTEST) -s tests/flashsim/guest tests/pagepool tests/bench/test_guests.py tests/bench/test_mutants.py
$(BOOT_STAGES): $(IMAGE_FILE)
	@$(call stage,$@)
	$(PYTEST) --durations=15 tests/boot/test_$(subst -,_,$(@:boot-%=%)).py
# With DEEP=1, the second build also makes a kernel and the Debian root.
run-supply: $(IMAGE_FILE)
	@$(call stage,supply,$(if $(DEEP),6000,1000))
	EVENKEEL_ROOT_TAR=$(ROOT_TAR) $(PYTEST) tests/supply
run-browser: $(IMAGE_FILE)
	@$(call stage,browser)
	# The time limit ends pytest if the browser no longer answers. SIGABRT makes Python print where it waited.
	$(ENTER) timeout --foreground --signal=ABRT 30m python3 -m pytest -q -s tests/browser/test_bench_page.py tests/browser/test_panel.py
run-pages: $(IMAGE_FILE)
	@$(call stage,pages)
	# with DEEP=1, the stage takes twice as long
	$(ENTER) timeout --foreground --signal=ABRT $(if $(DEEP),60m,30m) python3 -m pytest -q -s --ignore=tests/browser/test_bench_page.py --ignore=tests/browser/test_panel.py tests/browser
