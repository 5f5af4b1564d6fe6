#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A system update is written to a spare partition: first alone and without a scheduler, then while a player plays. Like
# RAUC, it writes through the page cache and calls fsync() at the end.
#   MB     size of the update in MiB
#   FIRST  size in MiB of the first partition, which gets the file system
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
update() {
	in_group update dd if=/dev/zero of="/dev/$SPARE" bs=1M count="$MB" conv=fsync,notrunc 2> /tmp/update.log ||
		fail "the update failed: $(tail -n 1 /tmp/update.log)"
}
device
partitions "$FIRST"
filesystem ext4
lay movie 44m
board
scheduler "$DEV"
group player 300
group update 100
scheduler "$DEV" none
forget
timed alone update
forget
scheduler "$DEV"
play
counters begin
timed together update
counters end_
played
