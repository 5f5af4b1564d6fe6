# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH110, PTH112, PTH118, PTH119
"""The I/O of each app since the last sample, from the cgroup files of the scheduler.

An app is its unit's cgroup and all cgroups below it. All other cgroups together are SYSTEM, so that the bytes of a
device add up. The sampler looks for new cgroups only every LOOKUP samples. Their I/O before the look-up is not lost,
because the counters of a new cgroup begin at 0.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from evenkeel_agent import registry
from evenkeel_agent.settings import Settings
from evenkeel_api.messages import Message
from evenkeel_common.files import read_line, read_small, why
from evenkeel_common.iostat import HISTOGRAMS, Histogram, StatError, time_of
from evenkeel_common.reading import STAT_FILE, Reading, base, read_counters

from .attribution import attribute
from .period import READ, SYSTEM, WRITE, Sum

LOOKUP = 5  # apps and cgroups are looked up at every fifth sample
MAX_CGROUPS = 2000  # the maximum number of cgroups that are sampled
STATS_LIMIT = 16 * 1024  # bytes of an app's `stats` file; a longer file is ignored
DIRECTIONS = (("r", READ), ("w", WRITE))


def _grown(new: Mapping[int, int], old: Mapping[int, int]) -> Histogram:
    return {index: grown for index, count in new.items() if (grown := count - old.get(index, 0))}


@dataclass(slots=True)
class _App:
    # number of stalls and their duration in ms, as last read from the app's file; None: not read yet
    counts: tuple[int, int] | None = None


@dataclass(slots=True)
class _Cgroup:
    app: str
    reading: Reading | None = None  # None: not read yet


@dataclass
class Sampler:
    """Reads the counters of all cgroups. All calls must come from one thread."""

    settings: Settings
    problem: Message | None = None
    apps: dict[str, registry.App] = field(default_factory=dict)
    _cgroups: dict[str, _Cgroup] = field(default_factory=dict)  # by directory
    _stalls: dict[str, _App] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)  # MAJ:MIN → name
    _samples: int = 0

    def sample(self, ms: int) -> Sum:
        """The I/O since the last call, which was MS milliseconds ago. The first call returns an empty Sum."""
        first = self._samples == 0
        if self._samples % LOOKUP == 0:
            self._look_up(first)
        self._samples += 1
        result = Sum(ms=0 if first else ms)
        # by device and app, in µs: how long requests waited for the device, and how long requests were in the device
        waited: dict[str, dict[str, int]] = {}
        served: dict[str, dict[str, int]] = {}
        self.problem = None
        for directory in list(self._cgroups):
            cgroup = self._cgroups[directory]
            old = cgroup.reading
            try:
                new = read_counters(directory, old, HISTOGRAMS)
            except OSError as error:
                if os.path.isdir(directory):
                    self.problem = Message(
                        "counters-unreadable", file=STAT_FILE, app=directory, reason=why(error)
                    )
                else:
                    del self._cgroups[directory]
                continue
            except StatError as error:
                self.problem = Message("counters-unknown", file=STAT_FILE, app=directory, reason=str(error))
                continue
            cgroup.reading = new
            if old is not None and new is not old:
                self._add(result, cgroup.app, old, new, waited, served)
        for device, times in waited.items():
            result.add_blame(attribute(times, served.get(device, {}), ms * 1000))
        for name, app in self.apps.items():
            self._add_stalls(result, name, app.stats)
        return result

    def _add(
        self,
        result: Sum,
        app: str,
        old: Reading,
        new: Reading,
        waited: dict[str, dict[str, int]],
        served: dict[str, dict[str, int]],
    ) -> None:
        for number, device in new.devices.items():
            first = base(old, new, number)
            name = self._device(number)
            for letter, direction in DIRECTIONS:
                grown = {
                    key: _grown(device.histograms.get(key, {}), first.histograms.get(key, {}))
                    for key in (f"{letter}{what}" for what in ("wait", "gate", "serv", "total"))
                }
                ios = device.counters.get(f"{letter}ios", 0) - first.counters.get(f"{letter}ios", 0)
                if not ios and not any(grown.values()):
                    continue
                flow = result.flow((app, name, direction))
                flow.ios += ios
                key = f"{letter}bytes"
                flow.bytes += device.counters.get(key, 0) - first.counters.get(key, 0)
                gate_us = time_of(grown[f"{letter}gate"])
                wait_us = time_of(grown[f"{letter}wait"]) + gate_us
                service_us = time_of(grown[f"{letter}serv"])
                flow.gate_us += gate_us
                flow.wait_us += wait_us
                flow.gates += sum(grown[f"{letter}gate"].values())
                flow.service_us += service_us
                for index, count in grown[f"{letter}total"].items():
                    flow.latency[index] = flow.latency.get(index, 0) + count
                for times, us in ((waited, wait_us), (served, service_us)):
                    on = times.setdefault(number, {})
                    on[app] = on.get(app, 0) + us

    def _add_stalls(self, result: Sum, name: str, path: str) -> None:
        """Add the stalls that the app NAME reports about itself: `stalls` and `stall_ms` in its file PATH."""
        state = self._stalls.setdefault(name, _App())
        if not path:
            return
        try:
            found = json.loads(read_small(self.settings.path(path), STATS_LIMIT))
            counts = found.get("stalls"), found.get("stall_ms", 0)
        except (OSError, ValueError, RecursionError, AttributeError):
            return
        if not all(type(count) is int and 0 <= count < 1 << 53 for count in counts):
            return
        old = state.counts
        state.counts = counts
        if old is None:
            return
        if counts[0] < old[0] or counts[1] < old[1]:  # the app has restarted
            old = 0, 0
        if counts != old:
            result.add_stalls(name, counts[0] - old[0], counts[1] - old[1])

    def _device(self, number: str) -> str:
        """The name of the device NUMBER (MAJ:MIN) in /sys/block.

        Each look-up forgets the names, because the kernel may give the number of a removed device to another one.
        """
        if number not in self._names:
            text = read_line(self.settings.path(f"/sys/dev/block/{number}/uevent"))
            names = [
                line.removeprefix("DEVNAME=") for line in text.splitlines() if line.startswith("DEVNAME=")
            ]
            self._names[number] = names[0] if names else number
        return self._names[number]

    @property
    def devices(self) -> list[str]:
        """The names of the devices whose scheduler is evenkeel."""
        numbers = {n for cgroup in self._cgroups.values() if cgroup.reading for n in cgroup.reading.devices}
        return sorted(self._device(number) for number in numbers)

    def _look_up(self, first: bool) -> None:
        """Find the apps and the cgroups. FIRST: whether this is the first look-up."""
        self._names.clear()
        self.apps = registry.load(self.settings.apps_dir, self.settings.added_apps_dir).apps
        units = {app.unit: app.name for app in self.apps.values()}
        top, apps_cgroup = self.settings.cgroup_dir, self.settings.apps_cgroup
        found: dict[str, str] = {}
        stack = [(top, SYSTEM)]
        while stack and len(found) < MAX_CGROUPS:
            directory, app = stack.pop()
            if app == SYSTEM and directory.startswith(apps_cgroup + "/"):
                app = units.get(os.path.basename(directory), SYSTEM)
            try:
                with os.scandir(directory) as entries:
                    stack += [(entry.path, app) for entry in entries if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            if os.path.exists(os.path.join(directory, STAT_FILE)):
                found[directory] = app
        for directory, app in found.items():
            cgroup = self._cgroups.get(directory)
            if cgroup is None:
                # The cgroup has appeared since the last look-up, so all its I/O counts. At the first look-up, it may be
                # old: then counting begins with its next reading.
                self._cgroups[directory] = _Cgroup(app, None if first else Reading())
            else:
                cgroup.app = app
        for directory in self._cgroups.keys() - found.keys():
            del self._cgroups[directory]
