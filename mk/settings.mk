# SPDX-License-Identifier: Apache-2.0
# Shell, folders and names that every other file of mk/ uses.
#   TOP  the clone        B  build/, for results of this clone
#   C    the cache        K  build/KERNEL, for results that belong to one kernel version
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

# If HOME is empty, as on some CI systems, the cache is in build/.
CACHE_WANTED := $(or $(EVENKEEL_CACHE),$(or $(XDG_CACHE_HOME),$(if $(HOME),$(HOME)/.cache,$(CURDIR)/build))/evenkeel)

# make cannot quote: it reads a path with a space as two words. toolroot/enter separates paths by colons.
ifneq ($(words [$(CURDIR)] [$(CACHE_WANTED)]),2)
$(error the paths of the clone and of EVENKEEL_CACHE must not contain spaces: '$(CURDIR)', '$(CACHE_WANTED)')
endif
ifneq ($(findstring :,$(CURDIR)$(CACHE_WANTED)),)
$(error the paths of the clone and of EVENKEEL_CACHE must not contain colons: '$(CURDIR)', '$(CACHE_WANTED)')
endif
override export EVENKEEL_CACHE := $(abspath $(CACHE_WANTED))

TOP := $(CURDIR)
KERNEL ?= 6.12
B := $(TOP)/build
K := $(B)/$(KERNEL)
C := $(EVENKEEL_CACHE)
VERSION_FILE := $(TOP)/VERSION

# Expensive results are in the cache. The name of a result contains a hash of its inputs. So changed
# inputs build a new result, and the old one is still there if you undo the change.
#   $(call hash,FILES,TEXT): the hash; comments and blank lines in FILES do not count
hash = $(shell cd $(TOP) && mk/hash '$(2)' $(1))
# $(call once,RESULT): prefix for a command that builds RESULT in the cache. If two clones
# need the same RESULT at the same time, only one of them builds it.
once = $(TOP)/mk/once $(1)

.PHONY: FORCE
FORCE:
