# SPDX-License-Identifier: Apache-2.0
"""Problems of the recorder, from the state of its units and from the statistics that it writes each second.

A recorder that is switched off is not a problem. A recorder without channels is not a problem either.
"""

import json
import time
from collections.abc import Mapping

from evenkeel_api.messages import Message
from evenkeel_common.files import read_small

from .settings import Settings
from .systemd import UNKNOWN, Unit

SERVICE = "ek-recorder.service"
PARTITION = "recorder.mount"
UNITS = (SERVICE, PARTITION)
STATISTICS = "/run/ek-recorder/stats.json"
STATISTICS_LIMIT = 1 << 20  # bytes: four times the size of a file for 64 channels with full histograms
# The recorder counts as silent if its file is older than 10 of its periods: on a busy board, the file may be late.
SILENT_S = 10


def read_statistics(path: str) -> dict[str, object]:
    """The statistics; {} if there are none, because the recorder has just started or is configured to write none."""
    try:
        found = json.loads(read_small(path, STATISTICS_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _channels(statistics: Mapping[str, object]) -> list[Message]:
    """The problems of channels: a message for each state and reason, with the names of all affected channels."""
    channels = statistics.get("channels")
    affected: dict[tuple[str, str], list[str]] = {}
    for name, channel in channels.items() if isinstance(channels, dict) else ():
        reason = channel.get("reason") if isinstance(channel, dict) else None
        if reason:
            state = "failed" if channel.get("state") == "failed" else "degraded"
            affected.setdefault((state, str(reason)), []).append(name)
    return [
        Message(f"channel{'s' if len(names) > 1 else ''}-{state}", channels=names, reason=reason)
        for (state, reason), names in affected.items()
    ]


def inspect(settings: Settings, units: Mapping[str, Unit]) -> list[Message]:
    """The problems. `units`: the known states of the units in UNITS. Blocks to read a file."""
    problems = []
    partition, service = units.get(PARTITION, UNKNOWN), units.get(SERVICE, UNKNOWN)
    if partition.load_state == "loaded" and partition.active_state in ("inactive", "failed"):
        problems.append(Message("recorder-not-mounted", unit=PARTITION))
    if service.active_state == "failed":
        problems.append(Message("recorder-failed", unit=SERVICE))
    elif service.sub_state.startswith("auto-restart"):
        problems.append(Message("recorder-restarting", unit=SERVICE))
    elif service.active_state == "active":
        statistics = read_statistics(settings.path(STATISTICS))
        written_ns = statistics.get("monotonic_ns")
        silent_s = (time.monotonic_ns() - written_ns) / 1e9 if isinstance(written_ns, int) else 0.0
        if silent_s > SILENT_S:
            problems.append(Message("recorder-silent", seconds=silent_s, unit=SERVICE))
        problems += _channels(statistics)
    return problems
