# SPDX-License-Identifier: Apache-2.0
# Write the generated parts of docs/ and README.md, and the pictures in docs/images/.
RESULTS := $(B)/bench/results.json

.PHONY: run-docs run-pictures
run-docs: $(TOOLROOT)
	@$(ENTER) python3 tests/components.py write
	$(ENTER) python3 recipes/recorder/tests/losses.py write
	$(ENTER) python3 webui/tests/asvs.py write
	$(ENTER) python3 webui/tests/routes.py write
	$(ENTER) env PYTHONPATH=recipes/agent/src python3 -m evenkeel_agent.reference > docs/reference/dbus.md
	if [ -e $(RESULTS) ]; then
		cd tests/lab && $(ENTER) python3 -m lab docs $(RESULTS)
	else
		echo "make docs: the tables of results stay as they are, because there is no $(RESULTS:$(TOP)/%=%); 'make bench' makes it"
	fi
run-pictures: $(IMAGE_FILE)
	@[ -e $(RESULTS) ] || { echo "make pictures: there is no $(RESULTS:$(TOP)/%=%); run 'make bench QUICK=1' or 'make bench' first" >&2; exit 1; }
	mkdir -p docs/images
	cd tests/lab && $(ENTER) python3 -m lab picture $(RESULTS) $(TOP)/docs/images/ratio.svg && cd $(TOP)
	DEEP=1 $(PYTEST) tests/browser -k picture
	$(ENTER) tests/browser/picture
