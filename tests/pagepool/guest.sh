# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Test of evenkeel_pagepool in a lab guest. There are two ext4 file systems: /a on flash model a, /b on flash model b.
# If a check fails, it calls `fail`, which ends the guest. test_guest.py reads the report of the guest.
d=/dev/evenkeel-pagepool

device_of() { # NAME: create a flash model that stores data, with an ext4 file system mounted at /NAME
	mkdir "/sys/kernel/config/flashsim/$1" && cd "/sys/kernel/config/flashsim/$1" || fail "cannot create device $1"
	echo emmc51 > preset && echo 1 > memory_backed && echo 512 > capacity_mb && echo 1 > power || fail "cannot start device $1"
	cd /
	mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=1,nodiscard "/dev/$1" > /tmp/mkfs 2>&1 || fail "$(cat /tmp/mkfs)"
	mkdir "/$1" && mount -t ext4 -o noatime "/dev/$1" "/$1" || fail "cannot mount /$1"
}
lay() { # FILE MiB: write a file of this size
	fio --name=lay --filename="$1" --size="$2m" --bs=1m --rw=write --direct=1 --ioengine=psync --zero_buffers \
		--fallocate=none --output=/tmp/lay || fail "cannot write $1: $(tail -n 1 /tmp/lay)"
}
cold() { sync; echo 3 > /proc/sys/vm/drop_caches; }
count() { awk -v name="$1" '$1 == name { print $2 }' $d; }
file_mb() { awk '$1 == "file" { print $2 / 1048576 }' "/cg/$1/memory.stat"; }
expect() { [ "$2" = "$3" ] || fail "$1: expected $2, have $3"; }
probed() { grep -c '^filemap_add_folio' /sys/kernel/tracing/enabled_functions; }
say() { # COMMAND: send a command to the module's device; prints an error
	echo "$1" >&8
}
refused() { # TEXT COMMAND: fail unless the module refuses the command with an error that contains TEXT
	if out=$(echo "$2" 2>&1 >&8); then fail "'$2' was accepted"; fi
	case $out in *"$1"*) ;; *) fail "'$2' failed with '$out' instead of '$1'" ;; esac
}
# open_as FD PATH: open a file or folder as descriptor FD
open_as() { eval "exec $1< \"\$2\"" || fail "cannot open $2"; }
read_as() { # GROUP FILE: read the whole file in this cgroup
	in_group "$1" dd if="$2" of=/dev/null bs=64k 2> /dev/null || fail "cannot read $2"
}
# priority_pages FILE: read the file, which is not in the page cache, and print how many of its pages the module counted
# as priority pages
priority_pages() {
	cold
	before=$(count protected_misses)
	cat "$1" > /dev/null
	echo $(($(count protected_misses) - before))
}

load flashsim
device_of a
device_of b
mkdir /a/prio /a/prio/sub /a/other /cg/pool /cg/reader
lay /a/prio/f 80
lay /b/f 80
lay /a/prio/sub/f 4
lay /a/other/f 4
cold
insmod /modules/evenkeel_pagepool.ko || fail "the module does not load: $(dmesg | tail -n 1)"
expect "directories at first" 0 "$(count directories)"
expect "probes without directories" 0 "$(probed)"

# --- bad commands
exec 8> $d
if (exec 9> $d) 2> /tmp/err; then fail "two writers at once"; fi
grep -q 'busy' /tmp/err || fail "a second writer gets: $(cat /tmp/err)"
mkdir /tmp/low /tmp/t /o
mount -t tmpfs t /tmp/t
mkdir /b/low /b/up /b/work
mount -t overlay -o lowerdir=/b/low,upperdir=/b/up,workdir=/b/work o /o || fail "cannot mount overlay"
open_as 3 /tmp/t
open_as 4 /o
open_as 5 /a/prio/f
open_as 6 /cg
refused 'Invalid argument' 'boost 3'
refused 'Invalid argument' 'add'
refused 'Invalid argument' 'add three'
refused 'Invalid argument' 'add -1'
refused 'Invalid argument' 'add 3 with many more words than a command has'
refused 'Bad file' 'add 99'
refused 'not supported' 'add 3'
refused 'ross-device' 'add 4'
refused 'Not a directory' 'add 5'
refused 'No such file' 'remove 3'
refused 'Invalid argument' 'pool 6'
refused 'Bad file' 'pool 3'
# Disable the controllers memory and io. io depends on memory, and would keep the state of memory alive.
echo '-io -memory' > /cg/cgroup.subtree_control || fail "cannot disable the controllers"
open_as 7 /cg/pool
refused 'No such device' 'pool 7'
echo '+io +memory' > /cg/cgroup.subtree_control
exec 3<&- 4<&- 5<&- 6<&-
umount /o
expect "directories after bad commands" 0 "$(count directories)"

# --- attribution
open_as 3 /a/prio
say 'pool 7'
say 'add 3'
refused 'File exists' 'add 3'
exec 3<&-
expect "probes" 1 "$(probed)"
m0=$(count protected_misses)
read_as reader /a/prio/f
read_as reader /b/f
{ echo "pool $(file_mb pool)"; echo "reader $(file_mb reader)"; echo "misses $(($(count protected_misses) - m0))"
  echo "accesses $(count protected_accesses)"; } | report attribution
m0=$(count protected_misses) a0=$(count protected_accesses)
read_as reader /a/prio/f
{ echo "misses $(($(count protected_misses) - m0))"; echo "accesses $(($(count protected_accesses) - a0))"; } | report again
# A memory limit of the group that reads must reclaim pages of this group, not of the pool.
echo 60M > /cg/reader/memory.high
read_as reader /b/f
expect "the pool after its reader was squeezed" 80 "$(file_mb pool)"
echo max > /cg/reader/memory.high

# --- names
expect "a file in a subdirectory" 0 "$(priority_pages /a/prio/sub/f)"
expect "another directory" 0 "$(priority_pages /a/other/f)"
mv /a/other/f /a/prio/moved
expect "renamed into the directory" 1024 "$(priority_pages /a/prio/moved)"
mv /a/prio/moved /a/other/f
expect "renamed out of the directory" 0 "$(priority_pages /a/other/f)"
ln /a/other/f /a/prio/link
expect "a hard link in the directory" 1024 "$(priority_pages /a/prio/link)"
rm /a/prio/link
expect "after the link was deleted" 0 "$(priority_pages /a/other/f)"
mkdir /bound && mount --bind /a/prio /bound
mv /a/other/f /a/prio/g
expect "through a bind mount" 1024 "$(priority_pages /bound/g)"
umount /bound
mv /a/prio /a/renamed
expect "the directory was renamed" 1024 "$(priority_pages /a/renamed/g)"
mv /a/renamed /a/prio
# After a rename out of the directory, reads of cached pages must not count as accesses either.
cat /a/prio/g > /dev/null
a0=$(count protected_accesses)
mv /a/prio/g /a/other/f
cat /a/other/f > /dev/null
expect "accesses after a rename" 0 $(($(count protected_accesses) - a0))
# Written pages belong to the pool, but count neither as accesses nor as misses.
p0=$(count protected_added) m0=$(count protected_misses) a0=$(count protected_accesses)
dd if=/dev/zero of=/a/prio/w bs=1M count=4 2> /dev/null
expect "added by writes" 1024 $(($(count protected_added) - p0))
expect "missed by writes" 0 $(($(count protected_misses) - m0))
expect "accessed by writes" 0 $(($(count protected_accesses) - a0))
# On overlayfs, the directory of the upper layer must be a priority directory.
open_as 3 /b/up
say 'add 3'
exec 3<&-
mount -t overlay -o lowerdir=/b/low,upperdir=/b/up,workdir=/b/work o /o
cp /a/other/f /o/f
expect "a file of overlayfs" 1024 "$(priority_pages /o/f)"
umount /o
# A deleted directory is no longer a priority directory.
rm -r /b/up
expect "a deleted directory" 1 "$(count directories)"

# --- hit ratio under eviction, compared with the device's own count
exec 3<&-
lay /a/prio/h 48
mkdir /cg/cost
cat /a/prio/h > /dev/null # loads the map of the file's blocks, which truth() must not count
cold
echo 24M > /cg/pool/memory.max
sectors() { awk '{ print $3 }' "/sys/block/$1/stat"; }
# truth DEVICE FILE COUNTER GROUP: do 60,000 random reads, most of them in one part of the file. Print COUNTER, and the
# growth of its accesses, of its misses, and of the pages that the device read
truth() {
	s0=$(sectors "$1") m0=$(count "$3_misses") a0=$(count "$3_accesses")
	in_group "$4" fio --name=r --filename="$2" --rw=randread --bs=4k --ioengine=psync --random_distribution=zipf:0.9 --size=48m \
		--invalidate=0 --number_ios=60000 --io_size=4g --fadvise_hint=random --randseed="$SEED" --output=/tmp/fio || fail "$(tail -n 2 /tmp/fio)"
	echo "$3 $(($(count "$3_accesses") - a0)) $(($(count "$3_misses") - m0)) $((($(sectors "$1") - s0) / 8))"
}
echo 24M > /cg/reader/memory.max
rm -f /b/f && lay /b/h 48
cat /b/h > /dev/null
cold
{ truth a /a/prio/h protected cost; truth b /b/h normal reader; } | report ratio
echo max > /cg/pool/memory.max

# --- cost of an access that hits
cost() { # FILE: print the mean time of a read of a cached page, in ns
	fio --name=c --filename="$1" --rw=randread --bs=4k --ioengine=psync --size=8m --invalidate=0 --number_ios=200000 --io_size=4g \
		--norandommap --randseed=1 --output-format=terse --terse-version=3 --output=/tmp/terse > /dev/null
	awk -F';' '{ printf "%d\n", $9 * 1000000 / 200000 }' /tmp/terse
}
rm /a/prio/h
lay /a/prio/c 8
cat /a/prio/c > /dev/null
on=$(cost /a/prio/c)
say clear
expect "probes after clear" 0 "$(probed)"
off=$(cost /a/prio/c)
open_as 3 /a/prio
say 'add 3'
exec 3<&-
again=$(cost /a/prio/c)
{ echo "on $on"; echo "off $off"; echo "again $again"; } | report cost
expect "missed probes" 0 "$(count missed_probes)"

# --- the pool's cgroup goes; a file system with a priority directory is unmounted
exec 7<&-
rmdir /cg/pool || fail "cannot remove the pool's cgroup"
sleep 1
expect "a pool without cgroup" gone "$(count pool)"
p0=$(count protected_added)
cold
cat /a/prio/c > /dev/null
expect "pages charged to a cgroup that is gone" "$p0" "$(count protected_added)"
umount /a || fail "a priority directory blocks the unmount"
expect "directories after the unmount" 0 "$(count directories)"
sleep 1
expect "probes after the unmount" 0 "$(probed)"

# --- removal under load
mount -t ext4 /dev/a /a
mkdir /cg/pool
lay /a/prio/l 32
fio --name=l --filename=/a/prio/l --rw=randread --bs=16k --ioengine=psync --thread --numjobs=4 --time_based --runtime=2 \
	--output=/dev/null 8>&- &
for _ in 1 2 3 4 5; do
	open_as 3 /a/prio
	open_as 7 /cg/pool
	say 'pool 7'
	say 'add 3'
	exec 3<&- 7<&-
	echo 1 > /proc/sys/vm/drop_caches
	usleep 100000
	exec 8>&-
	expect "directories after the writer ended" 0 "$(count directories)"
	rmmod evenkeel_pagepool || fail "cannot unload"
	insmod /modules/evenkeel_pagepool.ko || fail "cannot load again"
	exec 8> $d
done
wait $!
dmesg | grep -E 'WARNING|BUG|Oops' | report warnings
