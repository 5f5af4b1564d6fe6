#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# journald keeps a persistent journal while an application logs: first alone, then while another group writes a file on
# the same file system. `journalctl --sync` returns when all lines are durable. /guest/journald.conf has the board's settings.
#   LOAD   the fio command of the other group
#   LINES  number of lines that the application logs before each sync
#   LINE   the text of these lines
#   SYNCS  number of syncs while the other group writes
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
log() { # COUNT
	n=0
	while [ $n -lt "$1" ]; do
		echo "$n: $LINE"
		n=$((n + 1))
	done | in_group app systemd-cat -t pump || fail "cannot log"
}
syncs() { # COUNT SECTION: report the time of each sync in ms
	for _ in $(seq "$1"); do
		log "$LINES"
		t0=$(now_ms)
		in_group app journalctl --sync > /tmp/sync.log 2>&1 || fail "journalctl failed: $(tail -n 1 /tmp/sync.log)"
		echo "$(($(now_ms) - t0))"
	done | report "$2"
}
device
filesystem ext4
board
mkdir -p /run/systemd/journal /etc/systemd /var/log /m/journal
ln -s /m/journal /var/log/journal
cp /guest/journald.conf /etc/systemd/journald.conf
# journald looks for its cgroup below /sys/fs/cgroup
mount -t cgroup2 cg /sys/fs/cgroup || fail "cannot mount cgroups"
# journald needs a machine id. The file `flushed` tells it that /var is mounted.
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
touch /run/systemd/journal/flushed
scheduler "$DEV"
group journald 100
group app 100
group writer 100
in_group journald systemd-journald > /tmp/journald.log 2>&1 &
journald=$!
sleep 2
alive "$journald" journald
syncs 1 first
counters begin
syncs 5 alone
sync
counters end_
# shellcheck disable=SC2086  # a command with its options
in_group writer $LOAD > /tmp/writer.log 2>&1 &
writer=$!
sleep 6
syncs "$SYNCS" loaded
alive "$writer" writer
alive "$journald" journald
ls -l /m/journal/*/* | report files
