#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Boots the board's image on a flash model, which has the name of an eMMC.
# The model keeps its data in the guest's memory, so the whole board runs on the virtual clock. QEMU's own disk does not:
# it is only read, before the board starts. /ranges lists the ranges of the image that contain data (start and length in bytes).
# /data has the files of the experiment. They go to the data partition: etc/1/upper there is the board's /etc.
uname -r | report kernel
device
while read -r start length; do
	dd if=/dev/vda of="/dev/$DEV" bs=1M count="$length" skip="$start" seek="$start" \
		iflag=count_bytes,skip_bytes oflag=seek_bytes conv=notrunc 2> /tmp/dd || fail "cannot copy the image: $(cat /tmp/dd)"
done < /ranges
sync
# The board must not find the labels of its partitions on two disks.
basename "$(readlink /sys/block/vda/device)" > /sys/bus/virtio/drivers/virtio_blk/unbind || fail "cannot remove the image's disk"
blockdev --rereadpt "/dev/$DEV" || fail "cannot read the partition table of the image"
partition() {
	for entry in "/sys/block/$DEV/$DEV"p*; do
		! grep -qx "PARTNAME=$1" "$entry/uevent" || { echo "/dev/${entry##*/}"; return; }
	done
	fail "the image has no partition $1"
}
mkdir -p /board
mount -t ext4 "$(partition data)" /board || fail "cannot mount the data partition"
mkdir -p /board/etc/1/upper/systemd/system/multi-user.target.wants
cp -r /data/. /board/
ln -s ../lab.service /board/etc/1/upper/systemd/system/multi-user.target.wants/lab.service
umount /board
mount -o ro "$(partition root-a)" /board || fail "cannot mount slot A"
mount -t devtmpfs dev /board/dev
echo 3 > /proc/sys/vm/drop_caches
date -s "@$NOW" > /dev/null
# As switch_root, but without deleting the archive: the process that ends a guest after LIMIT still needs it.
cd /board || fail "no slot A"
mount -o move . /
exec chroot . /usr/lib/evenkeel/preinit < /dev/console > /dev/console 2>&1
