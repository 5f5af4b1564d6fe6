# SPDX-License-Identifier: Apache-2.0
# $(call stage,NAME,MB): the first line of a target's commands. It prints NAME when the stage
# begins, and the stage's duration when it ends. It fails at once if the cache's disk has less
# than MB megabytes free (default: no check).
define stage
mkdir -p $(B) $(C) || { echo "$(1): cannot write $(C). Set EVENKEEL_CACHE to another folder." >&2; exit 1; }
stage_free=$$(df --output=avail -m $(C) | tail -n 1 | tr -d ' ')
[ "$$stage_free" -ge $(or $(2),0) ] || { echo "$(1): needs $(2) MB in $(C), but only $$stage_free MB are free. Free some space, or set EVENKEEL_CACHE to another folder." >&2; exit 1; }
stage_name="$(1)"; stage_begin=$$SECONDS; echo "=== $$stage_name"
trap 'code=$$?; echo "--- $$stage_name: $$((SECONDS - stage_begin)) s$$([ $$code = 0 ] || echo ", failed")"; exit $$code' EXIT
endef
