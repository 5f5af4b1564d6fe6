#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# io.latency protects a group: while its requests take longer than its target, its peers get a shorter queue.
# It knows no weights. The protected group is the one with the largest weight; of several, the first one.
# The target is 15 % above the time that a read takes on the idle device: the kernel's documentation
# recommends 10 to 15 % above what io.stat shows in normal operation (Documentation/admin-guide/cgroup-v2.rst,
# IO Latency). On flash the kernel says that a group misses its target when 10 % of its requests do
# (block/blk-iolatency.c). Limits act among peers, so only groups below the root are considered.
# shellcheck disable=SC2154  # the runner sets the variables
control_group() {
	case $1 in */*) return ;; esac
	[ "$2" -gt "${protected_weight:-0}" ] || return 0
	devno=$(cat "/sys/block/$DEV/dev")
	if [ -n "${protected:-}" ]; then
		echo "$devno target=0" > "/cg/$protected/io.latency" || fail "cannot remove the target of $protected"
	fi
	protected=$1 protected_weight=$2
	echo "$devno target=$((read_us * 115 / 100))" > "/cg/$1/io.latency" || fail "cannot set io.latency of $1"
}
