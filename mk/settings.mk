# SPDX-License-Identifier: Apache-2.0
# Shell, folders and names that every other file of mk/ uses.
#   TOP  the clone        B  build/, what this clone builds
#   C    the cache        K  build/VERSION, what belongs to one kernel
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

# An empty HOME (some CI systems) leaves no place for the cache but build/.
CACHE_WANTED := $(or $(EVENKEEL_CACHE),$(or $(XDG_CACHE_HOME),$(if $(HOME),$(HOME)/.cache,$(CURDIR)/build))/evenkeel)

# make has no quoting: it would read such a path as several words
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

# Expensive results live in the cache. Their names contain a hash of their inputs,
# so a change of inputs builds a new one and going back costs nothing.
#   $(call hash,FILES,TEXT): comments and blank lines in FILES do not count
hash = $(shell cd $(TOP) && mk/hash '$(2)' $(1))
# $(call once,RESULT): prefix of a command that makes RESULT in the cache. Two clones
# that want the same RESULT at the same time build it once.
once = $(TOP)/mk/once $(1)

.PHONY: FORCE
FORCE:
