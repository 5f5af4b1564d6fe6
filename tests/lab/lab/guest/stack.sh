#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# stack: create the layer $STACK above the device. A layer that is a block device is /dev/mapper/top; a file system is
# mounted at /m. SECOND is the name of the second device below the layer, if there is one. Some layers have variables of
# their own, which lab/experiments/stacks.py sets: KEY, DELAY_MS, PRESET and SECOND_SETTINGS, BLOCKS, LAID (NAME:SIZE ...).
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
export DM_DISABLE_UDEV=1
# mapped TARGET ARGUMENT...: create /dev/mapper/top, as large as the device, with this target of the device mapper
mapped() {
	sectors=$(cat "/sys/block/$DEV/size")
	quietly dmsetup dmsetup create top --table "0 $sectors $*"
	[ -b /dev/mapper/top ] || quietly mknodes dmsetup mknodes
}
stack() {
	case $STACK in
	none) # no layer: /dev/mapper/top is a link to the device
		mkdir -p /dev/mapper
		ln -s "/dev/$DEV" /dev/mapper/top
		;;
	crypt | crypt-inline)
		load aesni-intel
		load xts
		load dm-crypt
		more=
		# crypt-inline: the submitter itself encrypts and submits, not a thread of dm-crypt
		[ "$STACK" = crypt ] || more="2 no_read_workqueue no_write_workqueue"
		mapped "crypt aes-xts-plain64 $KEY 0 /dev/$DEV 0 $more"
		;;
	delay)
		load dm-delay
		mapped "delay /dev/$DEV 0 $DELAY_MS"
		;;
	raid1)
		SECOND=flashsim1
		at=/sys/kernel/config/flashsim/$SECOND
		mkdir "$at" || fail "cannot create $SECOND"
		echo "$PRESET" > "$at/preset"
		for setting in $SECOND_SETTINGS; do
			echo "${setting#*=}" > "$at/${setting%%=*}" || fail "cannot set $setting of $SECOND"
		done
		echo 1 > "$at/power" || fail "cannot power $SECOND"
		load raid1
		quietly mdadm mdadm --build /dev/md0 --run --level=1 --raid-devices=2 --assume-clean "/dev/$DEV" "/dev/$SECOND"
		mkdir -p /dev/mapper
		ln -s /dev/md0 /dev/mapper/top
		;;
	verity) # the data are at the start of the device, and their hashes follow
		quietly veritysetup veritysetup format "/dev/$DEV" "/dev/$DEV" --data-blocks "$BLOCKS" --hash-offset "$((BLOCKS * 4096))"
		hash=$(awk '/^Root hash:/ { print $3 }' /tmp/veritysetup.log)
		quietly open veritysetup open "/dev/$DEV" top "/dev/$DEV" "$hash" --hash-offset "$((BLOCKS * 4096))"
		[ -b /dev/mapper/top ] || quietly mknodes dmsetup mknodes
		;;
	ext4 | f2fs | btrfs)
		filesystem "$STACK"
		for file in $LAID; do
			lay "${file%%:*}" "${file#*:}"
		done
		;;
	*) fail "no stack $STACK" ;;
	esac
	forget
}
