# SPDX-License-Identifier: Apache-2.0
"""python3 pool_service.py ek|basic: runs the page pool in a lab guest, which has no systemd.

- `ek`: ek-pool itself, with the descriptor that its socket unit would pass.
- `basic`: the basic method of the paper, as far as Linux allows it. The pool has the same directories and the same module, but
  memory.low is as large as the memory. So the kernel evicts a priority file only if it finds no other page.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from evenkeel_agent import registry
from evenkeel_agent.settings import Settings
from evenkeel_common import meminfo
from evenkeel_pagepool import memory, service
from evenkeel_pagepool.device import Device

READY = Path("/run/evenkeel/ready")


def basic() -> int:
    settings = Settings()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    device = Device()
    device.charge_to(f"{settings.cgroup_dir}/{memory.SLICE}")
    for app in registry.load(settings.apps_dir, settings.added_apps_dir).apps.values():
        for directory in app.directories:
            device.add(directory)
    memory.set_low(meminfo.parse(Path("/proc/meminfo").read_text())["MemTotal"])
    READY.touch()
    signal.sigwait([signal.SIGTERM])
    return 0


def ek() -> int:
    path = Settings().pool_socket
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    Path(path).unlink(missing_ok=True)
    listener.bind(path)
    listener.listen()
    os.dup2(listener.detach(), 3)  # it may be descriptor 3 already, and must stay open
    READY.touch()
    return service.main()


if __name__ == "__main__":
    raise SystemExit({"ek": ek, "basic": basic}[sys.argv[1]]())
