#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# io.max limits a group to bytes and requests per second. It knows no weights: each group's limits are its
# share, by weight, of what the device does for one job alone. A new group changes the shares of all.
# io.max does not tell sequential from random requests. The limit of requests is that of the faster kind, as
# the other would keep a group below its share.
# shellcheck disable=SC2154  # the runner sets the variables
control_group() {
	echo "$1 $2" >> /tmp/weights
	devno=$(cat "/sys/block/$DEV/dev")
	riops=$((rseqiops > rrandiops ? rseqiops : rrandiops))
	wiops=$((wseqiops > wrandiops ? wseqiops : wrandiops))
	awk -v rbps="$rbps" -v wbps="$wbps" -v riops="$riops" -v wiops="$wiops" '
		function parent(g) { return g ~ /\// ? substr(g, 1, match(g, /\/[^\/]*$/) - 1) : "" }
		{ weight[$1] = $2 }
		END {
			for (g in weight)
				siblings[parent(g)] += weight[g]
			for (g in weight) {
				share = 1
				for (x = g; x != ""; x = parent(x))
					share *= weight[x] / siblings[parent(x)]
				printf "%s rbps=%.0f wbps=%.0f riops=%.0f wiops=%.0f\n",
					g, share * rbps, share * wbps, share * riops + 1, share * wiops + 1
			}
		}' /tmp/weights > /tmp/limits
	while read -r name limits; do
		echo "$devno $limits" > "/cg/$name/io.max" || fail "cannot set '$limits' as io.max of $name"
	done < /tmp/limits
}
