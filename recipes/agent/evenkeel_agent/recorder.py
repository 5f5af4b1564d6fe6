# SPDX-License-Identifier: Apache-2.0
"""Whether the recorder records: by what systemd knows of it, and by the statistics that it writes each second.

A recorder that somebody has switched off is no problem, and neither is one that has no channels.
"""

import json
import time
from collections.abc import Mapping

from .files import read_small
from .settings import Settings
from .systemd import UNKNOWN, Unit

SERVICE = "ek-recorder.service"
PARTITION = "recorder.mount"
UNITS = (SERVICE, PARTITION)
STATISTICS = "/run/ek-recorder/stats.json"
STATISTICS_LIMIT = 1 << 20  # 64 channels, with full histograms, are a quarter of that
SILENT_S = 10  # it writes each second; a board that is short of CPU may be late


def _statistics(path: str) -> dict[str, object]:
    """{} if there are none: it has just started, or was told not to write any."""
    try:
        found = json.loads(read_small(path, STATISTICS_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _channels(statistics: Mapping[str, object]) -> list[str]:
    """A sentence for each reason, with all channels that have it."""
    channels = statistics.get("channels")
    amiss: dict[tuple[str, str], list[str]] = {}
    for name, channel in channels.items() if isinstance(channels, dict) else ():
        reason = channel.get("reason") if isinstance(channel, dict) else None
        if reason:
            failed = channel.get("state") == "failed"
            amiss.setdefault(("is not recorded" if failed else "lacks something", str(reason)), []).append(
                name
            )
    return [f"channel {', '.join(names)} {what}: {reason}" for (what, reason), names in amiss.items()]


def look(settings: Settings, units: Mapping[str, Unit]) -> list[str]:
    """What is amiss, a sentence each; UNITS: the state of UNITS, as far as it is known. Blocks for a read."""
    problems = []
    partition, service = units.get(PARTITION, UNKNOWN), units.get(SERVICE, UNKNOWN)
    if partition.load_state == "loaded" and partition.active_state in ("inactive", "failed"):
        problems.append("the recorder's partition is not mounted: nothing can be recorded")
    if service.active_state == "failed":
        problems.append(f"the recorder has failed, and nothing is recorded: its log ({SERVICE}) says why")
    elif service.sub_state.startswith("auto-restart"):
        problems.append(f"the recorder has failed, and is started again: its log ({SERVICE}) says why")
    elif service.active_state == "active":
        statistics = _statistics(settings.path(STATISTICS))
        written_ns = statistics.get("monotonic_ns")
        silent_s = (time.monotonic_ns() - written_ns) / 1e9 if isinstance(written_ns, int) else 0.0
        if silent_s > SILENT_S:
            problems.append(f"the recorder hangs: it has told nothing for {silent_s:.0f} s")
        problems += _channels(statistics)
    return problems
