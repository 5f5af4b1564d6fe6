# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118, PTH208
"""How large the page cache may be for the controller, from the memory of the board; and the protection of the pool.

The pool gets memory.low only. The kernel ignores memory.low before it kills a process for lack of memory, so the pool
never makes it kill one. S_target is also at most half of the memory.
"""

from __future__ import annotations

import os
import subprocess

from evenkeel_common import meminfo
from evenkeel_common.files import read_line

from .controller import Settings, mixed

SLICE = "evenkeelpool.slice"
PAGE = os.sysconf("SC_PAGE_SIZE")
LARGEST_PART = 2  # the pools together have at most the memory divided by this
LEAST_BLOCKS = 1024  # the controller needs some room, also if no memory is free
READAHEAD_PART = 10  # the largest readahead counts at most as the blocks divided by this
SYSTEMCTL_S = 20.0  # time limit for systemctl
SET_LOW = ("systemctl", "set-property", "--runtime", SLICE)  # needs no D-Bus, because it runs as root


def set_low(size: int) -> None:
    """Set memory.low of the pool's cgroup to SIZE bytes, until the next boot. Raises OSError.

    systemd sets it, because it owns the cgroup: what another process writes there, systemd may overwrite.
    """
    # systemctl would send its own exit status to the socket of the service.
    environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    try:
        done = subprocess.run(
            (*SET_LOW, f"MemoryLow={size}"), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=SYSTEMCTL_S, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OSError(f"systemctl did not end within {SYSTEMCTL_S:g} s") from None
    if done.returncode:
        raise OSError(done.stderr.strip()[-300:] or f"systemctl ended with status {done.returncode}")


def reserve(text: str) -> int:
    """The memory that the kernel keeps free, in bytes: the high watermarks in TEXT, the content of /proc/zoneinfo."""
    rows = (line.split() for line in text.splitlines())
    return PAGE * sum(int(row[1]) for row in rows if len(row) == 2 and row[0] == "high" and row[1].isdigit())


def settings(sizes: dict[str, int], readahead: int, kept_free: int = 0) -> Settings:
    """The settings of the controller for a board with the memory SIZES.

    READAHEAD: the largest one, in bytes. KEPT_FREE: the memory that the kernel keeps free, in bytes.

    The cache cannot be larger than meminfo.cache(). So S_target shrinks when apps need memory.
    """
    cache = meminfo.cache(sizes, kept_free)
    blocks = max(min(sizes.get("MemTotal", 0) // LARGEST_PART, cache) // PAGE, LEAST_BLOCKS)
    return mixed(blocks, min(-(-readahead // PAGE), blocks // READAHEAD_PART))


def largest_readahead(root: str) -> int:
    """The largest readahead of the block devices below ROOT, in bytes."""
    folder = os.path.join(root, "sys/block")
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    found = [read_line(os.path.join(folder, name, "queue/read_ahead_kb")) for name in names]
    return max((int(text) * 1024 for text in found if text.isdigit()), default=0)
