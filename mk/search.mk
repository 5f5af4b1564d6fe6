# SPDX-License-Identifier: Apache-2.0
# The policy core on simulated devices: build/ek-sim, and the search with it.
SIM := recipes/scheduler/src/sim
SIM_SOURCES := $(wildcard $(SIM)/*.[ch] $(SIM)/build recipes/scheduler/src/core/* recipes/scheduler/src/*.h tests/flashsim/src/*.[ch])

$(B)/ek-sim: $(SIM_SOURCES) | $(TOOLROOT)
	mkdir -p $(B)
	$(ENTER) $(SIM)/build $@

.PHONY: run-search
run-search: $(B)/ek-sim
	@$(call stage,search)
	$(ENTER) python3 $(SIM)/search.py $(B)/ek-sim --draws $(or $(DRAWS),1000) --jobs 2 $(if $(SEED),--seed $(SEED))
