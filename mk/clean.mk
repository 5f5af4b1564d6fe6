# SPDX-License-Identifier: Apache-2.0
# Remove build/, or the cache. The removal of build/ is refused while a board runs from it.
.PHONY: run-clean run-clean-cache
run-clean:
	@for lock in $(B)/*/lock "$${EVENKEEL_RUN:-$(B)/run}/lock"; do
		EVENKEEL_RUN="$${lock%/lock}" recipes/image/src/stop --check || { echo "make clean: nothing was removed" >&2; exit 1; }
	done
	case $(C)/ in $(B)/ | $(B)/*/*/) echo "make clean: the cache $(C) is inside build/; set EVENKEEL_CACHE to another folder" >&2; exit 1 ;; esac
	[ ! -d $(B) ] || find $(B)/ -mindepth 1 -maxdepth 1 -not -path $(C) -exec rm -rf {} +
run-clean-cache:
	@mk/clean-cache $(C)
