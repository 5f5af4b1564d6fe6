# SPDX-License-Identifier: Apache-2.0
"""Settings of gunicorn, which server.py runs. systemd passes the listening socket."""

wsgi_app = "evenkeel_panel.service:panel()"
# A few threads suffice: they mostly wait for the agent or SQLite, and none computes for long.
# Two more are for downloads of recordings, each of which occupies a thread (recorder/download.py).
threads = 6
graceful_timeout = 5
keepalive = 75  # seconds; longer than nginx keeps an idle connection (keepalive_timeout in evenkeel.conf)
# By default, gunicorn 25.1 and later listens for commands on a socket in the home folder, which is on flash.
# The panel does not need this socket: systemd starts and stops the panel. Earlier versions ignore the setting.
control_socket_disable = True
worker_tmp_dir = "/dev/shm"  # noqa: S108  (the heartbeat file must not be on flash)
limit_request_line = 2048
limit_request_fields = 50
accesslog = None  # a line per poll would wear the flash; the audit log records the actions
errorlog = "-"
loglevel = "warning"
proc_name = "evenkeel-panel"
