#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A web server serves a site to a client while rsync backs the site up, with each method in turn. pool_web.py has the site and
# the client.
#   METHODS   the methods
#   SITE      arguments of pool_web.py: seed and scale
#   CLIENT    further arguments of the client: requests before the backup begins, and time between two requests in ms
# shellcheck disable=SC2154  # lab/scripts.py and guest.sh set the variables
. /guest/pool.sh
device
filesystem ext4
board
mkdir -p /m/site /tmp/empty /tmp/nginx /cg/backup /etc /var/log/nginx
echo 'root:x:0:0:root:/:/bin/sh' > /etc/passwd
echo 'root:x:0:' > /etc/group
ln -s /dev/null /tmp/batch
# shellcheck disable=SC2086  # a list of arguments
$PYTHON /guest/pool_web.py make $SITE || fail "cannot make the site"
echo "$SEED" | report seed
# shellcheck disable=SC2046  # the paths have no spaces
pool_board web $(ls -d /m/site/priority*)
forget
scheduler "$DEV"
for m in $METHODS; do
	method "$m"
	in_group web nginx -c /guest/nginx.conf || fail "nginx does not start"
	# shellcheck disable=SC2086  # a list of arguments
	$PYTHON /guest/pool_web.py client $SITE $CLIENT > /tmp/client 2> /tmp/client.log &
	client=$!
	until [ -e /tmp/loaded ]; do
		kill -0 "$client" || fail "the client failed: $(tail -n 1 /tmp/client.log)"
		usleep 100000
	done
	# ek-pool needs more memory after its first ticks
	sleep 11
	squeeze
	rm /tmp/loaded
	wait "$client" || fail "the client failed: $(tail -n 1 /tmp/client.log)"
	report "$m" < /tmp/client
	killall nginx
	rm -f /tmp/nginx/socket
	method_ends "$m"
	rm -f /ballast/ballast
done
