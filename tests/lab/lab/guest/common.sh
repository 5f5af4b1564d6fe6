#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Helpers of the scripts in this folder, in addition to those of guest.sh. lab/scripts.py sets these variables:
#   BOARD   sysctls of a board, NAME=VALUE
#   MOUNT   mount options of a board's /data
#   PLAYER  the command of the player, without the file
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables

# board: set a board's sysctls
board() {
	for setting in $BOARD; do
		echo "${setting#*=}" > "/proc/sys/$(echo "${setting%%=*}" | tr . /)" || fail "cannot set $setting"
	done
}
# quietly NAME COMMAND...: run a command; if it fails, end the guest with the last line that it printed
quietly() {
	what=$1
	shift
	"$@" > "/tmp/$what.log" 2>&1 || fail "$what failed: $(tail -n 1 "/tmp/$what.log")"
}
# partitions MIB: create two partitions, $PART of this size and $SPARE; filesystem() then uses $PART
partitions() {
	printf 'label: dos\n,%sMiB\n,\n' "$1" | sfdisk -q "/dev/$DEV" > /tmp/sfdisk.log 2>&1 ||
		fail "sfdisk failed: $(tail -n 1 /tmp/sfdisk.log)"
	PART=${DEV}p1 SPARE=${DEV}p2
	[ -b "/dev/$SPARE" ] || fail "$DEV has no partitions"
}
# filesystem TYPE: create a file system and mount it at /m. From then on the device has no scheduler.
filesystem() {
	echo none > "/sys/block/$DEV/queue/scheduler"
	options=noatime
	case $1 in
	ext4) # mkfs.ext4 itself initialises the inode tables, so that no thread of the kernel writes them later
		quietly mkfs mkfs.ext4 -q -F -N 65536 -E lazy_itable_init=0,lazy_journal_init=1,nodiscard "/dev/${PART:-$DEV}"
		options=$MOUNT
		;;
	f2fs)
		load crc32_generic
		load f2fs
		quietly mkfs mkfs.f2fs -q -t 0 "/dev/${PART:-$DEV}"
		;;
	btrfs)
		load btrfs
		quietly mkfs mkfs.btrfs -q -K "/dev/${PART:-$DEV}"
		;;
	esac
	mkdir -p /m
	mount -t "$1" -o "$options" "/dev/${PART:-$DEV}" /m || fail "cannot mount $1: $(dmesg | tail -n 1)"
}
# lay NAME SIZE [FIO OPTION...]: create a file of zeros in /m. It is written with direct I/O, not preallocated. So its
# extents are marked as written, as in a file that is in use.
lay() {
	file=$1 size=$2
	shift 2
	quietly lay fio --name=lay --filename="/m/$file" --size="$size" --bs=4m --rw=write --direct=1 --ioengine=libaio \
		--iodepth=4 --zero_buffers --fallocate=none "$@"
}
# forget: write all dirty pages, then empty the page cache
forget() {
	sync
	echo 3 > /proc/sys/vm/drop_caches
}
# alive PID NAME: end the guest with an error if the load NAME no longer runs
alive() { kill -0 "$1" 2> /dev/null || fail "$2 has ended: $(tail -n 1 "/tmp/$2.log")"; }
# over NAME PID...: end all processes of the program NAME, wait for these jobs, and empty the page cache
over() {
	killall -9 "$1"
	shift
	wait "$@" 2> /dev/null
	forget
}
# play: start the player in the group `player`. It plays /m/movie until played() ends it.
play() {
	# shellcheck disable=SC2086  # a command with its options
	in_group player $PLAYER /m/movie > /tmp/player 2> /tmp/player.log &
	player=$!
	sleep 2
}
# played: end the player and report its summary
played() {
	alive "$player" player
	killall -TERM ek-player
	wait "$player" || fail "the player failed: $(tail -n 1 /tmp/player.log)"
	report player < /tmp/player
}
# now_ms: time since boot in ms, in steps of 10 ms
now_ms() {
	read -r t _ < /proc/uptime
	echo "${t%.*}${t#*.}0"
}
# timed NAME COMMAND...: run a command and report its duration in ms, as section NAME
timed() {
	section=$1
	shift
	t0=$(now_ms)
	"$@"
	echo "$(($(now_ms) - t0))" | report "$section"
}
