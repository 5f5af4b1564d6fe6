#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A container image is unpacked several times: first alone and without a scheduler, then while a player plays. The image is a tar
# archive, compressed with zstd. It is in memory, as if it came from the network. A round ends when its files are durable.
#   FILES, MB  number of files in the image, and their total size in MB
#   ROUNDS     how often the image is unpacked, each time
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
unpack() { # PREFIX: unpack the image to the folders /m/PREFIX1, /m/PREFIX2, ...
	for round in $(seq "$ROUNDS"); do
		mkdir "/m/$1$round"
		# shellcheck disable=SC2016  # for the inner shell
		in_group work sh -c 'zstd -dcq /tmp/image | /bin/tar -xf - -C "$0" && sync' "/m/$1$round" > /tmp/unpack.log 2>&1 ||
			fail "cannot unpack: $(tail -n 1 /tmp/unpack.log)"
	done
}
device
filesystem ext4
lay movie 44m
quietly prepare ek-appstart prepare --files "$FILES" --seed "$SEED" --total "$MB"MB /tmp/tree
/bin/tar -C /tmp/tree -cf - . | zstd -q -1 > /tmp/image || fail "cannot make the image"
rm -r /tmp/tree
board
scheduler "$DEV"
group player 300
group work 100
scheduler "$DEV" none
forget
timed alone unpack alone
rm -r /m/alone*
forget
scheduler "$DEV"
play
counters begin
timed together unpack together
counters end_
played
