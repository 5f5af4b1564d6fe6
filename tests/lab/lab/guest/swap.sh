#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A group uses more memory than it may, so it swaps to the device: alone, while a player plays, and next to a reader of the raw
# device. Its memory is a file of MB megabytes on a tmpfs, which it changes at random. It may have LIMIT bytes.
#   READER  the fio job of the reader, which begins after a reader of the same kind was measured alone
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
# count NAME: what each region of the device served, and the pages that were swapped in and out
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
# next to the player
sleep 1
play
count begin
sleep "$PLAYED"
count end_
played
# next to the reader
reading
sleep 4
count together
sleep "$WINDOW"
count together-end
alive "$reader" reader
alive "$big" big
