#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A group needs more memory than its limit, so it swaps to the device: first alone and without a scheduler, then while a
# player plays, then while another group reads the raw device. The memory is a file on a tmpfs, which the group reads and
# changes at random.
#   MB      size of this file in MiB
#   LIMIT   memory limit of the group, as in memory.max
#   READER  the fio command of the reader of the raw device, which also runs alone first
#   FIRST   size in MiB of the first partition, which gets the file system and the swap file
#   PLAYED, WINDOW  seconds of the count with the player, and of the count with the reader
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
swapping() {
	in_group big fio --name=big --filename=/tmp/big --size="$MB"m --rw=randrw --bs=4k --ioengine=psync --norandommap --fallocate=none \
		--time_based --runtime=36000 --refill_buffers --random_generator=tausworthe64 --randseed="$SEED" \
		--output=/tmp/big.out > /tmp/big.log 2>&1 &
	big=$!
}
reading() {
	# shellcheck disable=SC2086  # a command with its options
	in_group reader $READER > /tmp/reader.log 2>&1 &
	reader=$!
}
# count NAME: report what each slice of the device has served, and how many pages were swapped in and out
count() {
	counters "$1"
	grep -E '^pswp(in|out) ' /proc/vmstat | report "$1-pages"
}
device
partitions "$FIRST"
filesystem ext4
lay movie 44m
lay swap 512m
mkswap /m/swap > /dev/null || fail "mkswap failed"
swapon /m/swap || fail "swapon failed: $(dmesg | tail -n 1)"
board
scheduler "$DEV"
group player 300
group reader 300
group big 100
echo "$LIMIT" > /cg/big/memory.max
scheduler "$DEV" none
forget
# the reader alone
reading
sleep 2
count reader
sleep 4
count reader-end
alive "$reader" reader
over fio "$reader"
# the swapping group alone
swapping
sleep 5
count big
sleep 4
count big-end
alive "$big" big
scheduler "$DEV"
# the swapping group and the player
sleep 1
play
count begin
sleep "$PLAYED"
count end_
played
# the swapping group and the reader
reading
sleep 4
count together
sleep "$WINDOW"
count together-end
alive "$reader" reader
alive "$big" big
