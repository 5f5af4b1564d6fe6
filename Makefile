# SPDX-License-Identifier: Apache-2.0
# The public targets of Evenkeel. `make` alone lists them. The commands of the targets
# are in mk/, one topic per file:
#   settings  folders, names, the cache      components  the list of components
#   toolroot  the build root                 kernel      kernels and modules
#   image     the Debian image and the demo  yocto       the same image by BitBake
#   lab       guest programs and the bench   test        the stages of `make test`
#   search    random tests of the scheduler's policy
#   docs      generated documents, pictures  release     a release
#   supply    SBOM, licences, vulnerabilities
include mk/settings.mk mk/stage.mk mk/components.mk mk/toolroot.mk mk/kernel.mk mk/image.mk mk/supply.mk mk/yocto.mk
include mk/lab.mk mk/search.mk mk/test.mk mk/docs.mk mk/release.mk mk/clean.mk

.PHONY: help
help: ## this list
	@mk/help $(MAKEFILE_LIST)

##@ Try
.PHONY: demo stop image flash
demo: $(DEMO_NEEDS) ## boot the board in QEMU, print the panel's address (DETACH=1, FRESH=1, IMAGE=FILE)
	@exec $(DEMO)
stop: ## shut down a detached demo
	@recipes/image/src/stop
image: $(IMAGE_FILE) ## the disk image: build/image/evenkeel-x86_64.img
	@echo "image: $(IMAGE_FILE:$(TOP)/%=%) ($$(($$(stat -c %s $(IMAGE_FILE)) >> 20)) MiB), $$([ -s $(KEYRING_FILE) ] && echo 'trusts your certificates for updates' || echo 'accepts no updates (no KEYRING=FILE)'). 'make flash DEV=/dev/sdX' writes it to a medium."
flash: flash-image ## write the image to a medium, after asking: make flash DEV=/dev/sdX
	@recipes/image/src/flash "$(DEV)"

##@ Build
.PHONY: toolroot kernel module loads keys yocto-image
toolroot: $(TOOLROOT) ## the build root: the Debian tree in which everything is built
kernel: $(K)/bzImage ## the board's kernel: build/6.12/bzImage (KERNEL=7.3, 5.10)
module: $(foreach m,$(MODULE_NAMES),$(K)/$(m).ko) $(K)/bzImage ## the kernel modules: build/6.12/{evenkeel,flashsim,evenkeel_pagepool}.ko
loads: $(LAB_PROGRAMS) ## the programs of the lab and of its guests: build/{loads,recorder,oracle}
keys: run-keys ## keys that sign updates: make keys OUT=DIR, then make image KEYRING=DIR/keyring.pem. KEYS=DIR prints their state; with RENEW=signer|authority or REVOKE=CERT, it changes them
yocto-image: run-yocto-image ## the image by BitBake without internet, and its boot test: OECORE=DIR BITBAKE=DIR

##@ Ship
.PHONY: sbom cve
sbom: run-sbom ## what the image consists of: build/image/evenkeel-x86_64.spdx.json (SPDX), and .licences.txt next to it
cve: run-cve ## known vulnerabilities of the image, from data on disk: CVE_DATA=FILE (CVE_FAIL=update, CVE_MAX_AGE=DAYS, SBOM=FILE, VEX=FILE)

##@ Test
.PHONY: test lint unit kunit torture baselines lab guests supply boot browser pages fuzz search yocto
test: ## run the following targets from lint to pages, without baselines; print the time of each stage. Of long tests it runs samples; DEEP=1 runs all
	@exec tests/run-stages
lint: run-lint ## code style, types, spelling, sentences, commit messages
unit: unit-python unit-c unit-yocto ## unit tests in user space
kunit: run-kunit ## the scheduler's and flash model's unit tests in a kernel
torture: run-torture ## stress test of the scheduler on a kernel with KASAN and lockdep (VARIANT=kcsan: with KCSAN, for data races)
baselines: run-baselines ## check that each baseline of the lab takes effect; first builds the kernel with iocost and io.latency
lab: run-lab ## a third of the quick bench, drawn by a seed: its targets, and the figures of the README; DEEP=1 runs all of it
guests: run-guests ## tests of the flash model, the page pool and the lab itself, in QEMU; samples, or all with DEEP=1
supply: run-supply ## other tools check the SBOM of the image, and a second build must give the same bytes; DEEP=1 also builds kernel and Debian root again
boot: $(BOOT_STAGES) ## tests of the booted board
browser: run-browser ## a user sets weights in a browser; writes screenshots to build/screenshots
pages: run-pages ## tests of the panel's other pages in a browser
fuzz: $(TOOLROOT) ## repeat the property tests FUZZ=N times (default 20) with new examples; fuzz each parser of the recorder for 3*N seconds
	for i in $$(seq $(or $(FUZZ),20)); do $(PYTEST) -m hypothesis recipes tests/flashsim/tests; done
	$(ENTER) recipes/recorder/tests/fuzz/search --seconds $$((3 * $(or $(FUZZ),20)))
search: run-search ## look for random devices and loads that break the scheduler's promise: DRAWS=1000 SEED=N
yocto: run-yocto ## tests of the Yocto layer with BitBake: OECORE=DIR BITBAKE=DIR [METAOE=DIR] [METARAUC=DIR] [METAYOCTO=DIR]

##@ Measure
.PHONY: bench
bench: run-bench ## measure Evenkeel and the baselines: build/bench/{results.json,index.html} (QUICK=1: 10 min; QUICK=1 BASELINES=1: also the README's baselines; DEEP=1: everything)

##@ Maintain
.PHONY: format docs pictures release clean clean-cache
format: $(TOOLROOT) $(SOURCE)/Makefile ## format all code
	@$(ENTER) tests/format $(SOURCE)
docs: run-docs ## write the generated parts of docs/ and README.md
pictures: run-pictures ## make docs/images/ from the booted board and from build/bench/results.json
release: run-release ## check, version, build and tag a release: make release VERSION=x.y.z
clean: run-clean ## remove build/, but keep the cache
clean-cache: run-clean-cache ## remove the cache of build roots and kernels, which all clones of a user share
