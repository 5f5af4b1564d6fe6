#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# /init of a lab guest: mounts, helpers, then the experiment's script.
# Reports go to the second serial port in sections that begin with "@@@ NAME".
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debugfs /sys/kernel/debug
mkdir -p /cg
mount -t cgroup2 cg /cg
echo '+io +memory' > /cg/cgroup.subtree_control
stty -F /dev/ttyS1 raw 2>/dev/null
report() { { echo "@@@ $1"; cat; } > /dev/ttyS1; }
finish() { echo | report end; sync; poweroff -f; }
fail() { echo "$*" | report failed; finish; }
load() { m=$1; shift; insmod "/modules/$m.ko" "$@" || fail "cannot load module $m"; }
# the scheduler of a device, with its module where it has one
scheduler() {
	case $2 in bfq|kyber-iosched|mq-deadline|evenkeel) [ ! -e "/modules/$2.ko" ] || grep -q "^$(echo "$2" | tr - _) " /proc/modules || load "$2" ;; esac
	echo "${2%-iosched}" > "/sys/block/$1/queue/scheduler" || fail "cannot set scheduler $2 on $1"
}
# a cgroup with a weight, in the file of the scheduler that is tested
group() {
	mkdir -p "/cg/$1"
	for f in io.weight io.evenkeel.weight io.bfq.weight; do
		[ ! -e "/cg/$1/$f" ] || echo "$2" > "/cg/$1/$f" || fail "cannot set $f of $1 to $2"
	done
}
# run a command in a cgroup
in_group() { (g=$1; shift; exec sh -c 'echo $$ > "/cg/$0/cgroup.procs" && exec "$@"' "$g" "$@"); }
. /experiment.sh
finish
