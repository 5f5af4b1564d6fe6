# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH116
"""ek-pool: protects the priority directories of the apps, and keeps the protected pool at the size that they need.

It is the only process that opens the device of the kernel module. It reads the apps' files and its own file. Each TICK_S
it gives the directories to the module, reads the counters, and runs the controller after each window. evenkeel-pool.socket
passes the orders of the agent: one request in each connection, as JSON; the answer is JSON in the packets of
evenkeel_common.packets. The order `hold` keeps its connection open. Its directory is a priority directory until this is closed.

Guarantees:

- When the process ends, also by a kill, the kernel closes the device, and the module removes all directories. systemd
  then sets memory.low to 0 (`ExecStopPost=`). So the cache works as without the module.
- A fault (no module, no cgroup, a directory that does not exist) changes nothing but the state that is reported. Each tick
  tries again.
- The file of the directories is on the medium before an order is answered.
- A directory that is held is not saved. The kernel closes a connection when its program ends, also by a kill. So no
  directory outlives its holder. What a holder sends after its order is never read.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_agent import registry
from evenkeel_agent.settings import Settings
from evenkeel_api import errors
from evenkeel_api.features.cache import Cache, CacheMinute, DirectoryState, HeldDirectory, PriorityDirectory
from evenkeel_api.messages import Message
from evenkeel_common import meminfo
from evenkeel_common.files import read_line, why
from evenkeel_common.notify import Watchdog, notify
from evenkeel_common.packets import CONTENT_BYTES, End, data, end

from . import memory
from .controller import PERCENT, Window, decide
from .device import PATH, Device, Identity, Pool, Totals
from .directories import Directories, checked
from .memory import PAGE, SLICE

if TYPE_CHECKING:
    from evenkeel_agent.registry import App

TICK_S = 5.0
RETRY_S = 30.0  # the apps' files are read again, and failed directories tried again, after this time
NOW_S = 15.0  # the present hit ratio is computed over this time
MINUTE_S = 60.0
MINUTES = 10
REQUEST_S = 5.0  # time that the agent may take to send its request
PACKET = 160 * 1024  # bytes of a request: `restore` has the directories of all apps
HOLDS = 4  # the maximum number of connections that hold a directory: each takes memory from other files
NEVER = -1.0
STATES: dict[int, DirectoryState] = {
    errno.EEXIST: "shared",
    errno.ENOENT: "absent",
    errno.ENOTDIR: "not-a-directory",
    errno.EXDEV: "overlay",
    errno.EOPNOTSUPP: "no-device",
    errno.ENOSPC: "too-many",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """The pools at one moment. Sizes are in bytes."""

    at_s: float
    totals: Totals
    target: int
    size: int


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a directory: its identity at that time, and its state."""

    identity: Identity | None
    state: DirectoryState
    reason: str = ""


def identity_of(path: str) -> Identity | None:
    """The identity of the directory PATH; None if it does not exist or cannot be reached."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def ratio(accesses: int, misses: int) -> float:
    """The hit ratio in percent; NEVER without accesses. Readahead can miss more pages than are accessed."""
    return PERCENT * max(0, accesses - misses) / accesses if accesses else NEVER


def ratios(old: Sample, new: Sample) -> tuple[float, float]:
    """The hit ratios of priority files and of other files between two samples."""
    a, b = old.totals, new.totals
    return (
        ratio(b.protected_accesses - a.protected_accesses, b.protected_misses - a.protected_misses),
        ratio(b.normal_accesses - a.normal_accesses, b.normal_misses - a.normal_misses),
    )


def window(old: Totals, new: Totals) -> Window:
    """The accesses and hits between two readings."""
    protected = new.protected_accesses - old.protected_accesses
    normal = new.normal_accesses - old.normal_accesses
    return Window(
        protected,
        max(0, protected - (new.protected_misses - old.protected_misses)),
        normal,
        max(0, normal - (new.normal_misses - old.normal_misses)),
    )


def at_or_before(samples: Sequence[Sample], at_s: float) -> Sample | None:
    """The newest sample that is not newer than AT_S."""
    return next((sample for sample in reversed(samples) if sample.at_s <= at_s), None)


def minutes(samples: Sequence[Sample]) -> list[CacheMinute]:
    """The complete minutes before the last sample, newest first."""
    found: list[CacheMinute] = []
    last_s = samples[-1].at_s if samples else 0.0
    for ago in range(MINUTES):
        new = at_or_before(samples, last_s - ago * MINUTE_S)
        old = at_or_before(samples, last_s - (ago + 1) * MINUTE_S)
        if not new or not old:
            break
        found.append(CacheMinute(ago, new.target, new.size, *ratios(old, new)))
    return found


@dataclass
class Service:
    """Keeps the pool. OPEN_DEVICE opens the device, and SET_LOW sets memory.low of the pool's cgroup."""

    settings: Settings
    open_device: Callable[[], Pool] = Device
    set_low: Callable[[int], None] = memory.set_low
    now_s: Callable[[], float] = time.monotonic
    find: Callable[[str], Identity | None] = identity_of
    _samples: deque[Sample] = field(
        default_factory=lambda: deque(maxlen=int(MINUTES * MINUTE_S / TICK_S) + 1)
    )

    def __post_init__(self) -> None:
        self._directories = Directories(self.settings.path("/var/lib/evenkeel-pool/directories.json"))
        self._cgroup = f"{self.settings.cgroup_dir}/{SLICE}"
        self._apps: Mapping[str, App] = {}
        self._retry_s = 0.0  # when the apps' files are read again
        self._device: Pool | None = None
        self._problem: Message | None = None  # why the pool is off
        self._low_problem: Message | None = None
        self._applied: dict[str, Applied] = {}
        self._held: dict[Hashable, str] = {}  # connection → the directory that it holds
        self._target = 0  # S_target in pages
        self._low: int | None = None  # memory.low in bytes; None: not known
        self._base: Totals | None = None  # the counters at the last decision
        self._control = memory.settings(self._sizes(), 0)

    # the work

    def tick(self) -> None:
        """Do what is due. It never fails, except with the PermissionError of _open(), which ends the process."""
        if self.now_s() >= self._retry_s:
            self._read_apps()
        readahead = memory.largest_readahead(self.settings.root)
        kept_free = memory.reserve(self._read("/proc/zoneinfo"))
        self._control = memory.settings(self._sizes(), readahead, kept_free)
        self._open()
        if self._device:
            try:
                self._work(self._device)
            except (OSError, ValueError) as error:
                reason = why(error) if isinstance(error, OSError) else str(error)
                self._drop(Message("pool-device-failed", path=PATH, reason=reason))
        self._protect()

    def _read_apps(self) -> None:
        found = registry.load(self.settings.apps_dir, self.settings.added_apps_dir)
        self._apps = found.apps
        self._retry_s = self.now_s() + RETRY_S
        # so that _apply() tries them again
        self._applied = {path: one for path, one in self._applied.items() if one.state != "failed"}

    def _open(self) -> None:
        """Open the device, if it is not open. Raises PermissionError if the unit does not allow it.

        systemd allows the device only if it existed when the process started. So the process ends, and systemd starts
        it again.
        """
        if self._device:
            return
        try:
            self._device = self.open_device()
            self._problem = None
        except PermissionError:
            raise
        except FileNotFoundError:
            self._problem = Message("pool-no-module")
        except OSError as error:
            if error.errno == errno.EBUSY:
                self._problem = Message("pool-busy", path=PATH)
            elif error.errno in (errno.ENXIO, errno.ENODEV):  # the node is left from another system
                self._problem = Message("pool-no-module")
            else:
                self._problem = Message("pool-device-failed", path=PATH, reason=why(error))

    def _drop(self, problem: Message) -> None:
        """Close the device, so that the module undoes everything, and start again at the next tick."""
        if self._device:
            with contextlib.suppress(OSError):
                self._device.close()
        self._device, self._problem = None, problem
        self._forget()

    def _forget(self) -> None:
        self._applied, self._target, self._base = {}, 0, None
        self._samples.clear()

    def _work(self, device: Pool) -> None:
        """Bring the module in line with the directories, then run the controller. Raises OSError or ValueError."""
        of_apps = (path for _, path in self._directories.all(self._apps))
        paths = list(dict.fromkeys((*of_apps, *self._held.values())))
        if not paths:
            self._problem = None
        elif not self._charge(device):
            device.clear()
            self._forget()
            return
        self._apply(device, paths)
        totals = device.totals()
        if not totals.directories:
            self._target, self._base = 0, None
            self._samples.clear()
            return
        self._decide(totals)
        self._samples.append(Sample(self.now_s(), totals, self._target * PAGE, self._size()))

    def _charge(self, device: Pool) -> bool:
        """Let the module charge pages to the pool's cgroup. Otherwise they would only be counted."""
        if device.totals().pool == "online":
            return True
        try:
            device.charge_to(self._cgroup)
        except OSError as error:
            self._problem = Message("pool-no-cgroup", path=self._cgroup, reason=why(error))
            return False
        self._problem = None
        return True

    def _apply(self, device: Pool, paths: list[str]) -> None:
        """Make PATHS the priority directories. After any change, all are removed and added again.

        A directory that was replaced may have the inode number of the old one. Then the number of directories in the
        module is too small, because the module forgets a directory that is removed.
        """
        protected = sum(one.state == "protected" for one in self._applied.values())
        same = list(self._applied) == paths and protected == device.totals().directories
        if same and all(self.find(path) == self._applied[path].identity for path in paths):
            return
        device.clear()
        self._applied = {}
        for path in paths:
            before = self.find(path)
            try:
                self._applied[path] = Applied(device.add(path), "protected")
            except OSError as error:
                state = STATES.get(error.errno or 0, "failed")
                self._applied[path] = Applied(before, state, why(error) if state == "failed" else "")

    def _decide(self, totals: Totals) -> None:
        control = self._control
        if self._base is None:
            self._base = totals
        found = window(self._base, totals)
        if found.protected_accesses + found.normal_accesses >= control.window:
            self._target, self._base = decide(control, self._target, found), totals
        self._target = min(self._target, control.blocks - control.normal_min)

    def _protect(self) -> None:
        """Set memory.low to S_target."""
        low = self._target * PAGE
        if low == self._low:
            return
        try:
            self.set_low(low)
            self._low, self._low_problem = low, None
        except OSError as error:
            self._low_problem = Message("pool-not-limited", reason=why(error))

    def _sizes(self) -> dict[str, int]:
        return meminfo.parse(self._read("/proc/meminfo"))

    def _read(self, path: str) -> str:
        """The content of the file PATH; "" if it cannot be read."""
        try:
            with open(self.settings.path(path), encoding="ascii") as file:  # noqa: PTH123
                return file.read()
        except (OSError, ValueError):
            return ""

    def _size(self) -> int:
        text = read_line(f"{self._cgroup}/memory.current")
        return int(text) if text.isdigit() else 0

    # the orders

    def answer(self, packet: bytes, connection: Hashable = None) -> bytes:
        """The answer to the request PACKET. It never fails, except with the PermissionError of tick().

        CONNECTION: what holds the directory of the order `hold`, until release().
        """
        try:
            request = json.loads(packet)
            order = request["order"]
            if order in ("add", "remove"):
                self._change(order, str(request["name"]), str(request["directory"]))
            elif order == "hold":
                self._hold(connection, str(request["directory"]))
            elif order in ("saved", "restore", "forget"):
                return self._settings_order(order, request)
            elif order != "state":
                raise ValueError(f"unknown order {order!r:.40}")
        except errors.AgentError as error:
            note = error.message.note()
            return _error(note.code, error.kind, note.parameters)
        except (ValueError, LookupError, TypeError) as error:
            return _error("external", "Failed", {"text": f"the request is not valid: {error}"})
        return msgspec.json.encode(self.state())

    def _change(self, order: str, name: str, path: str) -> None:
        """Raises AgentError."""
        self._read_apps()  # the agent may have added the app just now
        if name not in self._apps:
            raise errors.UnknownApp("unknown-app", app=name)
        getattr(self._directories, order)(self._apps[name], path)
        self.tick()

    def _hold(self, connection: Hashable, path: str) -> None:
        """Make PATH a priority directory until release(). Raises AgentError."""
        checked(path)
        if len(self._held) >= HOLDS:
            raise errors.Conflict("holds-full", limit=HOLDS)
        self._held[connection] = path
        self.tick()

    def holds(self, connection: Hashable) -> bool:
        """Whether CONNECTION holds a directory."""
        return connection in self._held

    def release(self, connection: Hashable) -> None:
        """CONNECTION holds no directory any more. Its directory loses its protection at the next tick."""
        self._held.pop(connection, None)

    def _settings_order(self, order: str, request: Mapping[str, Any]) -> bytes:
        """Do an order about all saved directories. Returns the saved ones. Raises AgentError, ValueError or LookupError."""
        if order == "restore":
            self._directories.restore(request["directories"])
        elif order == "forget":
            self._directories.forget(str(request["name"]))
        if order != "saved":
            self._read_apps()
            self.tick()
        return msgspec.json.encode({"saved": self._directories.saved()})

    def state(self) -> Cache:
        """What the agent reports."""
        off = self._device is None or self._problem is not None
        entries = [self._entry(app, path, off) for app, path in self._directories.all(self._apps)]
        held = [self._held_entry(path, off) for path in dict.fromkeys(self._held.values())]
        protected = any(one.state == "protected" for one in self._applied.values())
        control = self._control
        size = self._size()
        found = Cache(
            state="off" if off else "on" if protected else "idle",
            target_bytes=self._target * PAGE,
            size_bytes=size,
            limit_bytes=(control.blocks - control.normal_min) * PAGE,
            memory_bytes=self._sizes().get("MemTotal", 0),
            normal_target=float(control.normal_percent),
            cost_bytes=min(size, self._low or 0),
            directories=entries,
            held=held,
            problem=[
                problem.note()
                for problem in (self._problem, self._low_problem, self._directories.problem)
                if problem
            ],
        )
        if not self._samples:
            return found
        new = self._samples[-1]
        recent = at_or_before(self._samples, new.at_s - NOW_S) or self._samples[0]
        protected_ratio, normal_ratio = ratios(recent, new)
        lately = ratios(self._samples[0], new)[1]
        return msgspec.structs.replace(
            found,
            protected_ratio=protected_ratio,
            normal_ratio=normal_ratio,
            normal_lack=NEVER if lately == NEVER else max(0.0, control.normal_percent - lately),
            minutes=minutes(self._samples),
        )

    def _entry(self, app: str, path: str, off: bool) -> PriorityDirectory:
        done = self._applied.get(path)
        if off or done is None:
            return PriorityDirectory(app, path, "off")
        # Another app names the same path, and comes first.
        first = next(name for name, other in self._directories.all(self._apps) if other == path)
        shared = done.state == "protected" and first != app
        return PriorityDirectory(app, path, "shared" if shared else done.state, done.reason)

    def _held_entry(self, path: str, off: bool) -> HeldDirectory:
        done = self._applied.get(path)
        if off or done is None:
            return HeldDirectory(path, "off")
        return HeldDirectory(path, done.state, done.reason)


def _error(code: str, kind: str, parameters: Mapping[str, Any]) -> bytes:
    return json.dumps({"error": code, "parameters": parameters, "kind": kind}).encode()


def respond(connection: socket.socket, service: Service) -> None:
    """Answer the request on CONNECTION. Close it, unless it holds a directory."""
    with contextlib.suppress(OSError):  # the agent may close the connection
        connection.settimeout(REQUEST_S)
        content = service.answer(connection.recv(PACKET), connection)
        for at in range(0, len(content), CONTENT_BYTES):
            connection.sendall(data(content[at : at + CONTENT_BYTES]))
        connection.sendall(end(End(0)))
    if not service.holds(connection):
        connection.close()


def serve(listener: socket.socket, service: Service, stop: socket.socket) -> None:
    """Work and answer until STOP is readable."""
    holders: dict[int, socket.socket] = {}  # by number of the descriptor
    watchdog = Watchdog()
    due_s = service.now_s()
    waiting = select.poll()
    for one in (listener, stop):
        waiting.register(one, select.POLLIN)
    while True:
        if service.now_s() >= due_s:
            service.tick()
            due_s = service.now_s() + TICK_S
            watchdog.progress(service.now_s())
        ready = {number for number, _ in waiting.poll(1000 * max(0.0, due_s - service.now_s()))}
        if stop.fileno() in ready:
            for connection in holders.values():
                connection.close()
            return
        for number in ready & holders.keys():
            waiting.unregister(number)
            connection = holders.pop(number)
            service.release(connection)
            connection.close()
            due_s = service.now_s()
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            respond(connection, service)
            if service.holds(connection):
                # poll() reports the end of a connection without a mask, but not what arrives.
                waiting.register(connection, 0)
                holders[connection.fileno()] = connection


def main() -> int:
    stopped, stopping = socket.socketpair()
    stopping.setblocking(False)
    signal.set_wakeup_fd(stopping.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the wakeup descriptor reports the signal
    service = Service(Settings())
    with socket.socket(fileno=3) as listener:
        try:
            service.tick()
            notify("READY=1")
            serve(listener, service, stopped)
        except PermissionError as error:
            print(
                f"<4>ek-pool: {PATH} appeared after the start, or is not permitted ({why(error)}); it starts again",
                file=sys.stderr,
            )
            return 1
        finally:
            notify("STOPPING=1")
    return 0
