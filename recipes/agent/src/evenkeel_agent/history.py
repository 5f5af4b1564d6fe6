# SPDX-License-Identifier: Apache-2.0
"""Problems of evenkeel-history, from the state of its unit and from the file that it writes every 5 s and at each change.

A history that is switched off is not a problem.
"""

import json
import time
from collections.abc import Mapping

from evenkeel_api.messages import Message
from evenkeel_common.files import read_small

from .settings import Settings
from .systemd import UNKNOWN, Unit

SERVICE = "evenkeel-history.service"
UNITS = (SERVICE,)
STATUS = "/run/evenkeel-history/status.json"
STATUS_LIMIT = 64 * 1024
# The service counts as silent if its file is older than 3 of its periods: on a busy board, the file may be late.
SILENT_S = 15
CODES = (
    "history-damaged",
    "history-not-saved",
    "history-lost",
    "counters-unreadable",
    "counters-unknown",
)


def inspect(settings: Settings, units: Mapping[str, Unit]) -> list[Message]:
    """The problems. `units`: the known states of the units in UNITS. Blocks to read a file."""
    unit = units.get(SERVICE, UNKNOWN)
    if unit.active_state == "failed":
        return [Message("history-failed", unit=SERVICE)]
    if unit.sub_state.startswith("auto-restart"):
        return [Message("history-restarting", unit=SERVICE)]
    if unit.active_state != "active":
        return []
    try:
        found = json.loads(read_small(settings.path(STATUS), STATUS_LIMIT))
        written_ns = int(found["monotonic_ns"])
        notes = [(str(note["code"]), dict(note["parameters"])) for note in found["problems"]]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        # The service writes the file before its unit becomes active, so it could not write it. systemd's watchdog still
        # restarts a service that hangs.
        return []
    problems = [Message(code, **parameters) for code, parameters in notes if code in CODES]
    silent_s = (time.monotonic_ns() - written_ns) / 1e9
    if silent_s > SILENT_S:
        problems.append(Message("history-silent", seconds=silent_s, unit=SERVICE))
    return problems
