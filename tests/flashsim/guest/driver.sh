# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Tests the flashsim driver in a lab guest. test_guest.py puts it into /experiment.sh,
# which runs after guest.sh has mounted all file systems. parts() is that of the
# calibration: it traces a mixture of requests and sums up their parts. A check that
# fails calls fail, which ends the guest.
c=/sys/kernel/config/flashsim t=/sys/kernel/tracing d=/sys/kernel/debug/flashsim
uname -r | report kernel

# --- invalid parameters are refused with a message that names them
refused() { # TEXT PARAMETERS...
	text=$1
	shift
	! insmod /modules/flashsim.ko "$@" 2> /dev/null || fail "flashsim loads with $*"
	dmesg | tail -n 1 | grep -qF "$text" || fail "$*: the log lacks '$text': $(dmesg | tail -n 1)"
}
refused 'no preset "floppy"; there are: emmc51' preset=floppy
refused '"bogus=1" is not PARAMETER=VALUE; there are: kind capacity_mb' preset=pipe set=bogus=1
refused 'depth is "9999", must be a number from 1 to 256' preset=pipe set=depth=9999

# --- configfs
insmod /modules/flashsim.ko || fail "flashsim does not load without parameters"
[ ! -e /dev/flashsim0 ] || fail "there is a device without a preset"
mkdir $c/x && cd $c/x || fail "cannot create a directory in configfs"
set_to() { echo "$2" > "$1" || fail "cannot write $2 to $1"; }
not_set() { ! echo "$2" > "$1" 2> /dev/null || fail "$1 accepted $2"; }
set_to preset emmc51
set_to memory_backed 1
set_to capacity_mb 1024
set_to timeout_ms 1000
not_set depth 9999
not_set preset floppy
not_set power_cut drop
not_set hang_ms 1
set_to power 1
not_set depth 3
not_set preset pipe
[ "$(cat depth power kind map | tr '\n' ' ')" = "32 1 flash stripe " ] || fail "wrong parameters: $(cat depth power kind map)"
[ "$(cat /sys/block/x/queue/write_cache /sys/block/x/queue/fua | tr '\n' ' ')" = "write back 1 " ] || fail "the device has no volatile cache"
grep -q '^depth 32$' $d/x/timing || fail "the file timing in debugfs has no depth of 32"

# --- data read back as written, and the parts of each request sum up
fio --name=verify --filename=/dev/x --direct=1 --ioengine=libaio --rw=randrw --bsrange=512-256k --iodepth=32 \
	--size=128m --io_size=48m --verify=crc32c --verify_fatal=1 --fsync=20 --output=/tmp/out || fail "$(tail -n 3 /tmp/out)"
DEV=x parts
echo > $t/trace
number() { awk -v name="$2" '$1 == name { print $2 }' "$d/$1/stats"; }
[ "$(number x max_queue)" -gt 8 ] || fail "emmc51 with a command queue had at most $(number x max_queue) requests in the device"

# --- discards during other I/O: data elsewhere stay
discards() { # DEVICE
	fio --filename="/dev/$1" --direct=1 --ioengine=libaio --iodepth=16 --output=/tmp/out --fallocate=none \
		--name=data --rw=randrw --bs=64k --offset=64m --size=32m --io_size=8m --verify=crc32c --verify_fatal=1 \
		--name=trim --rw=randtrim --bs=128k --offset=256m --size=128m --io_size=4m || fail "$1: $(tail -n 3 /tmp/out)"
	[ "$(number "$1" discards)" -ge 32 ] || fail "$1: only $(number "$1" discards) discards"
}
discards x

# --- injected errors
reads() { dd if=/dev/x of=/dev/null bs=4k skip="$1" count="${2:-1}" iflag=direct 2> /dev/null; }
set_to fail_every 10
bad=0
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do reads $i || bad=$((bad + 1)); done
[ $bad = 3 ] || fail "fail_every=10: $bad of 30 failed"
set_to fail_every 0
set_to fail_lba 800
set_to fail_sectors 8
reads 99 && reads 101 || fail "a read next to the bad sectors failed"
! reads 100 || fail "a read of bad sectors succeeded"
set_to fail_sectors 0
reads 100 || fail "the sectors stay bad after fail_sectors=0"

# --- a command that hangs longer than timeout_ms fails once, and the others do not fail
before=$(number x errors)
set_to hang_ms 100000
dd if=/dev/x of=/dev/null bs=4k skip=7 count=1 iflag=direct 2> /tmp/hung &
hung=$!
sleep 0.1
reads 8 100 || fail "a read behind a command that hangs failed"
! wait $hung || fail "a command that hangs for 100 s did not fail"
set_to hang_ms 300
begin=$(cut -d. -f1 /proc/uptime)
reads 9 || fail "a command that hangs for 0.3 s failed"
[ $(($(cut -d. -f1 /proc/uptime) - begin)) -le 20 ] || fail "a hang of 0.3 s took more than 20 s"
[ "$(number x errors)" = $((before + 1)) ] || fail "not exactly one more error: $(cat $d/x/stats)"
[ "$(number x timeouts)" = 1 ] || fail "not exactly one timeout: $(cat $d/x/stats)"

# --- a power cut: flushed data stay, other data are dropped, kept or torn
letters() { dd if=/dev/zero bs=4k count=16 2> /dev/null | tr '\0' "$1" | dd of=/dev/x bs=4k seek="$2" oflag=direct "$3" 2> /dev/null; }
others() { dd if=/dev/x bs=4k skip="$1" count=16 iflag=direct 2> /dev/null | tr -d "$2" | wc -c; }
for how in drop keep tear; do
	letters A 1000 conv=fsync
	letters C 2000 conv=fsync
	letters B 1000 conv=notrunc
	[ "$(others 1000 B)" = 0 ] || fail "$how: unflushed data do not read back"
	set_to power_cut $how
	! reads 0 || fail "$how: a read succeeded without power"
	set_to power_restore 1
	echo "$how $(others 1000 A) $(others 1000 B) $(others 1000 AB) $(others 2000 C)"
done > /tmp/cut
report cut < /tmp/cut
not_set power_restore 1
busy() { until [ "$(number "$1" in_device)" -gt 0 ]; do sleep 0.01; done; }
# a power cut with I/O in flight: each request ends
fio --name=cut --filename=/dev/x --direct=1 --ioengine=libaio --rw=randrw --bs=64k --iodepth=32 --size=64m \
	--time_based --runtime=20 --output=/dev/null 2> /dev/null &
fio=$!
busy x
set_to power_cut tear
wait $fio && fail "I/O continued without power"
set_to power_restore 1
reads 0 100 || fail "reads fail after the power is back"

# --- an eMMC without CQE: queue_rq sleeps, and the device has one request at a time
mkdir $c/s && cd $c/s || fail "cannot create a second directory in configfs"
set_to preset emmc50-slow
set_to memory_backed 1
set_to capacity_mb 512
set_to timeout_ms 1000
set_to power 1
fio --name=serial --filename=/dev/s --direct=1 --ioengine=libaio --rw=randrw --bsrange=512-256k --iodepth=32 \
	--size=64m --io_size=16m --verify=crc32c --verify_fatal=1 --fsync=20 --output=/tmp/out || fail "serial: $(tail -n 3 /tmp/out)"
discards s
# the interrupt completes a request with CQE, a process without: the third flag of a trace line is h in an interrupt
completes() { # DEVICE
	echo > $t/trace
	echo 1 > $t/events/block/block_rq_complete/enable
	dd if="/dev/$1" of=/dev/null bs=4k count=20 iflag=direct 2> /dev/null || fail "$1: cannot read"
	echo 0 > $t/events/block/block_rq_complete/enable
	awk '/block_rq_complete/ { n++; h += substr($3, 3, 1) != "." } END { print n + 0, h + 0 }' $t/trace
}
[ "$(completes x)" = "20 20" ] || fail "emmc51: not all of 20 requests were completed in an interrupt: $(completes x)"
[ "$(completes s)" = "20 0" ] || fail "emmc50-slow: of 20 requests, some were completed in an interrupt: $(completes s)"
[ "$(number s max_queue)" = 1 ] || fail "blocking=1,active=1: $(number s max_queue) requests at once in the device"
reads_s() { dd if=/dev/s of=/dev/null bs=4k skip="$1" count="${2:-1}" iflag=direct 2> /dev/null; }
set_to hang_ms 100000
dd if=/dev/s of=/dev/null bs=4k skip=7 count=1 iflag=direct 2> /tmp/hung &
hung=$!
sleep 0.1
reads_s 8 100 || fail "serial: a read that waits in queue_rq failed"
! wait $hung || fail "serial: a command that hangs for 100 s did not fail"
[ "$(number s timeouts) $(number s errors)" = "1 1" ] || fail "serial: not exactly one timeout: $(cat $d/s/stats)"
# The power goes while a process waits in queue_rq for a request that the timer has found done. For that the process
# must not get the CPU: the shell has the same CPU and the highest priority, and lets the request end before the cut.
affinity=$(taskset -p $$ | awk '{ print $NF }')
taskset -p 1 $$ > /dev/null && renice -n -20 $$ || fail "cannot pin the shell to CPU 0"
for n in 1 2 3 4; do
	taskset 1 fio --name=cut --filename=/dev/s --direct=1 --ioengine=libaio --rw=randrw --bs=64k --iodepth=32 --size=64m \
		--time_based --runtime=20 --nice=19 --output=/dev/null > /dev/null 2>&1 &
	fio=$!
	busy s
	spin=0
	while [ $spin -lt 3000 ]; do spin=$((spin + 1)); done
	set_to power_cut drop
	wait $fio && fail "serial: I/O continued without power, cut $n"
	set_to power_restore 1
done
renice -n 20 $$ && taskset -p "$affinity" $$ > /dev/null || fail "cannot release the shell from CPU 0"
for n in 1 2 3 4 5 6 7 8; do
	fio --name=cut --filename=/dev/s --direct=1 --ioengine=libaio --rw=randrw --bs=64k --iodepth=32 --size=64m \
		--time_based --runtime=20 --output=/dev/null > /dev/null 2>&1 &
	fio=$!
	busy s
	usleep $((n * 777))
	set_to power_cut drop
	wait $fio && fail "serial: I/O continued without power, cut $n"
	set_to power_restore 1
done
reads_s 0 100 || fail "serial: reads fail after the power is back"
fio --name=gone --filename=/dev/s --direct=1 --ioengine=libaio --rw=randread --bs=64k --iodepth=32 --size=64m \
	--time_based --runtime=2 --output=/dev/null > /dev/null 2>&1 &
fio=$!
busy s
cd $c/x && rmdir $c/s || fail "serial: cannot remove the device with I/O in flight"
wait $fio

# --- removal
# shellcheck disable=SC2217  # it holds the device open
sleep 100 < /dev/x &
user=$!
sleep 0.1
not_set power 0
cd /
rmmod flashsim 2> /dev/null && fail "the module was unloaded while its device was open"
kill $user
wait $user
# reads of a removed device find the end of the file, so fio does not fail
fio --name=gone --filename=/dev/x --direct=1 --ioengine=libaio --rw=randread --bs=64k --iodepth=32 --size=64m \
	--time_based --runtime=2 --output=/dev/null > /dev/null 2>&1 &
fio=$!
busy x
rmdir $c/x || fail "cannot remove the device with I/O in flight"
wait $fio
[ ! -b /dev/x ] || fail "the device still exists"
rmmod flashsim || fail "the module does not unload"

# --- a file system
insmod /modules/flashsim.ko preset=emmc51 set=memory_backed=1,capacity_mb=256 || fail "flashsim does not load"
[ -d $c/flashsim0 ] || fail "the first device is not in configfs"
mkfs.ext4 -q /dev/flashsim0 > /tmp/out 2>&1 || fail "$(cat /tmp/out)"
mkdir -p /mnt
mount -t ext4 /dev/flashsim0 /mnt || fail "cannot mount"
dd if=/dev/urandom of=/tmp/file bs=1M count=16 2> /dev/null
cp /tmp/file /mnt/file
umount /mnt
mount -t ext4 /dev/flashsim0 /mnt || fail "cannot mount again"
cmp /tmp/file /mnt/file || fail "the file differs"
rmmod flashsim 2> /dev/null && fail "the module was unloaded while its device was mounted"
rm /mnt/file
fstrim /mnt || fail "cannot discard"
umount /mnt
rmmod flashsim || fail "the module does not unload after a mount"
