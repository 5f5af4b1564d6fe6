# SPDX-License-Identifier: Apache-2.0
"""Runs on the board: validates a flash model with `ek-validate`, as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from onboard import main, step  # type: ignore[import-not-found]  # noqa: E402

# Some services run a program for the first time a minute after the start, for example the check of the certificate. It takes
# the processor for a second, so a validation that happens to run then would measure it, too. Idle time costs nothing.
QUIET_S = 150

# ek-validate ends with 4 if a promise is broken. The report says which.
COMPLETE = (0, 4)


def measure(plan: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The report of each validation, by its name in the plan."""
    queue = Path(f"/sys/block/{plan['device']}/queue")
    step("wait for the end of what follows a start")
    time.sleep(max(QUIET_S - float(Path("/proc/uptime").read_text().split()[0]), 0))
    for name, (scheduler, *options) in plan["runs"].items():
        step(f"validation {name}")
        (queue / "scheduler").write_text(scheduler)
        command = ["ek-validate", "run", "--yes", "--json", "--profile=full", "--no-compare", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in COMPLETE:
            raise RuntimeError(
                f"{' '.join(command)}: status {done.returncode}, {done.stderr[-500:]} {done.stdout[-500:]}"
            )
        yield name, json.loads(done.stdout)


if __name__ == "__main__":
    main(measure)
