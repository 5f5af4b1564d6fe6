# SPDX-License-Identifier: Apache-2.0
"""gunicorn in one process: `python3 -m evenkeel_panel.server`, with the options of gunicorn.

gunicorn has a master process, which starts workers and replaces one that ends or hangs. The panel has one worker, because its
memory has the cached view of the board, the cached sessions and the D-Bus connection. systemd does for it what the master
does: Restart=, and WatchdogSec= if it hangs. Without the master, the panel needs less memory.
"""

import os
import time
from typing import Any

from evenkeel_common.notify import Watchdog, notify
from gunicorn import sock, systemd  # type: ignore[import-untyped,unused-ignore]
from gunicorn.app.wsgiapp import WSGIApplication  # type: ignore[import-untyped,unused-ignore]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped,unused-ignore]


class Worker(ThreadWorker):  # type: ignore[misc,unused-ignore]
    """A worker of gunicorn whose parent is the service manager."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._watchdog = Watchdog()
        self._serving = False

    def notify(self) -> None:
        """gunicorn calls it from the loop that accepts connections, at least once a second."""
        if not self._serving:
            self._serving = True
            notify("READY=1")
        self._watchdog.progress(time.monotonic())


class Server(WSGIApplication):  # type: ignore[misc,unused-ignore]
    """The application, and the listening sockets: those of systemd, or else of the option --bind."""

    def run(self) -> None:
        log = self.cfg.logger_class(self.cfg)
        count = systemd.listen_fds()
        first = systemd.SD_LISTEN_FDS_START
        listeners = sock.create_sockets(self.cfg, log, range(first, first + count) if count else None)
        worker = Worker(1, os.getppid(), listeners, self, self.cfg.timeout, self.cfg, log)
        worker.pid = os.getpid()
        worker.init_process()  # returns when the process shall end


if __name__ == "__main__":
    Server("%(prog)s [OPTIONS] [APP_MODULE]", prog="evenkeel_panel.server").run()
