# SPDX-License-Identifier: Apache-2.0
"""sd_notify(3): tells the service manager that the calling service is ready, alive or stopping."""

import os
import socket
import time


def notify(*lines: str) -> None:
    """Send LINES to $NOTIFY_SOCKET. If the variable is not set or nobody listens, do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.sendto("\n".join(lines).encode(), address)
    except OSError:
        pass


def reloading() -> None:
    """Announce a reload, as Type=notify-reload requires. READY=1 must follow when the reload is complete."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")


class Watchdog:
    """Pings the service manager's watchdog from progress() only. So a service that makes no progress is restarted."""

    def __init__(self) -> None:
        usec = os.environ.get("WATCHDOG_USEC", "")
        mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._every_s = int(usec) / 1e6 / 4 if usec.isdigit() and mine else None
        self._last_s = 0.0

    def progress(self, now_s: float) -> None:
        """Report that the service took a sample. Pings at most four times per watchdog period. NOW_S: monotonic time."""
        if self._every_s is not None and now_s - self._last_s >= self._every_s:
            self._last_s = now_s
            notify("WATCHDOG=1")
