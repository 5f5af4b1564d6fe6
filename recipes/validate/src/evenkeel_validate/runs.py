# SPDX-License-Identifier: Apache-2.0
"""The validations of a board, as seen from outside: their paths, reports, and the progress of the one that runs.

A board loads this module for each look at them, so it imports nothing that measures.
"""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel_common.files import read_line

from . import lock, report
from .errors import ValidateError
from .report import Report

RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}(-[0-9]+)?")
# A board keeps this many reports, of some 100 KB each: a validation a week for a year.
MOST_KEPT = 50
ENDED_SILENTLY = "the run was killed, the power failed, or its report could no longer be saved"


@dataclass(frozen=True)
class Places:
    """Paths on a board. Tests replace them. `state` survives a reboot, `run` does not."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    state: Path = Path("/var/lib/evenkeel-validate")
    run: Path = Path("/run/evenkeel-validate")
    pool: Path = Path("/run/evenkeel/pool")  # socket of ek-pool

    @property
    def journal(self) -> Path:
        return self.state / "undo.json"

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    @property
    def progress(self) -> Path:
        return self.run / "progress.json"

    @property
    def boot(self) -> str:
        return read_line(str(self.proc / "sys/kernel/random/boot_id"))


def find(places: Places, id_: str) -> Path:
    """The folder of the run ID. Raises ValidateError."""
    if not RUN_ID.fullmatch(id_):
        raise ValidateError(f"{id_!r:.60} is not the id of a validation; `ek-validate list` shows the ids")
    folder = places.runs / id_
    if not (folder / "report.json").exists():
        raise ValidateError(f"there is no validation {id_}; `ek-validate list` shows the ids")
    return folder


def folders(places: Places) -> list[Path]:
    """The folders of all validations, the latest first. Leaves other files alone."""
    found = [f for f in places.runs.glob("*") if RUN_ID.fullmatch(f.name) and not f.is_symlink()]
    return sorted(found, key=lambda folder: report.order(folder.name), reverse=True)


def each_report(places: Places) -> Iterator[Report]:
    """All reports, the latest first, one at a time. A damaged report is left out, so that it hides no other one."""
    for folder in folders(places):
        with contextlib.suppress(ValidateError):
            yield settled(report.read(folder), places)


def reports(places: Places) -> list[Report]:
    return list(each_report(places))


def remove_old(places: Places) -> None:
    """Remove the oldest reports, so that there is a place for one more among MOST_KEPT."""
    for folder in folders(places)[MOST_KEPT - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


def settled(found: Report, places: Places) -> Report:
    """The report with its true state: a run that no process goes on with was interrupted."""
    holder = lock.holder(places.lock)
    if found.state == "running" and (holder is None or holder[1] != found.id):
        found.state, found.reason = "partial", ENDED_SILENTLY
    return found


def progress(places: Places) -> dict[str, Any] | None:
    """The progress of the validation that runs, or None. Key `ending`: it measures no longer, and restores the settings.

    Another command of ek-validate may have the lock. Then `id` is its name, which is no id of a validation.
    """
    holder = lock.holder(places.lock)
    if holder is None:
        return None
    found = _progress(places)
    if holder[1] == lock.RESTORE:
        return {"id": found.get("id", ""), "ending": True}
    # Until a validation has reported its progress, and while another command runs, the file is about the last validation.
    return found if found.get("id") == holder[1] else {"id": holder[1]}


def has_ended(places: Places) -> bool:
    """Whether the last validation since the boot has come to its end. A start forgets it (forget_end())."""
    return "ending" in _progress(places)


def forget_end(places: Places) -> None:
    """To be called before a validation is started."""
    places.progress.unlink(missing_ok=True)


def _progress(places: Places) -> dict[str, Any]:
    """What progress.json has; empty if there is no such file, or if it is damaged."""
    try:
        found = json.loads(places.progress.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
