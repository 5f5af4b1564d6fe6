# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH112
"""The agent without D-Bus: knows the apps, keeps their weights and fixed shares in force, and measures them.

Invariants:

- The thread of the event loop neither reads files nor flushes.
- A task that changes a weight, on disk or in systemd, holds _changing.
- A task that changes a fixed share, on disk or in the kernel, holds _fixed_shares.changing.
- Unit states are only ever replaced as a whole.
- The agent neither changes nor measures a unit outside the slice of the apps (_outside). The polkit rule and
  ek-fixed-share enforce the same from outside.
"""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Coroutine
from dataclasses import dataclass

from . import fixed_share, health, recorder, registry, weight
from .bus import NO_REPLY, Bus, CallError
from .files import read_line, read_small
from .fixed_share_enforcer import FixedShareEnforcer, read_fixed
from .interface import (
    Failed,
    InvalidFixedShare,
    InvalidWeight,
    UnitNotFound,
    UnitOutsideSlice,
    UnknownApp,
)
from .notify import Watchdog
from .registry import App, Registry
from .sampler import Rates, Sampler
from .settings import APPS_SLICE, Settings
from .store import Store, StoreError
from .systemd import NO_SUCH_UNIT, UNKNOWN, Systemd, Unit

STATS_LIMIT = 16 * 1024
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AppState:
    """One app, as ListApps returns it."""

    app: App
    weight: int
    unit: Unit
    applied: bool
    fixed_share: int
    fixed_share_applied: bool
    fixed_share_problem: str
    rates: Rates
    stats: str

    def fields(self) -> dict[str, object]:
        """The values of interface.APP."""
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
            "fixed_share": self.fixed_share,
            "fixed_share_applied": self.fixed_share_applied,
            "fixed_share_problem": self.fixed_share_problem,
            "fixed_share_used": self.rates.fixed_share.used,
            "fixed_share_late": self.rates.fixed_share.late,
            "fixed_share_behind": self.rates.fixed_share.behind,
            "stats": self.stats,
            "window_s": self.rates.window_s,
        }


def own_counters(path: str) -> str:
    """The JSON object in an app's file of own counters, as text; "" without a valid one."""
    try:
        text = read_small(path, STATS_LIMIT).decode("utf-8")
        return text.strip() if isinstance(json.loads(text), dict) else ""
    except (OSError, ValueError, RecursionError):
        return ""


def _io_weight(directory: str | None) -> str | None:
    """The content of io.weight in the cgroup DIRECTORY; None without a cgroup, "" without the file."""
    if directory is None or not os.path.isdir(directory):
        return None
    return read_line(f"{directory}/io.weight")


@dataclass(frozen=True, slots=True)
class AppFiles:
    """Contents of the files that ListApps reads for one app."""

    io_weight: str | None
    fixed: str | None
    stats: str


class Agent:
    """Call start() first. Belongs to one event loop."""

    def __init__(self, settings: Settings, bus: Bus) -> None:
        self._settings = settings
        self._systemd = Systemd(bus, settings.call_timeout_s, self.wake)
        self._registry = Registry()
        self._weights: Store
        self._fixed_shares: FixedShareEnforcer
        self._sampler = Sampler(settings.window_s, settings.interval_s)
        self._changing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._units: dict[str, Unit] = {}  # by app
        self._recorder: dict[str, Unit] = {}  # by unit
        self._cgroups: dict[str, str | None] = {}  # directory by app; None: no cgroup; missing: unknown
        self._outside: dict[
            str, str
        ] = {}  # by app: the slice of its unit, if the unit is not below the apps' slice
        self._systemd_problem = ""
        self._weight_problems: dict[str, str] = {}  # by app: why its weight is not in force
        self._pending: set[str] = set()  # apps whose weight systemd does not have yet
        self._background: set[asyncio.Task[None]] = set()
        # Numbers of the last refresh that began and of the last whose answer was used. A late answer must
        # not replace a newer one.
        self._refresh_started = self._refresh_used = 0
        self._full_refreshes = 0  # that run now

    async def start(self) -> None:
        """Read the saved values and apply the weights, also to units that have not started yet.

        A damaged file or an unresponsive systemd does not stop the agent: it reports them as problems.
        """
        self._weights = await asyncio.to_thread(
            Store, self._settings.state_dir, "weight", weight.problem, "default weights are in use"
        )
        self._fixed_shares = await asyncio.to_thread(FixedShareEnforcer, self._settings)
        await self._systemd.watch_owner()
        await self.reload()

    async def reload(self) -> None:
        """Read apps.d again. An app that is no longer listed keeps its weight until the next boot."""
        self._registry = await asyncio.to_thread(registry.load, self._settings.apps_dir)
        for problem in self._registry.problems:
            _log.warning("%s", problem)
        for problem in filter(None, (self._weights.problem, self._fixed_shares.problem)):
            _log.warning("%s", problem)
        apps = self._registry.apps
        await self._systemd.watch_units(app.unit for app in apps.values())
        self._pending = set(apps)
        self._fixed_shares.keep_problems(apps)
        await self._sync_systemd()
        self.wake()

    def wake(self) -> None:
        """Make watch() check unit states, weights and fixed shares soon."""
        self._wake.set()

    # the methods of the D-Bus interface

    async def list_apps(self) -> list[AppState]:
        """All apps by name. Unit states are current, or the last known ones if systemd takes too long."""
        await self._in_background(self._refresh(cached=True), self._settings.patience_s)
        apps = self._registry.apps
        contents = await asyncio.to_thread(self._read_apps, apps, dict(self._cgroups))
        rates = self._sampler.rates(apps)
        states = []
        for name, app in apps.items():
            files = contents[name]
            value = self._weight(app)
            fixed_share_applied = self._fixed_shares.applied(name, files.fixed)
            states.append(
                AppState(
                    app,
                    value,
                    self._unit(name),
                    applied=files.io_weight is not None and weight.in_force(files.io_weight, value),
                    fixed_share=self._fixed_shares.get(name),
                    fixed_share_applied=fixed_share_applied,
                    fixed_share_problem="" if fixed_share_applied else self._fixed_shares.problem_of(name),
                    rates=rates[name],
                    stats=files.stats,
                )
            )
        return states

    async def status(self) -> tuple[health.Board, list[str]]:
        """The board, and the problems of the board and of the agent's own work."""
        states = await self.list_apps()
        board = await asyncio.to_thread(health.inspect, self._settings)
        problems = [*board.problems, *self._registry.problems]
        problems += await asyncio.to_thread(recorder.inspect, self._settings, self._recorder)
        own = (self._weights.problem, self._fixed_shares.problem, self._systemd_problem)
        problems += filter(None, own)
        problems += self._sampler.problems.values()
        problems += [
            f"app {name} is not controlled: {self._outside_reason(name)}"
            for name in self._registry.apps
            if name in self._outside
        ]
        for state in states:
            name = state.app.name
            if state.applied or self._cgroups.get(name) is None:
                self._weight_problems.pop(name, None)
            elif name in self._weight_problems:
                problems.append(self._weight_problems[name])
            else:
                # The unit may have just started. It is a problem only if watch() cannot correct it.
                self.wake()
            if state.fixed_share_problem and self._cgroups.get(name) is not None:
                problems.append(state.fixed_share_problem)
            elif not state.fixed_share_applied and self._cgroups.get(name) is not None:
                self.wake()
        return board, problems

    async def set_weight(self, name: str, value: int) -> AppState:
        """Save VALUE for the app NAME, then apply it. On an AgentError nothing has changed."""
        app = await self._controlled_app(name)
        if bad := weight.problem(value):
            raise InvalidWeight(f"{bad} (app {name})")
        async with self._changing:
            before = self._weight(app)
            try:
                await asyncio.to_thread(self._weights.save, name, value)
            except StoreError as error:
                raise Failed(f"the weight of {name} stays {before}: {error}") from error
            await self._apply_weight(app)
        if name in self._pending:
            self.wake()
        return await self._state(name)

    async def set_fixed_share(self, name: str, percent: int) -> AppState:
        """Save PERCENT for the app NAME, then apply it. On an AgentError nothing has changed."""
        await self._controlled_app(name)
        if bad := fixed_share.problem(percent):
            raise InvalidFixedShare(f"{bad} (app {name})")
        fixed_shares = self._fixed_shares
        async with fixed_shares.changing:
            others = {other: fixed_shares.get(other) for other in self._registry.apps if other != name}
            if percent and percent + sum(others.values()) > fixed_share.MAX:
                have = ", ".join(f"{other} {theirs} %" for other, theirs in others.items() if theirs)
                left = fixed_share.MAX - sum(others.values())
                raise InvalidFixedShare(
                    f"{percent} % for {name} is more than the {max(left, 0)} % that are left: {have}"
                )
            before = fixed_shares.get(name)
            try:
                await asyncio.to_thread(fixed_shares.save, name, percent)
            except StoreError as error:
                stays = f"{before} %" if before else "off"
                raise Failed(f"the fixed share of {name} stays {stays}: {error}") from error
        # A busy board may need a while to start ek-fixed-share. The saved value is applied in any case.
        await self._in_background(
            fixed_shares.enforce({name: self._cgroups.get(name)}), self._settings.settle_s
        )
        return await self._state(name)

    async def start_app(self, name: str) -> None:
        """Start the app's unit and wait for it, for less time than D-Bus clients wait for an answer."""
        app = await self._controlled_app(name)
        await self._job("StartUnit", "started", app)
        await self._refresh(cached=False)
        unit = self._unit(name)
        try:
            skipped = not unit.live and unit is not UNKNOWN and await self._systemd.condition_failed(app.unit)
        except CallError:
            skipped = False
        if skipped:
            raise Failed(f"app {name} was not started: a condition in {app.unit} is not met")

    async def stop_app(self, name: str) -> None:
        """Stop the app's unit and wait for it, for less time than D-Bus clients wait for an answer."""
        await self._job("StopUnit", "stopped", await self._controlled_app(name))
        await self._refresh(cached=False)

    # the tasks that run all the time

    async def sample(self) -> None:
        """Read the counters at every interval. Only this task pings the watchdog."""
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
        """Follow the units: find their cgroups, and apply the saved values when they start."""
        while True:
            retry = self._pending or self._systemd_problem or self._fixed_shares.has_problems
            timeout_s = 5 * self._settings.interval_s if retry else self._settings.recheck_s
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), timeout_s)
            self._wake.clear()
            await self._sync_systemd()
            contents = await asyncio.to_thread(self._read_weights, dict(self._cgroups))
            for name, content in contents.items():
                app = self._registry.apps.get(name)
                if app and content is not None and not weight.in_force(content, self._weight(app)):
                    async with self._changing:
                        await self._apply_weight(app)
            await self._fixed_shares.enforce({name: self._cgroups.get(name) for name in self._registry.apps})
            # One check serves a burst of signals.
            await asyncio.sleep(self._settings.interval_s / 5)

    # internal

    def _app(self, name: str) -> App:
        app = self._registry.apps.get(name)
        if app is None:
            raise UnknownApp(f"there is no app {name!r:.80} in apps.d")
        return app

    async def _controlled_app(self, name: str) -> App:
        """The app NAME. Raises AgentError if there is none, or if its unit is outside the slice of the apps."""
        app = self._app(name)
        await self._in_background(self._refresh(cached=True), self._settings.patience_s)
        if name in self._outside:
            raise UnitOutsideSlice(f"app {name} was not changed: {self._outside_reason(name)}")
        return app

    def _outside_reason(self, name: str) -> str:
        return (
            f"its unit {self._registry.apps[name].unit} is in {self._outside[name]}, not below {APPS_SLICE};"
            f" put Slice={APPS_SLICE} into the unit, then run 'systemctl daemon-reload'"
        )

    async def _state(self, name: str) -> AppState:
        for state in await self.list_apps():
            if state.app.name == name:
                return state
        raise UnknownApp(f"app {name} has just been removed from apps.d")

    def _unit(self, name: str) -> Unit:
        return self._units.get(name, UNKNOWN)

    def _weight(self, app: App) -> int:
        return self._weights.get(app.name) or app.weight

    async def _sync_systemd(self) -> None:
        """Read the state of the units from systemd, and send it the weights that it does not have yet."""
        await self._refresh(cached=False)
        if self._systemd_problem:
            return
        with contextlib.suppress(CallError):
            await self._systemd.subscribe()
        async with self._changing:
            self._pending -= self._outside.keys()
            pending = [app for name, app in self._registry.apps.items() if name in self._pending]
            await asyncio.gather(*(self._set_io_weight(app) for app in pending))

    async def _in_background(self, work: Coroutine[None, None, None], patience_s: float) -> None:
        """Run WORK as a task and wait at most PATIENCE_S for it. After that it continues in the background."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        await asyncio.wait((task,), timeout=patience_s)

    async def _refresh(self, *, cached: bool) -> None:
        """Read unit states and cgroups from systemd. CACHED: ask for a cgroup only if the unit's state changed.

        While a full refresh runs, what is known may be old. A cached one would put it back.
        """
        if cached and not self._full_refreshes:
            await self._read_units(cached=True)
            return
        self._full_refreshes += 1
        try:
            await self._read_units(cached=False)
        finally:
            self._full_refreshes -= 1

    async def _read_units(self, *, cached: bool) -> None:
        self._refresh_started += 1
        mine = self._refresh_started
        apps = self._registry.apps
        units: dict[str, Unit] = {}
        # Without systemd the cgroups stay where they were, and can still be measured.
        cgroups = {name: path for name, path in self._cgroups.items() if name in apps}
        outside = {name: slice_ for name, slice_ in self._outside.items() if name in apps}
        problem = ""
        try:
            listed = await self._systemd.list_units([*recorder.UNITS, *(app.unit for app in apps.values())])
            units = {name: listed.get(app.unit, UNKNOWN) for name, app in apps.items()}
            for name, unit in units.items():
                same = cached and unit == self._units.get(name)
                if not (same and (name in outside or not unit.live or cgroups.get(name))):
                    slice_ = await self._slice(apps[name].unit) if unit.exists else APPS_SLICE
                    if slice_ == APPS_SLICE or registry.in_apps_slice(slice_):
                        outside.pop(name, None)
                    else:
                        outside[name] = slice_
                if name in outside or not unit.live:
                    cgroups[name] = None
                elif not (same and cgroups.get(name)):
                    path = self._settings.cgroup_dir + await self._control_group(apps[name].unit)
                    cgroups[name] = path if path.startswith(self._settings.apps_cgroup + "/") else None
        except CallError as error:
            problem = f"systemd does not report the state of units, so that of the apps is unknown: {error}"
            units, listed = {}, {}
        if mine > self._refresh_used:
            self._refresh_used = mine
            if problem and not self._systemd_problem:
                _log.warning("%s", problem)
                # From now on watch() retries more often than its routine check.
                self.wake()
            self._units, self._cgroups, self._systemd_problem = units, cgroups, problem
            self._outside = outside
            self._recorder = {unit: listed[unit] for unit in recorder.UNITS if unit in listed}

    async def _control_group(self, unit: str) -> str:
        try:
            return await self._systemd.control_group(unit)
        except CallError as error:
            if error.name == NO_REPLY:
                raise
            # systemd has unloaded the unit since it was listed
            return ""

    async def _slice(self, unit: str) -> str:
        """The slice of UNIT. A unit that systemd has unloaded meanwhile has nothing that could be changed."""
        try:
            return await self._systemd.slice_of(unit) or "-.slice"
        except CallError as error:
            if error.name == NO_REPLY:
                raise
            return APPS_SLICE

    async def _set_io_weight(self, app: App) -> str:
        """Send the app's weight to systemd. Returns why that failed, or ""."""
        try:
            if await self._must_wait_for_start(app):
                self._pending.discard(app.name)
                return ""
            await self._systemd.set_io_weight(app.unit, self._weight(app))
        except CallError as error:
            if error.name == NO_SUCH_UNIT:
                # watch() applies the weight if the unit is installed later and starts.
                self._pending.discard(app.name)
            else:
                self._pending.add(app.name)
                _log.warning("the weight of %s is saved but not in force: %s", app.name, error)
            return str(error)
        self._pending.discard(app.name)
        return ""

    async def _must_wait_for_start(self, app: App) -> bool:
        """Whether systemd may get the app's weight only when the app runs; watch() then sends it. Raises CallError.

        If a stopped unit gets a weight, systemd creates its cgroup with the devices of DeviceAllow= that exist
        at this moment. The start of the unit does not update that list. So the app could not open a device that
        appears later, or appears again with another number. The agent cannot see which devices exist
        (PrivateDevices=).
        """
        if self._unit(app.name).has_processes:
            return False
        try:
            allowed = await self._systemd.devices(app.unit)
        except CallError as error:
            if error.name == NO_REPLY:
                raise
            return False
        # ProtectClock= adds char-rtc to many units
        return any(name != "char-rtc" for name in allowed)

    async def _apply_weight(self, app: App) -> None:
        """Send the weight to systemd and wait until the cgroup has it. A failure is kept for status()."""
        before = self._unit(app.name)
        refused = await self._set_io_weight(app)
        if not refused:
            await self._refresh(cached=True)
            if self._unit(app.name).has_processes and not before.has_processes:
                # The unit started meanwhile, so _set_io_weight() may have skipped it.
                refused = await self._set_io_weight(app)
        value = self._weight(app)
        deadline_s = time.monotonic() + self._settings.settle_s
        pause_s = 0.02
        while True:
            content = await asyncio.to_thread(_io_weight, self._cgroups.get(app.name))
            if content is None or weight.in_force(content, value):
                self._weight_problems.pop(app.name, None)
                return
            if refused or time.monotonic() >= deadline_s:
                break
            await asyncio.sleep(pause_s)
            pause_s *= 2
        reason = refused or (
            f"its io.weight is {content!r:.60}" if content else "its cgroup has no io.weight"
        )
        self._weight_problems[app.name] = f"weight {value} of {app.name} is not in force: {reason}"

    async def _job(self, member: str, done: str, app: App) -> None:
        try:
            result = await self._systemd.run_job(member, app.unit, self._settings.job_timeout_s)
        except CallError as error:
            if error.name == NO_SUCH_UNIT:
                raise UnitNotFound(f"app {app.name} was not {done}: there is no unit {app.unit}") from error
            raise Failed(f"app {app.name} was not {done}: {error}") from error
        # "": the job takes longer. ListApps shows its progress.
        if result not in ("done", "skipped", ""):
            raise Failed(
                f"app {app.name} was not {done}: the job for {app.unit} ended as {result};"
                f" see 'journalctl -u {app.unit}'"
            )

    @staticmethod
    def _read_weights(cgroups: dict[str, str | None]) -> dict[str, str | None]:
        return {name: _io_weight(directory) for name, directory in cgroups.items()}

    @staticmethod
    def _read_apps(apps: dict[str, App], cgroups: dict[str, str | None]) -> dict[str, AppFiles]:
        return {
            name: AppFiles(
                _io_weight(cgroups.get(name)),
                read_fixed(cgroups.get(name)),
                own_counters(app.stats) if app.stats else "",
            )
            for name, app in apps.items()
        }
