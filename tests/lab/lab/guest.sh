#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# /init of a lab guest: mounts file systems, defines helpers, runs the experiment's script.
# The report goes to the second serial port, in sections that begin with "@@@ NAME".
# The host sets SEED, LIMIT, SCHEDULER, SCHEDULER_MODULE, SCHEDULER_SETTINGS, DEV and device()
# in /settings.sh. If the scheduler has a controller, /controller.sh is one of controllers/*.sh.
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing 2> /dev/null
mount -t configfs configfs /sys/kernel/config 2> /dev/null
mkdir -p /cg
mount -t cgroup2 cg /cg
echo '+io +memory' > /cg/cgroup.subtree_control
stty -F /dev/ttyS1 raw 2> /dev/null
report() { { echo "@@@ $1"; cat; } > /dev/ttyS1; }
# The machine ends at a restart (-no-reboot). Without ACPI, as in the debug kernel, it could not switch itself off.
finish() { echo | report end; reboot -f; }
fail() { echo "$*" | report failed; finish; }
# load NAME [PARAMETER=VALUE...]: load a module and the modules that it needs;
# does nothing if the module is loaded already or built into the kernel
load() {
	load_name=$1
	shift
	! grep -q "^$(echo "$load_name" | tr - _) " /proc/modules || return 0
	[ -e "/modules/$load_name.ko" ] || return 0
	for load_need in $(cat "/modules/$load_name.needs" 2> /dev/null); do
		(load "$load_need") || return 1
	done
	insmod "/modules/$load_name.ko" "$@" || fail "cannot load module $load_name $*: $(dmesg | tail -n 1)"
}
# A controller replaces these. The first follows scheduler DEVICE, the second follows group NAME WEIGHT.
control_device() { :; }
control_group() { :; }
# scheduler DEVICE [NAME]: set the scheduler under test with its settings, or another one
scheduler() {
	if [ $# = 1 ]; then
		[ -z "$SCHEDULER_MODULE" ] || load "$SCHEDULER_MODULE"
		echo "$SCHEDULER" > "/sys/block/$1/queue/scheduler" || fail "cannot set scheduler $SCHEDULER on $1"
		for setting in $SCHEDULER_SETTINGS; do
			echo "${setting#*=}" > "/sys/block/$1/queue/iosched/${setting%%=*}" || fail "cannot set $setting of $SCHEDULER"
		done
		control_device "$1"
	else
		case $2 in kyber) load kyber-iosched ;; *) load "$2" ;; esac
		echo "$2" > "/sys/block/$1/queue/scheduler" || fail "cannot set scheduler $2 on $1"
	fi
}
# group NAME WEIGHT: create a cgroup with a weight; each scheduler has its own weight file
group() {
	mkdir -p "/cg/$1"
	for f in io.weight io.evenkeel.weight io.bfq.weight; do
		[ ! -e "/cg/$1/$f" ] || echo "$2" > "/cg/$1/$f" || fail "cannot set $f of $1 to $2"
	done
	control_group "$1" "$2"
}
# in_group NAME COMMAND...: run a command in a cgroup
in_group() { (g=$1; shift; exec sh -c 'echo $$ > "/cg/$0/cgroup.procs" && exec "$@"' "$g" "$@"); }
# counters NAME: report what each slice of the flash model has served so far
counters() { { cut -d' ' -f1 /proc/uptime; cat /sys/kernel/debug/flashsim/*/regions; } | report "$1"; }
. /settings.sh
[ ! -e /controller.sh ] || . /controller.sh
# Ends a guest that hangs in guest time; the host could only wait. It is not a child
# of this shell, so that a script may wait for all of its children.
( (
	sleep "$LIMIT"
	echo w > /proc/sysrq-trigger # the log shows where each blocked task waits
	fail "no end within $LIMIT s of guest time; processes: $(ps -o args | awk 'NR > 1 && !/^\[/' | sort -u | tr '\n' ';')"
) & )
uname -r | report kernel
# Each seed starts at another phase of the kernel's timers and ticks. A maximum depends on that phase.
usleep "$(((SEED - 1) * 7919 % 20011))"
. /experiment.sh
finish
