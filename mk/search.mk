# SPDX-License-Identifier: Apache-2.0
# build/ek-sim runs the scheduler's policy code in user space on simulated devices. The
# search runs it on random devices and loads, and looks for a broken promise.
SIM := recipes/scheduler/src/sim
SIM_SOURCES := $(wildcard $(SIM)/*.[ch] $(SIM)/build recipes/scheduler/src/core/* recipes/scheduler/src/*.h tests/flashsim/src/*.[ch])

$(B)/ek-sim: $(SIM_SOURCES) | $(TOOLROOT)
	mkdir -p $(B)
	$(ENTER) $(SIM)/build $@

.PHONY: run-search
run-search: $(B)/ek-sim
	@$(call stage,search)
	$(ENTER) python3 $(SIM)/search.py $(B)/ek-sim --draws $(or $(DRAWS),1000) --jobs 2 $(if $(SEED),--seed $(SEED))
