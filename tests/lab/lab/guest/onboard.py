# SPDX-License-Identifier: Apache-2.0
"""What the lab's scripts on a board share: the report on the second serial port, and steps on the console."""

from __future__ import annotations

import json
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPORT = Path("/dev/ttyS1")
# A measurement yields the sections of its report by name, each as soon as it is measured.
Measure = Callable[[Mapping[str, Any]], Iterator[tuple[str, Any]]]


def report(section: str, text: str) -> None:
    with REPORT.open("a") as port:
        port.write(f"@@@ {section}\n{text}\n")


def step(text: str) -> None:
    """The serial log shows how far the measurement is."""
    with Path("/dev/console").open("w") as console:
        console.write(f"lab: {time.monotonic():.1f} s: {text}\n")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def settled() -> None:
    """Wait until the board has started. Raises RuntimeError if a unit has failed."""
    step("wait for the board")
    state = subprocess.run(
        ["systemctl", "is-system-running", "--wait"], capture_output=True, text=True, check=False
    )
    if state.stdout.strip() != "running":
        step(run("journalctl", "--boot", "--no-pager", "--lines=100"))
        failed = run("systemctl", "--failed", "--no-legend", "--plain")
        raise RuntimeError(f"the board is {state.stdout.strip()}: {failed}")


def main(measure: Measure) -> None:
    """Measure what plan.json says, report it, and switch the board off."""
    try:
        settled()
        for section, found in measure(json.loads((HERE / "plan.json").read_text())):
            report(section, json.dumps(found))
    except Exception as error:
        step(traceback.format_exc())
        report("failed", repr(error))
    report("end", "")
    Path("/proc/sysrq-trigger").write_text("b")  # QEMU ends instead of a restart (-no-reboot)
