# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118, PTH119, PTH120
"""The I/O of each app since the last sample, from the cgroup files of the scheduler.

An app is its unit's cgroup and all cgroups below it. All other cgroups together are SYSTEM, so that the bytes of a
device add up. The sampler looks for new cgroups only every LOOKUP samples. Their I/O before the look-up is not lost,
because the counters of a new cgroup begin at 0.

The sampler keeps the file of each cgroup open: to read it again costs less than to open it again. An open file belongs
to one cgroup. If the cgroup is removed, the kernel fails to read the file, also if another cgroup has the path by then.
"""

import errno
import json
import os
from dataclasses import dataclass, field

from evenkeel_agent import registry
from evenkeel_agent.settings import Settings
from evenkeel_api.messages import Message
from evenkeel_common.files import read_line, read_small, why
from evenkeel_common.iostat import StatError
from evenkeel_common.reading import STAT_FILE, read_text

from .attribution import Wait, attribute
from .cgroups import Tree
from .increase import Counters
from .period import SYSTEM, Sum

LOOKUP = 5  # Apps and cgroups are looked up at every fifth sample. Waiting times are read then, too.
MAX_CGROUPS = 2000  # the maximum number of cgroups that are sampled
STATS_LIMIT = 16 * 1024  # bytes of an app's `stats` file; a longer file is ignored


@dataclass(slots=True)
class _App:
    content: bytes = b""  # of the app's file, as last read
    # number of stalls and their duration in ms, as last read from the app's file; None: not read yet
    counts: tuple[int, int] | None = None
    at_ms: int = 0  # when the counts were last read, on the clock of the sampler


@dataclass(slots=True)
class _Cgroup:
    app: str
    inode: int
    file: int  # file descriptor of STAT_FILE
    counters: Counters = field(default_factory=Counters)
    counted: bool = True  # whether the I/O before the next reading counts


@dataclass
class Sampler:
    """Reads the counters of all cgroups. All calls must come from one thread."""

    settings: Settings
    problem: Message | None = None
    apps: dict[str, registry.App] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)  # the names of the devices whose scheduler is evenkeel
    _apps_state: object = None
    _tree: Tree = field(init=False)
    _cgroups: dict[str, _Cgroup] = field(default_factory=dict)  # by directory
    _unreadable: Message | None = None  # why a file could not be opened at the last look-up
    _stalls: dict[str, _App] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)  # MAJ:MIN → name
    _samples: int = 0
    _ms: int = 0  # the clock of the sampler: all time up to this sample

    def __post_init__(self) -> None:
        self._tree = Tree(self.settings.cgroup_dir, MAX_CGROUPS)

    def sample(self, ms: int) -> Sum:
        """The I/O since the last call, which was MS milliseconds ago. The first call returns an empty Sum."""
        first = self._samples == 0
        look_up = self._samples % LOOKUP == 0 or self._tree.stale
        if look_up:
            self._look_up(first)
        self._samples += 1
        self._ms += ms
        result = Sum(ms=0 if first else ms)
        waits: list[tuple[str, Wait]] = []
        self.problem = self._unreadable
        for directory, cgroup in list(self._cgroups.items()):
            try:
                text = read_text(cgroup.file)
                increase = cgroup.counters.grow(text)
                waited = cgroup.counters.waits(text) if look_up else []
            except OSError as error:
                if error.errno == errno.ENODEV:  # the cgroup was removed, or the module was
                    self._forget(directory)
                    self._tree.stale = True
                else:
                    self.problem = Message(
                        "counters-unreadable", file=STAT_FILE, app=directory, reason=why(error)
                    )
                continue
            except StatError as error:
                self.problem = Message("counters-unknown", file=STAT_FILE, app=directory, reason=str(error))
                continue
            if cgroup.counted:
                for (number, direction), flow in increase.items():
                    result.add_flow((cgroup.app, self._device(number), direction), flow)
                waits += [(cgroup.app, wait) for wait in waited]
            cgroup.counted = True
        if look_up:
            numbers = {number for cgroup in self._cgroups.values() for number in cgroup.counters.devices}
            self.devices = sorted(self._device(number) for number in numbers)
        if waits:
            apps = {cgroup.inode: cgroup.app for cgroup in self._cgroups.values()}
            result.add_blame(attribute(waits, apps, SYSTEM))
        for name, app in self.apps.items():
            if app.stats:
                self._add_stalls(result, name, app.stats, ms)
        return result

    def _add_stalls(self, result: Sum, name: str, path: str, ms: int) -> None:
        """Add the stalls that the app NAME reports about itself: `stalls` and `stall_ms` in its file PATH.

        An app may write any numbers. So its stalls never take longer than the time since its file changed last, and it
        never has more than one in a millisecond. The file may have changed anywhere in the MS milliseconds before each of
        both readings, so the limit is MS longer.
        """
        state = self._stalls.setdefault(name, _App())
        try:
            content = read_small(self.settings.path(path), STATS_LIMIT)
            if content == state.content:
                return
            found = json.loads(content)
            counts = found.get("stalls"), found.get("stall_ms", 0)
        except (OSError, ValueError, RecursionError, AttributeError):
            return
        if not all(type(count) is int and 0 <= count < 1 << 53 for count in counts):
            return
        limit = self._ms - state.at_ms + ms
        state.content, old, state.counts, state.at_ms = content, state.counts, counts, self._ms
        if old is None:
            return
        if counts[0] < old[0] or counts[1] < old[1]:  # the app has restarted
            old = 0, 0
        if counts != old:
            result.add_stalls(name, min(counts[0] - old[0], limit), min(counts[1] - old[1], limit))

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

    def _look_up(self, first: bool) -> None:
        """Find the apps and the cgroups. FIRST: whether this is the first look-up."""
        self._names.clear()
        folders = self.settings.apps_dir, self.settings.added_apps_dir
        if (state := registry.state(*folders)) != self._apps_state:
            self._apps_state = state
            self.apps = registry.load(*folders).apps
        units = {app.unit: app.name for app in self.apps.values()}
        inodes = self._tree.find()
        for directory, cgroup in list(self._cgroups.items()):
            if inodes.get(directory) != cgroup.inode:
                self._forget(directory)
        apps = {self._tree.top: SYSTEM}  # by directory
        self._unreadable = None
        for directory, inode in inodes.items():  # a folder comes after the folder that it is in
            if directory != self._tree.top:
                app = apps[os.path.dirname(directory)]
                if app == SYSTEM and directory.startswith(self.settings.apps_cgroup + "/"):
                    app = units.get(os.path.basename(directory), SYSTEM)
                apps[directory] = app
            if known := self._cgroups.get(directory):
                known.app = apps[directory]
                continue
            try:
                file = os.open(os.path.join(directory, STAT_FILE), os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENODEV):
                    reason = why(error)
                    self._unreadable = Message(
                        "counters-unreadable", file=STAT_FILE, app=directory, reason=reason
                    )
                continue
            # The cgroup has appeared since the last look-up, so all its I/O counts. At the first look-up, it may be
            # old: then counting begins with its next reading.
            self._cgroups[directory] = _Cgroup(apps[directory], inode, file, counted=not first)

    def _forget(self, directory: str) -> None:
        os.close(self._cgroups.pop(directory).file)
