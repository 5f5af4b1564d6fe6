#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Groups of unequal weight, called rivals, compete above a layer or on a file system. Each runs alone first, without a
# scheduler. Then all run together.
#   STACK   the layer above the device, as in stack.sh
#   COUNT   slices: the device counts by slice; groups: the kernel counts by group, at submission
#   RIVALS  a line `NAME WEIGHT FIO-OPTION...` for each rival
#   SETTLE, ALONE, WINDOW  seconds before a count begins, and of the count of a rival alone and of all together
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
. /guest/stack.sh
# count NAME: report the bytes that each slice or group has read and written so far
count() {
	if [ "$COUNT" = slices ]; then
		counters "$1"
		return
	fi
	devno=$(cat "/sys/block/$DEV/dev")
	{
		cut -d' ' -f1 /proc/uptime
		echo group
		i=0
		echo "$RIVALS" | while read -r name _; do
			awk -v i=$i -v devno="$devno" '$1 == devno { for (f = 2; f <= NF; f++) { split($f, p, "="); v[p[1]] = p[2] } }
				END { print i, v["rios"] + 0, v["rbytes"] + 0, 0, v["wios"] + 0, v["wbytes"] + 0, 0 }' "/cg/$name/io.stat"
			i=$((i + 1))
		done
		# Line 99 has what the flash model has served in total. It includes I/O that is charged to no group, such as a journal.
		if [ -d /sys/kernel/debug/flashsim ]; then
			awk 'NF == 7 && $1 ~ /^[0-9]/ { r += $3; w += $6 } END { print 99, 0, r, 0, 0, w, 0 }' \
				/sys/kernel/debug/flashsim/*/regions
		fi
	} | report "$1"
}
# rival NAME FIO-OPTION...: start fio in the group NAME. It runs until it is killed.
rival() {
	name=$1
	shift
	in_group "$name" fio --name="$name" --thread --time_based --runtime=36000 --zero_buffers --fallocate=none --norandommap \
		--random_generator=tausworthe64 "$@" > "/tmp/$name.log" 2>&1 &
}
# each COMMAND...: run COMMAND... NAME WEIGHT FIO-OPTION... for each rival
each() {
	number=0
	while read -r name weight options; do
		number=$((number + 1))
		# shellcheck disable=SC2086  # a list of options
		"$@" "$name" "$weight" $options --randseed=$((SEED * 1000 + number))
	done <<- END
		$RIVALS
	END
}
make_group() { group "$1" "$2"; }
# start NAME WEIGHT FIO-OPTION...: start a rival; its PID is in pid_NAME
start() {
	name=$1
	shift 2
	rival "$name" "$@"
	eval "pid_$name=\$!"
}
# alone NAME WEIGHT FIO-OPTION...: run a rival alone and count
alone() {
	start "$@"
	name=$1
	sleep "$SETTLE"
	count "alone.$name.begin"
	sleep "$ALONE"
	count "alone.$name.end"
	eval "pid=\$pid_$name"
	alive "$pid" "$name"
	over fio "$pid"
}
# check NAME...: end the guest with an error if the rival no longer runs
check() {
	eval "pid=\$pid_$1"
	alive "$pid" "$1"
}
device
board
stack
scheduler "$DEV"
each make_group
[ -z "${SECOND:-}" ] || scheduler "$SECOND"
scheduler "$DEV" none
[ -z "${SECOND:-}" ] || scheduler "$SECOND" none
each alone
scheduler "$DEV"
[ -z "${SECOND:-}" ] || scheduler "$SECOND"
each start
sleep "$SETTLE"
sleep 4
count begin
sleep "$WINDOW"
count end_
each check
cat "/sys/kernel/debug/block/$DEV/sched/state" 2> /dev/null | report state
cat /cg/*/io.evenkeel.stat 2> /dev/null | report stat
