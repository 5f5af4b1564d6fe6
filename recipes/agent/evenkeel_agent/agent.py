# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH112
"""What the agent does, without D-Bus around it: knows the apps, keeps their weights in force, measures them.

Rules that hold throughout: no file is read and nothing is flushed on the event loop's own thread; whoever
changes a weight, on disk or in systemd, holds _changing, and who changes a performance, on disk or in the
kernel, _regulation.changing; unit states are only ever replaced as a whole.
"""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Coroutine
from dataclasses import dataclass

from . import health, performance, recorder, registry, weight
from .bus import NO_REPLY, Bus, CallError
from .files import read_line, read_small
from .interface import Failed, InvalidPerformance, InvalidWeight, UnitNotFound, UnknownApp
from .notify import Watchdog
from .registry import App, Registry
from .regulation import Regulation, read_perf
from .sampler import Rates, Sampler
from .settings import Settings
from .store import Store, StoreError
from .systemd import NO_SUCH_UNIT, UNKNOWN, Systemd, Unit

STATS_LIMIT = 16 * 1024
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AppState:
    """One app as ListApps shows it."""

    app: App
    weight: int
    unit: Unit
    applied: bool
    performance: int
    performance_applied: bool
    performance_problem: str
    rates: Rates
    stats: str

    def fields(self) -> dict[str, object]:
        """By the names of interface.APP."""
        return {
            "name": self.app.name,
            "title": self.app.title,
            "description": self.app.description,
            "unit": self.app.unit,
            "weight": self.weight,
            "active_state": self.unit.active_state,
            "sub_state": self.unit.sub_state if self.unit.exists else "not-found",
            "applied": self.applied,
            "read_bps": self.rates.read_bps,
            "write_bps": self.rates.write_bps,
            "share": self.rates.share,
            "p99_us": self.rates.p99_us,
            "performance": self.performance,
            "performance_applied": self.performance_applied,
            "performance_problem": self.performance_problem,
            "performance_used": self.rates.use.used,
            "performance_late": self.rates.use.late,
            "performance_behind": self.rates.use.behind,
            "stats": self.stats,
            "window_s": self.rates.window_s,
        }


def own_counters(path: str) -> str:
    """The JSON object that an app shows of itself, as text; "" if there is none that deserves the name."""
    try:
        text = read_small(path, STATS_LIMIT).decode("utf-8")
        return text.strip() if isinstance(json.loads(text), dict) else ""
    except (OSError, ValueError, RecursionError):
        return ""


def _io_weight(directory: str | None) -> str | None:
    """The content of io.weight, None without a cgroup, "" without the file."""
    if directory is None or not os.path.isdir(directory):
        return None
    return read_line(f"{directory}/io.weight")


@dataclass(frozen=True, slots=True)
class Found:
    """What is read of one app for ListApps."""

    io_weight: str | None
    perf: str | None
    stats: str


class Agent:
    """Made by start(); belongs to one event loop."""

    def __init__(self, settings: Settings, bus: Bus) -> None:
        self._settings = settings
        self._systemd = Systemd(bus, settings.call_timeout_s, self.wake)
        self._registry = Registry()
        self._weights: Store
        self._regulation: Regulation
        self._sampler = Sampler(settings.window_s, settings.interval_s)
        self._changing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._units: dict[str, Unit] = {}  # by app
        self._recorder: dict[str, Unit] = {}  # by unit
        self._cgroups: dict[str, str | None] = {}  # directory by app, None: has none; missing: not known
        self._systemd_problem = ""
        self._unapplied: dict[str, str] = {}  # by app: why its weight could not be put in force
        self._pending: set[str] = set()  # apps whose weight systemd has yet to be told
        self._background: set[asyncio.Task[None]] = set()
        self._asked = self._answered = 0  # refreshes, so that a late answer does not undo a newer one

    async def start(self) -> None:
        """Read what is on disk and put the weights in force, also for units that have yet to start.

        Neither a damaged file nor a silent systemd keeps the agent from starting: they are its to report.
        """
        self._weights = await asyncio.to_thread(
            Store, self._settings.state_dir, "weight", weight.problem, "default weights are in use"
        )
        self._regulation = await asyncio.to_thread(Regulation, self._settings)
        await self._systemd.watch_owner()
        await self.reload()

    async def reload(self) -> None:
        """Read apps.d again. An app that has gone from it keeps what it has until the next boot."""
        self._registry = await asyncio.to_thread(registry.load, self._settings.apps_dir)
        for problem in self._registry.problems:
            _log.warning("%s", problem)
        for problem in filter(None, (self._weights.problem, self._regulation.problem)):
            _log.warning("%s", problem)
        apps = self._registry.apps
        await self._systemd.watch_units(app.unit for app in apps.values())
        self._pending = set(apps)
        self._regulation.forget(apps)
        await self._catch_up()
        self.wake()

    def wake(self) -> None:
        """Have unit states and weights looked at soon."""
        self._wake.set()

    # what the service offers

    async def list_apps(self) -> list[AppState]:
        """All apps by name, with live unit states; with the last known ones when systemd takes too long."""
        await self._in_background(self._refresh(cached=True), self._settings.patience_s)
        apps = self._registry.apps
        contents = await asyncio.to_thread(self._read_apps, apps, dict(self._cgroups))
        rates = self._sampler.rates(apps)
        states = []
        for name, app in apps.items():
            found = contents[name]
            value = self._weight(app)
            regulated = self._regulation.applied(name, found.perf)
            states.append(
                AppState(
                    app,
                    value,
                    self._unit(name),
                    applied=found.io_weight is not None and weight.in_force(found.io_weight, value),
                    performance=self._regulation.get(name),
                    performance_applied=regulated,
                    performance_problem="" if regulated else self._regulation.obstacle(name),
                    rates=rates[name],
                    stats=found.stats,
                )
            )
        return states

    async def status(self) -> tuple[health.Board, list[str]]:
        """The board, and all that is amiss with it or with the agent's own work."""
        states = await self.list_apps()
        board = await asyncio.to_thread(health.look, self._settings)
        problems = [*board.problems, *self._registry.problems]
        problems += await asyncio.to_thread(recorder.look, self._settings, self._recorder)
        kept = (self._weights.problem, self._regulation.problem, self._systemd_problem)
        problems += filter(None, kept)
        problems += self._sampler.problems.values()
        for state in states:
            name = state.app.name
            if state.applied or self._cgroups.get(name) is None:
                self._unapplied.pop(name, None)
            elif name in self._unapplied:
                problems.append(self._unapplied[name])
            else:
                # it may just have started: a problem only if it cannot be mended
                self.wake()
            if state.performance_problem and self._cgroups.get(name) is not None:
                problems.append(state.performance_problem)
            elif not state.performance_applied and self._cgroups.get(name) is not None:
                self.wake()
        return board, problems

    async def set_weight(self, name: str, value: int) -> AppState:
        """Keep VALUE for the app NAME, then put it in force. On an AgentError nothing has changed."""
        app = self._app(name)
        if bad := weight.problem(value):
            raise InvalidWeight(f"{bad} (app {name})")
        async with self._changing:
            before = self._weight(app)
            try:
                await asyncio.to_thread(self._weights.save, name, value)
            except StoreError as error:
                raise Failed(f"the weight of {name} stays {before}: {error}") from error
            await self._put_in_force(app)
        if name in self._pending:
            self.wake()
        return await self._state(name)

    async def set_performance(self, name: str, percent: int) -> AppState:
        """Keep PERCENT for the app NAME, then put it in force. On an AgentError nothing has changed."""
        self._app(name)
        if bad := performance.problem(percent):
            raise InvalidPerformance(f"{bad} (app {name})")
        regulation = self._regulation
        await self._in_background(self._refresh(cached=True), self._settings.patience_s)
        async with regulation.changing:
            others = {other: regulation.get(other) for other in self._registry.apps if other != name}
            if percent and percent + sum(others.values()) > performance.MAX:
                have = ", ".join(f"{other} {theirs} %" for other, theirs in others.items() if theirs)
                left = performance.MAX - sum(others.values())
                raise InvalidPerformance(
                    f"{percent} % for {name} is more than the {max(left, 0)} % that are left: {have}"
                )
            before = regulation.get(name)
            try:
                await asyncio.to_thread(regulation.save, name, percent)
            except StoreError as error:
                stays = f"{before} %" if before else "off"
                raise Failed(f"the performance of {name} stays {stays}: {error}") from error
        # a busy board may take its time to start ek-regulate; what is kept comes into force in any case
        await self._in_background(
            regulation.enforce({name: self._cgroups.get(name)}), self._settings.settle_s
        )
        return await self._state(name)

    async def start_app(self, name: str) -> None:
        """Start the app's unit and wait for it, within the D-Bus clients' patience."""
        app = self._app(name)
        await self._job("StartUnit", "started", app)
        await self._refresh(cached=False)
        unit = self._unit(name)
        try:
            passed_over = (
                not unit.live and unit is not UNKNOWN and await self._systemd.condition_failed(app.unit)
            )
        except CallError:
            passed_over = False
        if passed_over:
            raise Failed(f"app {name} was not started: a condition in {app.unit} is not met")

    async def stop_app(self, name: str) -> None:
        """Stop the app's unit and wait for it, within the D-Bus clients' patience."""
        await self._job("StopUnit", "stopped", self._app(name))
        await self._refresh(cached=False)

    # what runs all the time

    async def sample(self) -> None:
        """Read the counters at every interval; the watchdog is fed by this alone."""
        watchdog = Watchdog()
        due_s = time.monotonic()
        while True:
            readings = await asyncio.to_thread(self._sampler.read, dict(self._cgroups))
            now_s = time.monotonic()
            if self._sampler.add(now_s, readings):
                self.wake()
            watchdog.progress(now_s)
            due_s = max(due_s + self._settings.interval_s, now_s)
            await asyncio.sleep(due_s - now_s)

    async def watch(self) -> None:
        """Follow the units: learn of their cgroups, and put in force what is kept for them when they start."""
        while True:
            behind = self._pending or self._systemd_problem or self._regulation.hindered
            patience_s = 5 * self._settings.interval_s if behind else self._settings.recheck_s
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), patience_s)
            self._wake.clear()
            await self._catch_up()
            contents = await asyncio.to_thread(self._read_weights, dict(self._cgroups))
            for name, content in contents.items():
                app = self._registry.apps.get(name)
                if app and content is not None and not weight.in_force(content, self._weight(app)):
                    async with self._changing:
                        await self._put_in_force(app)
            await self._regulation.enforce({name: self._cgroups.get(name) for name in self._registry.apps})
            # one look for a burst of signals
            await asyncio.sleep(self._settings.interval_s / 5)

    # inside

    def _app(self, name: str) -> App:
        app = self._registry.apps.get(name)
        if app is None:
            raise UnknownApp(f"there is no app {name!r:.80} in apps.d")
        return app

    async def _state(self, name: str) -> AppState:
        for state in await self.list_apps():
            if state.app.name == name:
                return state
        raise UnknownApp(f"app {name} has just been removed from apps.d")

    def _unit(self, name: str) -> Unit:
        return self._units.get(name, UNKNOWN)

    def _weight(self, app: App) -> int:
        return self._weights.get(app.name) or app.weight

    async def _catch_up(self) -> None:
        """Learn the state of the units, and tell systemd the weights that it has not heard yet."""
        await self._refresh(cached=False)
        if self._systemd_problem:
            return
        with contextlib.suppress(CallError):
            await self._systemd.subscribe()
        async with self._changing:
            pending = [app for name, app in self._registry.apps.items() if name in self._pending]
            await asyncio.gather(*(self._set_io_weight(app) for app in pending))

    async def _in_background(self, work: Coroutine[None, None, None], patience_s: float) -> None:
        """Do WORK, and leave it to itself when it takes longer than PATIENCE_S."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        await asyncio.wait((task,), timeout=patience_s)

    async def _refresh(self, *, cached: bool) -> None:
        """Learn unit states and cgroups from systemd; CACHED: a cgroup only where the state changed."""
        self._asked += 1
        mine = self._asked
        apps = self._registry.apps
        units: dict[str, Unit] = {}
        # without systemd the cgroups are where they were, and are still worth measuring
        cgroups = {name: path for name, path in self._cgroups.items() if name in apps}
        problem = ""
        try:
            listed = await self._systemd.list_units([*recorder.UNITS, *(app.unit for app in apps.values())])
            units = {name: listed.get(app.unit, UNKNOWN) for name, app in apps.items()}
            for name, unit in units.items():
                if not unit.live:
                    cgroups[name] = None
                elif not (cached and cgroups.get(name) and unit == self._units.get(name)):
                    path = await self._control_group(apps[name].unit)
                    cgroups[name] = self._settings.cgroup_dir + path if path.strip("/") else None
        except CallError as error:
            problem = f"systemd cannot be asked about units: {error}"
            units, listed = {}, {}
        if mine > self._answered:
            self._answered = mine
            if problem and not self._systemd_problem:
                _log.warning("%s", problem)
                # so that watch() waits for its end, not for the next routine look
                self.wake()
            self._units, self._cgroups, self._systemd_problem = units, cgroups, problem
            self._recorder = {unit: listed[unit] for unit in recorder.UNITS if unit in listed}

    async def _control_group(self, unit: str) -> str:
        try:
            return await self._systemd.control_group(unit)
        except CallError as error:
            if error.name == NO_REPLY:
                raise
            # the unit has gone since it was listed
            return ""

    async def _set_io_weight(self, app: App) -> str:
        """Hand the app's weight to systemd; returns why that failed, or ""."""
        try:
            if await self._is_weighed_at_its_start(app):
                self._pending.discard(app.name)
                return ""
            await self._systemd.set_io_weight(app.unit, self._weight(app))
        except CallError as error:
            if error.name == NO_SUCH_UNIT:
                # watch() sees to it when such a unit starts
                self._pending.discard(app.name)
            else:
                self._pending.add(app.name)
                _log.warning("the weight of %s is kept but not in force: %s", app.name, error)
            return str(error)
        self._pending.discard(app.name)
        return ""

    async def _is_weighed_at_its_start(self, app: App) -> bool:
        """Whether systemd is told the app's weight only when it runs, as watch() does. Raises CallError.

        Told of a stopped unit, systemd makes its cgroup, with the devices of DeviceAllow= as they are just then, and
        the start takes both as they stand: an app whose device comes later, or again under another number, may not
        open it. What there is cannot be seen from here (PrivateDevices=).
        """
        if self._unit(app.name).has_processes:
            return False
        try:
            allowed = await self._systemd.devices(app.unit)
        except CallError as error:
            if error.name == NO_REPLY:
                raise
            return False
        # of ProtectClock=, in many a unit
        return any(name != "char-rtc" for name in allowed)

    async def _put_in_force(self, app: App) -> None:
        """Hand the weight to systemd and see that it arrives; what hinders it is kept for status()."""
        before = self._unit(app.name)
        refused = await self._set_io_weight(app)
        if not refused:
            await self._refresh(cached=True)
            if self._unit(app.name).has_processes and not before.has_processes:
                # it has just started
                refused = await self._set_io_weight(app)
        value = self._weight(app)
        deadline_s = time.monotonic() + self._settings.settle_s
        pause_s = 0.02
        while True:
            content = await asyncio.to_thread(_io_weight, self._cgroups.get(app.name))
            if content is None or weight.in_force(content, value):
                self._unapplied.pop(app.name, None)
                return
            if refused or time.monotonic() >= deadline_s:
                break
            await asyncio.sleep(pause_s)
            pause_s *= 2
        found = refused or (f"its io.weight is {content!r:.60}" if content else "its cgroup has no io.weight")
        self._unapplied[app.name] = f"weight {value} of {app.name} is not in force: {found}"

    async def _job(self, member: str, done: str, app: App) -> None:
        try:
            result = await self._systemd.run_job(member, app.unit, self._settings.job_timeout_s)
        except CallError as error:
            if error.name == NO_SUCH_UNIT:
                raise UnitNotFound(f"app {app.name} was not {done}: there is no unit {app.unit}") from error
            raise Failed(f"app {app.name} was not {done}: {error}") from error
        # "": the unit takes long, ListApps shows how it gets on
        if result not in ("done", "skipped", ""):
            raise Failed(f"app {app.name} was not {done}: the job for {app.unit} ended as {result}")

    @staticmethod
    def _read_weights(cgroups: dict[str, str | None]) -> dict[str, str | None]:
        return {name: _io_weight(directory) for name, directory in cgroups.items()}

    @staticmethod
    def _read_apps(apps: dict[str, App], cgroups: dict[str, str | None]) -> dict[str, Found]:
        return {
            name: Found(
                _io_weight(cgroups.get(name)),
                read_perf(cgroups.get(name)),
                own_counters(app.stats) if app.stats else "",
            )
            for name, app in apps.items()
        }
