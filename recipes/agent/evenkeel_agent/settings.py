# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118
"""Where the agent finds things, and how long it waits: one value, so that a test can move all of it.

Paths are plain strings: the agent starts on an emulated or slow board, and pathlib costs more to
import than everything that would use it here. Hence the noqa in the modules that handle them.
"""

import os.path
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are the board's; durations are in seconds."""

    root: str = "/"  # prefix of every path below
    bus: str | None = None  # D-Bus address; None is the system bus
    credentials: str | None = None  # the unit's $CREDENTIALS_DIRECTORY
    interval_s: float = 1.0  # between two samples
    window_s: float = 3.0  # over which rates and percentiles are taken
    recheck_s: float = 30.0  # units and weights are looked at this often even if nobody says they changed
    call_timeout_s: float = 10.0  # a daemon-reload stops PID 1 from answering for seconds on a slow board
    patience_s: float = 2.0  # a reader gets the last known unit states rather than wait longer than this
    job_timeout_s: float = 20.0  # below the 25 s after which D-Bus clients give up
    settle_s: float = 1.0  # systemd writes io.weight after it has answered

    def path(self, absolute: str) -> str:
        """ABSOLUTE as seen under the root."""
        return os.path.join(self.root, absolute.lstrip("/"))

    @property
    def apps_dir(self) -> str:
        return self.path("/etc/evenkeel/apps.d")

    @property
    def state_dir(self) -> str:
        return self.path("/var/lib/evenkeel")

    @property
    def cgroup_dir(self) -> str:
        return self.path("/sys/fs/cgroup")

    @property
    def regulate_socket(self) -> str:
        """Where ek-regulate takes orders."""
        return self.path("/run/evenkeel/regulate")

    @property
    def credentials_dir(self) -> str:
        return self.credentials or self.path("/run/credentials/@system")
