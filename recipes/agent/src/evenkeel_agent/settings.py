# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118
"""Paths and timeouts of the agent, in one object, so that tests can replace all of them at once.

Paths are strings and not pathlib objects: the agent must start fast on a slow board, and importing pathlib takes too
long. So modules that handle paths have a noqa line, which turns off ruff's rules about pathlib.
"""

import os.path
from dataclasses import dataclass

APPS_SLICE = "evenkeel-apps.slice"  # each app is a unit below this slice


@dataclass(frozen=True, slots=True)
class Settings:
    """The defaults are those of a board. Durations are in seconds."""

    root: str = "/"  # prefix of every path below
    bus: str | None = None  # D-Bus address; None: the system bus
    credentials: str | None = None  # the unit's $CREDENTIALS_DIRECTORY
    interval_s: float = 1.0  # time between two samples while somebody asks for rates
    window_s: float = (
        3.0  # rates and percentiles are computed over this time; the first ones over a longer time
    )
    recheck_s: float = 30.0  # units and weights are checked this often, even if no signal reports a change
    # timeout of calls to systemd, polkit and ek-fixed-share: systemd on a slow board needs seconds for a daemon-reload
    call_timeout_s: float = 10.0
    patience_s: float = 2.0  # after this time ListApps returns the last known unit states
    # timeout of StartApp and StopApp: less than the 25 s after which D-Bus clients stop waiting
    job_timeout_s: float = 20.0
    settle_s: float = 1.0  # systemd writes io.weight up to this long after it has answered the call
    # time until the agent first asks RAUC about updates: at a boot, everything else comes first
    first_update_check_s: float = 60.0

    def path(self, absolute: str) -> str:
        """The path ABSOLUTE below the root."""
        return os.path.join(self.root, absolute.lstrip("/"))

    @property
    def apps_dir(self) -> str:
        """The files of the apps that the image or the owner of the board lists."""
        return self.path("/etc/evenkeel/apps.d")

    @property
    def added_apps_dir(self) -> str:
        """The files of the apps that AddApp has listed. Only the agent writes here, and all users may read."""
        return self.path("/var/lib/evenkeel-apps")

    @property
    def state_dir(self) -> str:
        return self.path("/var/lib/evenkeel-agent")

    @property
    def cgroup_dir(self) -> str:
        return self.path("/sys/fs/cgroup")

    @property
    def apps_cgroup(self) -> str:
        """The cgroup of evenkeel-apps.slice. The apps are below it."""
        return f"{self.cgroup_dir}/evenkeel.slice/{APPS_SLICE}"

    @property
    def fixed_share_socket(self) -> str:
        """The socket on which ek-fixed-share receives orders."""
        return self.path("/run/evenkeel/fixed-share")

    @property
    def alert_socket(self) -> str:
        """The socket on which ek-alert receives orders."""
        return self.path("/run/evenkeel/alert")

    @property
    def network_socket(self) -> str:
        """The socket on which ek-network receives orders."""
        return self.path("/run/evenkeel/network")

    @property
    def certificate_socket(self) -> str:
        """The socket on which ek-certificate receives orders."""
        return self.path("/run/evenkeel/certificate")

    @property
    def recordings_socket(self) -> str:
        """The socket on which ek-recordings receives requests."""
        return self.path("/run/evenkeel/recordings")

    @property
    def journal_socket(self) -> str:
        """The socket on which ek-journal receives requests."""
        return self.path("/run/evenkeel/journal")

    @property
    def system_socket(self) -> str:
        """The socket on which ek-system receives orders."""
        return self.path("/run/evenkeel/system")

    @property
    def validate_socket(self) -> str:
        """The socket on which ek-validation receives orders."""
        return self.path("/run/evenkeel/validate")

    @property
    def pool_socket(self) -> str:
        """The socket on which ek-pool receives orders."""
        return self.path("/run/evenkeel/pool")

    @property
    def credentials_dir(self) -> str:
        return self.credentials or self.path("/run/credentials/@system")
