# SPDX-License-Identifier: GPL-2.0-only
# Stress test: under load, it switches schedulers, changes settings, and removes cgroups and
# the device. Runs in a lab guest (tests/lab/lab/guest.sh). test_torture.py starts it and
# sets SECONDS_TO_RUN, the duration of the mixed load.
uname -r | report kernel
load null_blk nr_devices=0
load mq-deadline
load evenkeel
mkdir -p /config && mount -t configfs config /config

# device [KIND]: create a null_blk disk with two queues of four tags each. It requeues some
# requests. KINDs:
# (none)   no cache. A few requests never complete and time out
# plain    like (none), but without timeouts
# cached   a volatile cache, so that fsync() sends a flush, and discards. A few requests
#          time out. The cache is larger than the device, so that only a flush empties it. If
#          writes did it too, null_blk could hang: a worker waits, in a loop, for a page that
#          another worker of the same CPU writes back
# flushed  like cached, but without FUA: instead, the kernel sends a flush after each FUA
#          write, as on virtio and SATA disks
# kept     like cached, but without timeouts
device() {
	d=/config/nullb/nullb0
	mkdir $d || fail "null_blk has no configfs"
	case ${1-} in cached | flushed | kept) echo 1 > $d/memory_backed; echo 512 > $d/cache_size; echo 1 > $d/discard ;; esac
	case ${1-} in flushed) echo 0 > $d/fua ;; esac
	echo 2 > $d/irqmode; echo 200000 > $d/completion_nsec
	echo 4 > $d/hw_queue_depth; echo 2 > $d/submit_queues; echo 256 > $d/size
	echo 20 > $d/requeue_inject/probability; echo -1 > $d/requeue_inject/times
	echo 1000 > $d/requeue_inject/interval
	case ${1-} in kept | plain) timeout=30000 ;; *) timeout=1000; echo 1 > $d/timeout_inject/probability; echo 3 > $d/timeout_inject/times ;; esac
	echo 1 > $d/power
	q=/sys/block/nullb0/queue
	echo $timeout > $q/io_timeout
	echo evenkeel > $q/scheduler || fail "cannot set evenkeel"
}
# counted: print the scheduler's counters of requests, tags and waiters that are not 0, as KEY=NUMBER
counted() {
	state=$(cat /sys/kernel/debug/block/nullb0/sched/state)
	n=$(echo "$state" | sed -n 's/^channels o[nf]* *//p' | tr -d ' 0')
	[ -z "$n" ] || echo "channels=$n"
	for key in queued in_flight core_in_flight core_in_flight_ns tags_used waiting granted fixed_tags fixed_in_flight blame_in_device; do
		n=$(echo "$state" | sed -n "s/^$key //p")
		[ "$n" = 0 ] || echo "$key=$n"
	done
}
# idle STEP: fail unless all counters of the scheduler become 0 within 10 s after the load has stopped. On a slow
# machine the last completions take a while. A counter that stays above 0 is a leak.
idle() {
	echo evenkeel > $q/scheduler
	n=0
	until left=$(counted) && [ -z "$left" ]; do
		n=$((n + 1))
		[ $n -lt 100 ] || fail "10 s after $1: $left, although no request is left: $(tr '\n' ' ' < /sys/kernel/debug/block/nullb0/sched/state)"
		usleep 100000
	done
}

# job GROUP FIO-OPTION...: start fio in a cgroup. fio may fail when its device is removed, but it must end.
job() { g=$1; shift; name=$(echo "$g" | tr / -); in_group "$g" fio --name="$name" --filename=/dev/nullb0 --size=256m --time_based --runtime=100000 --minimal --eta=never --continue_on_error=io "$@" > "/tmp/fio.$name" 2>&1 & }
start() {
	group a 300; group b 100; group c 50; group p 200; group t 100
	echo +io > /cg/p/cgroup.subtree_control; group p/x 100; group p/y 300
	job a --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=32
	job b --rw=read --bs=16m --direct=1 --ioengine=libaio --iodepth=4
	job c --rw=randwrite --bs=64k --direct=0 --ioengine=psync --fsync=64
	job p/x --rw=randread --bs=4k --direct=1 --ioengine=psync
	job p/y --rw=randwrite --bs=512k --direct=1 --ioengine=libaio --iodepth=2
	job p/x --rw=randwrite --bs=8k --direct=1 --sync=1 --ioengine=psync
	job a --rw=randrw --bs=128k --direct=1 --ioengine=io_uring --iodepth=16
	[ "${1-}" = "" ] || {
		job t --rw=randtrim --bs=1m --direct=1 --ioengine=psync
		job t --rw=write --bs=16m --direct=1 --sync=dsync --ioengine=psync
	}
}
step() { echo "torture: $*" > /dev/kmsg; }
stop() { killall fio 2>/dev/null; n=0; while killall -0 fio 2>/dev/null; do n=$((n + 1)); [ $n -lt 60 ] || fail "fio did not end within 60 s: $(cat /proc/$(pidof -s fio)/stack)"; sleep 1; done; }
rand() { echo $(($1 + $(od -An -N2 -tu2 /dev/urandom) % ($2 - $1 + 1))); }
remove_device() { echo 0 > /config/nullb/nullb0/power; rmdir /config/nullb/nullb0; }

device plain
# First only many small requests on both CPUs. Races in the code that runs for each request are most likely here.
step "small requests"
group a 300; group b 100
for g in a b; do job $g --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=16 --iodepth_batch_complete_max=16; done
n=$((SECONDS_TO_RUN / 3))
while [ $n -gt 0 ]; do sleep 1; cat /cg/*/io.evenkeel.stat /sys/kernel/debug/block/nullb0/sched/groups > /dev/null; n=$((n - 1)); done
stop
read -r small _ < /sys/block/nullb0/stat
[ "$small" -gt 1000 ] || fail "only $small small requests; output of fio: $(cat /tmp/fio.*)"
step "$small small requests"
idle "small requests"
remove_device

rounds=0 switches=0 ios=0
# mixed KIND SECONDS: put load on a device of this kind, and meanwhile change settings and schedulers
mixed() {
	device $1
	start "$1"
	(while :; do cat /sys/kernel/debug/block/nullb0/sched/groups /sys/kernel/debug/block/nullb0/sched/state /sys/block/nullb0/queue/iosched/turn_ms; done > /dev/null 2>&1) & reader=$!
	end=$(($(cut -d. -f1 /proc/uptime) + $2))
	while [ "$(cut -d. -f1 /proc/uptime)" -lt "$end" ]; do
		rounds=$((rounds + 1))
		for s in none mq-deadline evenkeel; do
			echo $s > $q/scheduler || fail "cannot switch to $s"
			switches=$((switches + 1))
			usleep 100000
		done
		for n in 2 4 64 "$(rand 2 256)"; do echo "$n" > $q/nr_requests; usleep 50000; done
		for g in a b c p p/x p/y; do rand 1 10000 > /cg/$g/io.weight; done
		echo "$(cat /sys/block/nullb0/dev) $(rand 1 10000)" > /cg/a/io.weight
		echo "$(cat /sys/block/nullb0/dev) $(rand 0 50)" > /cg/p/x/io.evenkeel.fixed
		echo "$(cat /sys/block/nullb0/dev) $(rand 0 50)" > /cg/c/io.evenkeel.fixed
		# Group b sends 16 MiB at a time. The kernel splits the bios, so a fixed share delays parts of a bio.
		echo "$(cat /sys/block/nullb0/dev) $(rand 0 30)" > /cg/b/io.evenkeel.fixed
		echo "$(cat /sys/block/nullb0/dev) default" > /cg/a/io.weight
		echo "$(rand 1 64)" > $q/iosched/channels; echo "$(rand 0 3)" > $q/iosched/chunk_kb
		echo "$(rand 1 300)" > $q/iosched/turn_ms; echo "$(rand 0 4000)" > $q/iosched/await_us
		echo "$(rand 100 5000)" > $q/iosched/starve_ms; echo "$(rand 0 4)" > $q/iosched/fixed_cap
		cat /cg/*/io.evenkeel.stat /cg/p/*/io.evenkeel.stat /sys/kernel/debug/block/nullb0/sched/groups > /dev/null
		# Set a weight for a device that the cgroup has not used yet.
		mkdir /cg/e; echo "$(cat /sys/block/nullb0/dev) 300" > /cg/e/io.weight; rmdir /cg/e
		# Remove a cgroup while its requests are in the queue.
		group d 100; echo "$(cat /sys/block/nullb0/dev) $((rounds % 2 * 5))" > /cg/d/io.evenkeel.fixed || :
		(exec sh -c 'echo $$ > /cg/d/cgroup.procs && exec timeout 0.3 fio --name=d --filename=/dev/nullb0 --size=256m --rw=randwrite --bs=4k --direct=0 --minimal --eta=never' > /dev/null 2>&1)
		n=0; until rmdir /cg/d; do n=$((n + 1)); [ $n -lt 50 ] || fail "cgroup d could not be removed for 5 s, it has processes: $(cat /cg/d/cgroup.procs)"; usleep 100000; done
	done 2>> /tmp/errors
	step "load ends"
	kill $reader
	for g in p/x b c; do echo "$(cat /sys/block/nullb0/dev) 0" > /cg/$g/io.evenkeel.fixed; done
	stop
	idle "the load${1:+, $1}"
	ios=$((ios + $(cat /cg/*/io.evenkeel.stat | sed -n 's/.* rios=\([0-9]*\) wios=\([0-9]*\) .*/\1 + \2/p' | { sum=0; while read -r n; do sum=$((sum + n)); done; echo $sum; })))
}
mixed flushed $((SECONDS_TO_RUN / 2))
remove_device
mixed "" $((SECONDS_TO_RUN - SECONDS_TO_RUN / 2))
cat /tmp/fio.* | report fio
step "bad input"

# refuse FILE VALUE: fail unless a write of the value fails and leaves the file unchanged
refuse() { was=$(cat "$1"); if echo "$2" > "$1" 2>/dev/null; then fail "$1 accepted '$2'"; fi; [ "$(cat "$1")" = "$was" ] || fail "$1 changed, although it refused '$2'"; }
for v in 0 10001 -1 text 1x "" "default 0" "default x" "default" "9:9 100" "$(cat /sys/block/nullb0/dev) 0"; do refuse /cg/a/io.weight "$v"; done
for v in "" 10 "9:9 10" "$(cat /sys/block/nullb0/dev)" "$(cat /sys/block/nullb0/dev) 101" "$(cat /sys/block/nullb0/dev) -1" "$(cat /sys/block/nullb0/dev) x"; do refuse /cg/a/io.evenkeel.fixed "$v"; done
echo "$(cat /sys/block/nullb0/dev) 60" > /cg/a/io.evenkeel.fixed || fail "a fixed share of 60 % was refused"
refuse /cg/b/io.evenkeel.fixed "$(cat /sys/block/nullb0/dev) 41"
echo "$(cat /sys/block/nullb0/dev) 0" > /cg/a/io.evenkeel.fixed
# A removed cgroup gives its fixed share back, even while pages that it wrote keep it in memory.
exec 9< /dev/nullb0
group w 100
echo "$(cat /sys/block/nullb0/dev) 60" > /cg/w/io.evenkeel.fixed || fail "a fixed share of 60 % was refused"
(exec sh -c 'echo $$ > /cg/w/cgroup.procs && exec dd if=/dev/zero of=/dev/nullb0 bs=1M count=16 conv=notrunc' > /dev/null 2>&1)
rmdir /cg/w || fail "cgroup w could not be removed, it has processes: $(cat /cg/w/cgroup.procs)"
group w 100
echo "$(cat /sys/block/nullb0/dev) 60" > /cg/w/io.evenkeel.fixed || fail "a removed cgroup still holds its fixed share of 60 %"
rmdir /cg/w
exec 9<&-
for v in -1 text 4294967296 0; do refuse $q/iosched/turn_ms "$v"; done
for v in -1 text 100001; do refuse $q/iosched/await_us "$v"; done
refuse $q/iosched/starve_ms 60001
for v in 0 65 -1 x; do refuse $q/iosched/channels "$v"; done
refuse $q/iosched/chunk_kb 1048577
# A user who owns a cgroup's files may set its weight, but not its fixed share: a fixed share would
# take device time from other cgroups.
chmod 755 /; mkdir -p /etc
echo "app:x:65534:65534::/:/bin/sh" >> /etc/passwd
as_user() { su -s /bin/sh app -c "echo '$1' > $2"; }
chown 65534 /cg/a/io.weight /cg/a/io.evenkeel.fixed
as_user 70 /cg/a/io.weight || fail "a cgroup's owner cannot set its weight"
if as_user "$(cat /sys/block/nullb0/dev) 5" /cg/a/io.evenkeel.fixed 2> /dev/null; then fail "a cgroup's owner can set its io.evenkeel.fixed"; fi
[ -z "$(cat /cg/a/io.evenkeel.fixed)" ] || fail "a refused write changed io.evenkeel.fixed: $(cat /cg/a/io.evenkeel.fixed)"

# Remove the device under load, and create it again.
step "hot unplug"
kind=
for i in 1 2 3; do
	start "$kind"; for g in p/x b; do echo "$(cat /sys/block/nullb0/dev) 10" > /cg/$g/io.evenkeel.fixed; done; sleep 2
	remove_device
	stop
	case $kind in cached) kind=flushed ;; *) kind=cached ;; esac
	device $kind
done
idle "hot unplug"

# fio reads back the data that it wrote, while the scheduler is switched.
step "data"
remove_device
device kept
echo "$(cat /sys/block/nullb0/dev) 50" > /cg/p/x/io.evenkeel.fixed
# verify GROUP MB FIO-OPTION...: write 8 MiB at offset MB, in MiB, and read them back
verify() {
	g=$1 at=$2
	shift 2
	(
		in_group "$g" fio --name="verify$at" --filename=/dev/nullb0 --offset="${at}m" --size=8m --verify=crc32c --verify_fatal=1 --verify_backlog=64 --direct=1 --ioengine=libaio --minimal --eta=never "$@" > "/tmp/verify.$at" 2>&1
		echo $? > "/tmp/verify.$at.rc"
	) &
}
verify a 0 --rw=randwrite --bs=4k --iodepth=16
verify b 32 --rw=write --bs=4m --iodepth=2
verify p/x 64 --rw=randwrite --bs=128k --iodepth=4
n=0
until [ -e /tmp/verify.0.rc ] && [ -e /tmp/verify.32.rc ] && [ -e /tmp/verify.64.rc ]; do
	for s in mq-deadline none evenkeel; do echo $s > $q/scheduler; usleep 200000; done
	n=$((n + 1)); [ $n -lt 200 ] || fail "verification did not end: $(cat /tmp/verify.*)"
done
for i in 0 32 64; do [ "$(cat /tmp/verify.$i.rc)" = 0 ] || fail "fio read other data than it had written, or failed: $(head -c 300 /tmp/verify.$i)"; done
idle "data"

# Unload the module right after I/O in a deep tree of cgroups. Unloading must free the groups of all these cgroups.
step "unload"
t=/cg; for i in 1 2 3 4 5 6 7 8; do [ $i = 1 ] || echo +io > $t/cgroup.subtree_control; t=$t/t$i; mkdir $t; done
(exec sh -c "echo \$\$ > $t/cgroup.procs && exec dd if=/dev/nullb0 of=/dev/null bs=4k count=64 iflag=direct" > /dev/null 2>&1)

echo none > $q/scheduler
rmmod evenkeel || fail "evenkeel cannot be unloaded"
[ ! -e /cg/a/io.weight ] && [ ! -e /cg/a/io.evenkeel.fixed ] || fail "io.weight or io.evenkeel.fixed is still there without the module"
load evenkeel
echo evenkeel > $q/scheduler
echo none > $q/scheduler
rmmod evenkeel || fail "evenkeel cannot be unloaded again"
sleep 6
[ ! -e /sys/kernel/debug/kmemleak ] || for i in 1 2 3; do echo scan > /sys/kernel/debug/kmemleak; sleep 1; done
cat /sys/kernel/debug/kmemleak 2> /dev/null | report kmemleak
printf 'rounds %s\nswitches %s\nios %s\n' $rounds $switches "$ios" | report done
cat /tmp/errors | report errors
