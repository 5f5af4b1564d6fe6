#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An application commits to SQLite: first alone and without a scheduler, then while another group writes.
#   FIRST    size in MiB of the first partition, which gets the file system; 0: no partitions
#   JOURNAL  SQLite's journal mode
#   LOAD     the fio command of the other group
#   EVERY    time between planned commits
#   LOOP, PLANNED  seconds of commits without a pause, and of planned commits
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
commits() { # NAME OPTION...
	name=$1
	shift
	in_group app ek-commits --journal "$JOURNAL" --json "$@" "/m/$name.db" > "/tmp/$name" 2> "/tmp/$name.log" ||
		fail "$name failed: $(tail -n 1 "/tmp/$name.log")"
	report "$name" < "/tmp/$name"
}
device
[ "$FIRST" = 0 ] || partitions "$FIRST"
filesystem ext4
board
# the weight files exist once the scheduler's module is loaded
scheduler "$DEV"
group app 100
group writer 100
scheduler "$DEV" none
forget
counters begin
commits alone --duration 4s
sync
counters end_
scheduler "$DEV"
# shellcheck disable=SC2086  # a command with its options
in_group writer $LOAD > /tmp/writer.log 2>&1 &
writer=$!
sleep 6
commits loop --duration "$LOOP"s
commits planned --every "$EVERY" --duration "$PLANNED"s
alive "$writer" writer
