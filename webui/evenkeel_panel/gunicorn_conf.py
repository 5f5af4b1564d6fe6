# SPDX-License-Identifier: Apache-2.0
"""gunicorn's settings: `gunicorn -c python:evenkeel_panel.gunicorn_conf`. The socket comes from systemd."""

wsgi_app = "evenkeel_panel.app:create_app()"
# One worker: the cached view of the board, the log-in limits and the D-Bus connection are its
# memory. Threads wait for the agent, SQLite or argon2, never for long computations.
workers = 1
worker_class = "gthread"
threads = 4
timeout = 60  # an emulated board takes seconds to import Flask
graceful_timeout = 5
keepalive = 0  # nginx makes a connection per request: on a Unix socket that costs next to nothing
# From 25.1 on gunicorn listens for commands, on a socket in the home folder, which is flash, unless told
# not to; before, the name means nothing to it. systemd starts and stops the panel.
control_socket_disable = True
worker_tmp_dir = "/dev/shm"  # noqa: S108  (its heartbeat file must not touch flash)
limit_request_line = 2048
limit_request_fields = 50
accesslog = None  # the audit trail has the deeds; a line per poll would wear the flash
errorlog = "-"
loglevel = "warning"
proc_name = "evenkeel-panel"
