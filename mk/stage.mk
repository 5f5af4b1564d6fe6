# SPDX-License-Identifier: Apache-2.0
# $(call stage,NAME,MB): the first line of a recipe. Prints NAME when the stage
# begins and its time when it ends, and refuses to begin with less than MB free.
define stage
mkdir -p $(B) $(C) || { echo "$(1): cannot write $(C). Set EVENKEEL_CACHE to another folder." >&2; exit 1; }
stage_free=$$(df --output=avail -m $(C) | tail -n 1 | tr -d ' ')
[ "$$stage_free" -ge $(or $(2),0) ] || { echo "$(1): needs $(2) MB in $(C), but only $$stage_free MB are free. Free some space, or set EVENKEEL_CACHE to another folder." >&2; exit 1; }
stage_name="$(1)"; stage_begin=$$SECONDS; echo "=== $$stage_name"
trap 'code=$$?; echo "--- $$stage_name: $$((SECONDS - stage_begin)) s$$([ $$code = 0 ] || echo ", failed")"; exit $$code' EXIT
endef
