#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# iocost divides a device by weights, by a linear model of what a request costs it.
# The model's coefficients are those of this device, as the kernel's documentation recommends
# (Documentation/admin-guide/cgroup-v2.rst, io.cost.model). `qos` is the rest of a line of io.cost.qos.
# The weights are in io.weight, which group() of guest.sh sets.
# shellcheck disable=SC2154  # the runner sets the variables
control_device() {
	devno=$(cat "/sys/block/$1/dev")
	echo "$devno ctrl=user model=linear rbps=$rbps rseqiops=$rseqiops rrandiops=$rrandiops" \
		"wbps=$wbps wseqiops=$wseqiops wrandiops=$wrandiops" > /cg/io.cost.model ||
		fail "cannot set the cost model of $1"
	echo "$devno $qos" > /cg/io.cost.qos || fail "cannot set '$qos' as QoS of $1"
}
