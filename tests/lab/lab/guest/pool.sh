#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Helpers of the experiments pool.*: ways to share the page cache, and the size of the cache.
# lab/experiments/pool.py sets these variables:
#   PYTHON      command that runs a Python script
#   CACHE       size of the page cache in KiB
#   HAND        memory.low of the method `low` in KiB, for the cgroup of the priority job
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
POOL=/cg/evenkeelpool.slice

# pool_board JOB DIRECTORY...: prepare what ek-pool finds on a board: cgroups, an app with priority directories, and systemctl
pool_board() {
	job=$1
	shift
	mkdir -p /sys/fs/cgroup /etc/evenkeel/apps.d /run/evenkeel /var/lib/evenkeel-pool /var/lib/evenkeel-apps /ballast "$POOL" "/cg/$job"
	mount --bind /cg /sys/fs/cgroup || fail "cannot bind the cgroups"
	mount -t tmpfs -o size=100% ballast /ballast || fail "cannot mount the ballast"
	directories=$(printf '"%s", ' "$@")
	printf 'title = "%s"\nunit = "%s.service"\npriority_directories = [%s]\n' "$job" "$job" "${directories%, }" \
		> "/etc/evenkeel/apps.d/$job.toml"
	# shellcheck disable=SC2016  # for the script
	printf '#!/bin/sh\n[ "$1 $3" = "set-property evenkeelpool.slice" ] || exit 1\necho "${4#MemoryLow=}" > %s/memory.low\n' "$POOL" \
		> /bin/systemctl
	chmod 755 /bin/systemctl
}
# method NAME: share the cache by this method. `lru`: the kernel alone. `low`: memory.low for the job's cgroup, set by hand.
# `basic`: as `ek`, but the pool may have the whole cache. `ek`: ek-pool.
method() {
	case $1 in
	low) echo "${HAND}K" > "/cg/$job/memory.low" || fail "cannot protect the job" ;;
	basic | ek)
		load evenkeel_pagepool
		# shellcheck disable=SC2086  # a command with its options; a function would put a shell between the two processes
		$PYTHON /guest/pool_service.py "$1" > "/tmp/$1.log" 2>&1 &
		service=$!
		until [ -e /run/evenkeel/ready ]; do
			kill -0 "$service" || fail "$1: $(tail -n 1 "/tmp/$1.log")"
			usleep 100000
		done
		;;
	esac
}
# method_ends NAME: undo method()
method_ends() {
	case $1 in
	low) echo 0 > "/cg/$job/memory.low" ;;
	basic | ek)
		kill -TERM "$service"
		wait "$service" || fail "$1: $(tail -n 1 "/tmp/$1.log")"
		rm /run/evenkeel/ready
		echo 0 > "$POOL/memory.low"
		rmmod evenkeel_pagepool || fail "cannot unload the module"
		;;
	esac
}
# cache_kib: what the page cache can have: free memory and the pages of files, without what the kernel keeps free
cache_kib() {
	awk '/^(MemFree|Active\(file\)|Inactive\(file\)):/ { sum += $2 } NF == 2 && $1 == "high" { sum -= 4 * $2 } END { print sum }' \
		/proc/meminfo /proc/zoneinfo
}
# squeeze: occupy memory until the page cache can have only $CACHE KiB. The ballast cannot be evicted, because no swap is used.
squeeze() {
	rm -f /ballast/ballast
	# The kernel frees inodes later than it drops them.
	for _ in 1 2; do
		forget
		sleep 1
	done
	free=$(cache_kib)
	[ "$free" -gt "$CACHE" ] || fail "the page cache can have $free KiB, less than $CACHE"
	dd if=/dev/zero of=/ballast/ballast bs=4k "count=$(((free - CACHE) / 4))" 2> /dev/null || fail "cannot occupy memory"
}
