# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH112
"""Serves the features `board` and `apps`, without D-Bus. It keeps the apps' weights and fixed shares in force.

It also measures the I/O of the apps. Invariants:

- The thread of the event loop neither reads nor writes files; other threads do.
- A task that changes a weight, on disk or in systemd, holds _changing.
- A task that changes a fixed share, on disk or in the kernel, holds _fixed_shares.changing.
- A task that adds or removes an app holds _listing.
- _units is replaced as a whole, never changed in place.
- The agent neither changes nor measures a unit outside the slice of the apps (_outside). The polkit rule and
  ek-fixed-share enforce the ban on changes independently of the agent's code.
"""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from weakref import WeakValueDictionary

from evenkeel_api import errors
from evenkeel_api.features.apps import AddApp, AppName, SetFixedShare, SetWeight, UndoFixedShare, UndoWeight
from evenkeel_api.features.apps import App as AppState
from evenkeel_api.features.board import Health, Snapshot, Status
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from evenkeel_common.files import read_line, read_small, remove, replace, why
from evenkeel_common.notify import Watchdog

from . import __version__, cache, fixed_share, health, history, recorder, registry, weight
from .bus import NO_REPLY, Bus, CallError
from .cache import PagePool
from .caller import Caller
from .fixed_share_enforcer import FixedShareEnforcer, read_fixed
from .registry import App, Registry
from .sampler import Rates, Sampler
from .settings import APPS_SLICE, Settings
from .store import Store, StoreError
from .systemd import NO_SUCH_UNIT, UNKNOWN, Systemd, Unit

OTHERS = (*recorder.UNITS, *history.UNITS, *cache.UNITS)  # units whose state a problem depends on
IDLE = 5  # number of intervals between two samples while nobody asks for rates
QUIET = 10  # of so many checks without a signal, one asks for slices and cgroups of all apps
STATS_LIMIT = 16 * 1024  # bytes of an app's `stats` file; a longer file is ignored
_log = logging.getLogger(__name__)


def own_counters(path: str) -> str:
    """The JSON object in PATH, the file in which an app publishes its own counters; "" if it has no valid object."""
    try:
        text = read_small(path, STATS_LIMIT).decode("utf-8")
        return text.strip() if isinstance(json.loads(text), dict) else ""
    except (OSError, ValueError, RecursionError):
        return ""


def _io_weight(directory: str | None) -> str | None:
    """The content of io.weight in the cgroup DIRECTORY; None if there is no cgroup, "" if it has no io.weight."""
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
    """The handlers of the features `board` and `apps`. Call start() first, and all methods in one event loop."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        pool: PagePool,
        more: Callable[[], list[Message]] = list,
        wear_limit: Callable[[], int] = lambda: 0,
    ) -> None:
        """MORE returns the problems of other features, and WEAR_LIMIT the wear limit in percent; status has both."""
        self._wear_limit = wear_limit
        self._more_problems = more
        self._settings = settings
        self._pool = pool
        self._systemd = Systemd(bus, settings.call_timeout_s, self.wake)
        self._registry = Registry()
        self._weights: Store
        self._fixed_shares: FixedShareEnforcer
        self._sampler = Sampler(settings.window_s, settings.interval_s)
        self._sampling = asyncio.Lock()
        self._changing = asyncio.Lock()
        self._listing = asyncio.Lock()
        self._orders = WeakValueDictionary[tuple[str, str], asyncio.Lock]()  # see _order()
        self._wake = asyncio.Event()
        self._units: dict[str, Unit] = {}  # by app
        self._others: dict[str, Unit] = {}  # states of the units in OTHERS, by unit
        # the cgroup directory, by app; None: the app has no cgroup; missing key: not known
        self._cgroups: dict[str, str | None] = {}
        self._outside: dict[
            str, str
        ] = {}  # by app: the slice of its unit, if the unit is not below the apps' slice
        self._systemd_problem: Message | None = None
        self._weight_problems: dict[str, Message] = {}  # by app: why its weight is not in force
        self._pending: set[str] = set()  # apps whose weight systemd does not have yet
        self._making_snapshot = asyncio.Lock()
        self._last_snapshot: Snapshot | None = None
        self._snapshot_expires_s = 0.0  # monotonic time
        self._snapshots = 0
        self._background: set[asyncio.Task[None]] = set()
        # Refreshes are numbered. The two fields have the number of the last refresh that began, and of the last
        # refresh whose result was stored. So a late result does not replace a newer one.
        self._refresh_started = self._refresh_used = 0
        self._full_refreshes = 0  # number of full refreshes that are running

    async def start(self) -> None:
        """Read the saved values and apply the weights, also to units that have not started yet.

        If a file is damaged or systemd does not respond, the agent runs nevertheless and reports the problem.
        """
        self._weights = await asyncio.to_thread(Store, self._settings.state_dir, "weight", weight.problem)
        self._fixed_shares = await asyncio.to_thread(FixedShareEnforcer, self._settings)
        await self._systemd.watch_owner()
        await self.reload()

    async def reload(self) -> None:
        """Read apps.d again. An app that is no longer listed keeps its weight until the next boot."""
        self._registry = await asyncio.to_thread(
            registry.load, self._settings.apps_dir, self._settings.added_apps_dir
        )
        for problem in self._registry.problems:
            _log.warning("%s", problem)
        for problem in filter(None, (self._weights.problem, self._fixed_shares.problem)):
            _log.warning("%s", problem)
        apps = self._registry.apps
        await self._systemd.watch_units(app.unit for app in apps.values())
        self._pending = set(apps)
        self._snapshot_expires_s = 0.0  # the next snapshot shows the change
        self._fixed_shares.keep_problems(apps)
        await self._sync_systemd()
        self.wake()

    def wake(self) -> None:
        """Make watch() check unit states, weights and fixed shares soon."""
        self._wake.set()

    # the methods of the D-Bus interface

    async def list_apps(self, _request: Nothing, _caller: Caller) -> list[AppState]:
        return await self._list_apps()

    async def get_status(self, _request: Nothing, _caller: Caller) -> Status:
        return await self._status(await self._list_apps())

    async def get_health(self, _request: Nothing, _caller: Caller) -> Health:
        status = (await self._snapshot()).status
        return Health(
            version=status.version,
            kernel=status.kernel,
            slot=status.slot,
            scheduler=status.scheduler,
            health=status.health,
        )

    async def get_snapshot(self, _request: Nothing, _caller: Caller) -> Snapshot:
        return await self._snapshot()

    async def set_weight(self, request: SetWeight, _caller: Caller) -> AppState:
        return await self._set_weight(request, None)

    async def undo_weight(self, request: UndoWeight, _caller: Caller) -> AppState:
        return await self._set_weight(request, request.present)

    async def _set_weight(self, request: SetWeight, present: int | None) -> AppState:
        """Save the weight, then apply it. On an AgentError nothing has changed: also if the weight is not PRESENT."""
        name, value = request.name, request.weight
        async with self._order("weight", name):
            app = await self._controlled_app(name)
            if bad := weight.problem(value):
                raise errors.InvalidWeight("for-app", reason=bad, app=name)
            async with self._changing:
                before = self._weight(app)
                if present not in (None, before):
                    raise errors.Conflict("weight-undo-too-late", value=before)
                try:
                    await asyncio.to_thread(self._weights.save, name, value)
                except StoreError as error:
                    raise errors.Failed(
                        "stays", what="weight", app=name, value=before, reason=error.message
                    ) from error
                await self._apply_weight(app)
        if name in self._pending:
            self.wake()
        return await self._state(name)

    async def set_fixed_share(self, request: SetFixedShare, _caller: Caller) -> AppState:
        return await self._set_fixed_share(request, None)

    async def undo_fixed_share(self, request: UndoFixedShare, _caller: Caller) -> AppState:
        return await self._set_fixed_share(request, request.present)

    async def _set_fixed_share(self, request: SetFixedShare, present: int | None) -> AppState:
        """Save the fixed share, then apply it. On an AgentError nothing has changed: also if the share is not PRESENT."""
        name, percent = request.name, request.percent
        fixed_shares = self._fixed_shares
        async with self._order("fixed share", name):
            await self._controlled_app(name)
            if bad := fixed_share.problem(percent):
                raise errors.InvalidFixedShare("for-app", reason=bad, app=name)
            async with fixed_shares.changing:
                before = fixed_shares.get(name)
                stays = f"{before} %" if before else "off"
                if present not in (None, before):
                    raise errors.Conflict("fixed-share-undo-too-late", value=stays)
                others = {other: fixed_shares.get(other) for other in self._registry.apps if other != name}
                if percent and percent + sum(others.values()) > fixed_share.MAX:
                    taken = [f"{other} {theirs} %" for other, theirs in others.items() if theirs]
                    left = max(fixed_share.MAX - sum(others.values()), 0)
                    raise errors.InvalidFixedShare(
                        "fixed-share-too-much", percent=percent, app=name, left=left, taken=taken
                    )
                try:
                    await asyncio.to_thread(fixed_shares.save, name, percent)
                except StoreError as error:
                    raise errors.Failed(
                        "stays", what="fixed share", app=name, value=stays, reason=error.message
                    ) from error
        # A busy board may need a while to start ek-fixed-share. If settle_s passes, the call returns, and the
        # value is applied in the background.
        await self._in_background(
            fixed_shares.enforce({name: self._cgroups.get(name)}), self._settings.settle_s
        )
        return await self._state(name)

    def saved_weights(self) -> dict[str, int]:
        """The saved weights, by app."""
        return self._weights.all()

    def saved_fixed_shares(self) -> dict[str, int]:
        """The saved fixed shares, by app."""
        return self._fixed_shares.all()

    async def restore_weights(self, weights: dict[str, int]) -> None:
        """Replace all saved weights. They are applied in the background. On an AgentError nothing has changed."""
        async with self._changing:
            await self._save_all(self._weights, weights)
            self._pending |= set(self._registry.apps)
        self._apply_soon()

    async def restore_fixed_shares(self, fixed_shares: dict[str, int]) -> None:
        """Replace all saved fixed shares. They are applied in the background. On an AgentError nothing has changed."""
        async with self._fixed_shares.changing:
            await self._save_all(self._fixed_shares, fixed_shares)
        self._apply_soon()

    async def _save_all(self, store: Store | FixedShareEnforcer, numbers: dict[str, int]) -> None:
        try:
            await asyncio.to_thread(store.save_all, numbers)
        except StoreError as error:
            raise errors.Failed(error.message.code, **error.message.parameters) from error

    def _apply_soon(self) -> None:
        self._snapshot_expires_s = 0.0  # the next snapshot shows the change
        self.wake()

    def added(self) -> dict[str, str]:
        """The files of the added apps, by name."""
        return {
            name: registry.to_toml(app.title, app.description, app.unit, app.weight).decode()
            for name, app in self._registry.apps.items()
            if app.added
        }

    async def restore_added(self, files: dict[str, str]) -> None:
        """Make FILES the added apps. Raises AgentError. It can be repeated after a failure."""
        for name in self.added().keys() - files.keys():
            await self.remove_app(AppName(name), Caller("", None, "bus"))
        async with self._listing:
            for name, text in files.items():
                try:
                    await asyncio.to_thread(replace, self._added_file(name), text.encode(), 0o644)
                except OSError as error:
                    raise errors.Failed("app-not-added", app=name, reason=why(error)) from error
            await self.reload()

    async def start_app(self, request: AppName, _caller: Caller) -> None:
        """Start the app's unit and wait until it runs, at most job_timeout_s."""
        app = await self._controlled_app(request.name)
        await self._job("StartUnit", "not-started", app)
        await self._refresh(cached=False)
        self.changed()
        unit = self._unit(app.name)
        try:
            skipped = not unit.live and unit is not UNKNOWN and await self._systemd.condition_failed(app.unit)
        except CallError:
            skipped = False
        if skipped:
            raise errors.Failed("not-started", app=app.name, reason=Message("condition", unit=app.unit))

    async def stop_app(self, request: AppName, _caller: Caller) -> None:
        """Stop the app's unit and wait until it has stopped, at most job_timeout_s."""
        await self._job("StopUnit", "not-stopped", await self._controlled_app(request.name))
        await self._refresh(cached=False)
        self.changed()

    async def list_free_units(self, _request: Nothing, _caller: Caller) -> list[str]:
        return await asyncio.to_thread(self._free_units, {app.unit for app in self._registry.apps.values()})

    def _free_units(self, taken: set[str]) -> list[str]:
        """The units with a cgroup directly in the slice of the apps, without those in TAKEN. Blocks."""
        try:
            with os.scandir(self._settings.apps_cgroup) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:  # no app runs
            return []
        except OSError as error:
            reason = why(error)
            raise errors.Failed(
                "apps-unreadable", folder=self._settings.apps_cgroup, reason=reason
            ) from error
        return [name for name in names if registry.UNIT.fullmatch(name) and name not in taken]

    async def add_app(self, request: AddApp, _caller: Caller) -> AppState:
        """Write the file of the app, then read the files again. On an AgentError nothing has changed."""
        name = request.name
        if bad := weight.problem(request.weight):
            raise errors.InvalidWeight("app-not-added", app=name, reason=bad)
        content = registry.to_toml(request.title, request.description, request.unit, request.weight)
        try:
            app = registry.parse(name, content)
        except registry.AppError as error:
            raise errors.InvalidArgument("app-not-added", app=name, reason=error.message) from error
        async with self._listing:
            apps = self._registry.apps
            owner = next((other for other, theirs in apps.items() if theirs.unit == app.unit), None)
            problem = None
            if name in apps:
                problem = Message("app-name-taken", app=name)
            elif owner:
                problem = Message("app-unit-taken", unit=app.unit, app=owner)
            elif sum(other.added for other in apps.values()) >= registry.ADDED_LIMIT:
                problem = Message("app-too-many", limit=registry.ADDED_LIMIT)
            if problem:
                raise errors.Conflict("app-not-added", app=name, reason=problem)
            await self._check_unit(app)
            try:
                await asyncio.to_thread(replace, self._added_file(name), content, 0o644)
            except OSError as error:
                raise errors.Failed("app-not-added", app=name, reason=why(error)) from error
            await self.reload()
        return await self._state(name)

    async def _check_unit(self, app: App) -> None:
        """Raises AgentError unless systemd has the unit of APP, below the slice of the apps."""
        try:
            units = await self._systemd.list_units([app.unit])
            slice_ = await self._slice(app.unit)
        except CallError as error:
            raise errors.Failed("app-not-added", app=app.name, reason=str(error)) from error
        if not units.get(app.unit, UNKNOWN).exists:
            raise errors.UnitNotFound("app-not-added", app=app.name, reason=Message("no-unit", unit=app.unit))
        if slice_ != APPS_SLICE and not registry.in_apps_slice(slice_):
            reason = Message("outside-slice", unit=app.unit, slice=slice_, apps=APPS_SLICE)
            raise errors.UnitOutsideSlice("app-not-added", app=app.name, reason=reason)

    async def remove_app(self, request: AppName, caller: Caller) -> None:
        """Delete the file of the app and its saved values. On an AgentError the app is still listed."""
        name = request.name
        async with self._listing:
            app = self._app(name)
            if not app.added:
                reason = Message("app-from-file", path=f"{self._settings.apps_dir}/{name}.toml")
                raise errors.Conflict("app-not-removed", app=name, reason=reason)
            if self._fixed_shares.get(name):
                # Nobody could end it later: the kernel keeps it as long as the unit runs.
                with contextlib.suppress(errors.UnitOutsideSlice):  # it is not in force then
                    await self.set_fixed_share(SetFixedShare(name, 0), caller)
            try:
                await asyncio.to_thread(remove, self._added_file(name))
                async with self._changing, self._fixed_shares.changing:
                    await asyncio.to_thread(self._weights.save, name, None)
                    await asyncio.to_thread(self._fixed_shares.save, name, fixed_share.OFF)
            except OSError as error:
                raise errors.Failed("app-not-removed", app=name, reason=why(error)) from error
            except StoreError as error:
                # The app is gone. Only if an app of this name is added again, it gets the old values.
                _log.warning("%s", error)
            try:
                await self._pool.forget(name)
            except errors.AgentError as error:
                # The same as for the numbers: the choice counts again only for an app of this name.
                _log.warning("the priority directories of %s are still saved: %s", name, error)
            await self.reload()

    def _added_file(self, name: str) -> str:
        return f"{self._settings.added_apps_dir}/{name}.toml"

    # for other features

    def changed(self) -> None:
        """Another feature has changed what status reports. The next snapshot shows it."""
        self._snapshot_expires_s = 0.0

    async def recorder_units(self) -> dict[str, Unit]:
        """The states of the units of the recorder, by unit. A unit is missing if systemd does not answer."""
        await self._in_background(self._refresh(cached=True), self._settings.patience_s)
        return {unit: self._others[unit] for unit in recorder.UNITS if unit in self._others}

    async def pool_unit(self) -> Unit:
        """The state of the unit of ek-pool."""
        await self._in_background(self._refresh(cached=True), self._settings.patience_s)
        return self._others.get(cache.SERVICE, UNKNOWN)

    async def started_at(self, unit: str) -> float:
        """When UNIT last started, in seconds since 1970; 0 if this is not known."""
        try:
            started_s = await self._systemd.active_since(unit)
        except CallError:
            return 0.0
        return time.time() - (time.monotonic() - started_s) if started_s else 0.0

    # shared by the methods

    async def _list_apps(self) -> list[AppState]:
        """The states of all apps, sorted by name. If systemd takes longer than patience_s, unit states are the last known."""
        await self._in_background(self._refresh(cached=True), self._settings.patience_s)
        # A device that fails may block the reader. Then the rates are the last known ones.
        await self._in_background(self._sample(self._settings.interval_s / 2), self._settings.patience_s)
        apps = self._registry.apps
        contents = await asyncio.to_thread(self._read_apps, apps, dict(self._cgroups))
        rates = self._sampler.rates(apps)
        return [self._app_state(app, contents[name], rates[name]) for name, app in apps.items()]

    def _app_state(self, app: App, files: AppFiles, rates: Rates) -> AppState:
        name, unit, value = app.name, self._unit(app.name), self._weight(app)
        fixed_share_applied = self._fixed_shares.applied(name, files.fixed)
        problem = None if fixed_share_applied else self._fixed_shares.problem_of(name)
        return AppState(
            name=name,
            title=app.title,
            description=app.description,
            unit=app.unit,
            weight=value,
            active_state=unit.active_state,
            sub_state=unit.sub_state if unit.exists else "not-found",
            applied=files.io_weight is not None and weight.in_force(files.io_weight, value),
            read_bps=rates.read_bps,
            write_bps=rates.write_bps,
            share=rates.share,
            p99_us=rates.p99_us,
            fixed_share=self._fixed_shares.get(name),
            fixed_share_applied=fixed_share_applied,
            fixed_share_problem=[problem.note()] if problem else [],
            fixed_share_used=rates.fixed_share.used,
            fixed_share_late=rates.fixed_share.late,
            fixed_share_behind=rates.fixed_share.behind,
            stats=files.stats,
            window_s=rates.window_s,
            added=app.added,
        )

    async def _status(self, states: list[AppState]) -> Status:
        """The state of the board. Its problems include those of the other features and of the apps STATES."""
        board = await asyncio.to_thread(health.inspect, self._settings)
        problems = [*board.problems, *self._registry.problems]
        for part in (recorder, history):
            problems += await asyncio.to_thread(part.inspect, self._settings, self._others)
        named = any(app.directories for app in self._registry.apps.values())
        problems += self._pool.problems(self._others.get(cache.SERVICE, UNKNOWN), named=named)
        own = (self._weights.problem, self._fixed_shares.problem, self._systemd_problem)
        problems += filter(None, own)
        problems += self._sampler.problems.values()
        problems += self._more_problems()
        problems += [
            Message("app-not-controlled", app=name, reason=self._outside_reason(name))
            for name in self._registry.apps
            if name in self._outside
        ]
        for state in states:
            problems += self._problems_of(state)
        return Status(
            version=__version__,
            kernel=board.kernel,
            slot=board.slot,
            scheduler=board.scheduler,
            devices=[device.state() for device in board.devices],
            health="degraded" if problems else "ok",
            problems=[problem.note() for problem in problems],
            demo=board.demo,
            uptime_s=board.uptime_s,
            wear_limit=self._wear_limit(),
        )

    def _problems_of(self, state: AppState) -> list[Message]:
        """A message for each value of the app that is not in force and that watch() has failed to apply."""
        name, problems = state.name, []
        if state.applied or self._cgroups.get(name) is None:
            self._weight_problems.pop(name, None)
        elif name in self._weight_problems:
            problems.append(self._weight_problems[name])
        else:
            # The unit may have just started. It becomes a problem only if watch() fails to apply the weight.
            self.wake()
        if not state.fixed_share_applied and self._cgroups.get(name) is not None:
            if problem := self._fixed_shares.problem_of(name):
                problems.append(problem)
            else:
                self.wake()
        return problems

    async def _snapshot(self) -> Snapshot:
        """The current snapshot, at most interval_s old. All callers within that time get the same snapshot."""
        async with self._making_snapshot:
            if self._last_snapshot is None or time.monotonic() >= self._snapshot_expires_s:
                # Set it before: a change sets it to 0, also while this snapshot is made without the change.
                self._snapshot_expires_s = time.monotonic() + self._settings.interval_s
                try:
                    apps = await self._list_apps()
                    status = await self._status(apps)
                except BaseException:
                    self._snapshot_expires_s = 0.0
                    raise
                self._snapshots += 1
                self._last_snapshot = Snapshot(sequence=self._snapshots, status=status, apps=apps)
            return self._last_snapshot

    # the two tasks that run until the agent ends

    async def sample(self) -> None:
        """Read the counters at least every IDLE intervals. Only this task pings the watchdog.

        While somebody asks for rates, each question reads the counters, at most once in an interval.
        """
        watchdog = Watchdog()
        period_s = IDLE * self._settings.interval_s
        while True:
            await self._sample(period_s)
            now_s = time.monotonic()
            watchdog.progress(now_s)
            await asyncio.sleep(max(period_s - self._sampler.age_s(now_s), 0))

    async def _sample(self, age_s: float) -> None:
        """Read the counters, unless the newest sample is younger than AGE_S."""
        async with self._sampling:
            if self._sampler.age_s(time.monotonic()) < age_s:
                return
            readings = await asyncio.to_thread(self._sampler.read, dict(self._cgroups))
            if self._sampler.add(time.monotonic(), readings):
                self.wake()

    async def watch(self) -> None:
        """Follow the apps' units: find their cgroups, and apply the saved values when a unit starts."""
        quiet = 0  # number of checks without a signal since the last full one
        while True:
            retry = self._pending or self._systemd_problem or self._fixed_shares.has_problems
            timeout_s = 5 * self._settings.interval_s if retry else self._settings.recheck_s
            try:
                await asyncio.wait_for(self._wake.wait(), timeout_s)
                quiet = 0
            except TimeoutError:
                quiet = (quiet + 1) % QUIET
            self._wake.clear()
            # Without a signal, hardly anything has changed. A full check asks two questions for each app.
            await self._sync_systemd(cached=quiet > 0)
            contents = await asyncio.to_thread(self._read_weights, dict(self._cgroups))
            for name, content in contents.items():
                app = self._registry.apps.get(name)
                if app and content is not None and not weight.in_force(content, self._weight(app)):
                    async with self._changing:
                        await self._apply_weight(app)
            await self._fixed_shares.enforce({name: self._cgroups.get(name) for name in self._registry.apps})
            # This pause collects a burst of signals, so that one check serves all of them.
            await asyncio.sleep(self._settings.interval_s / 5)

    # internal

    def _app(self, name: str) -> App:
        app = self._registry.apps.get(name)
        if app is None:
            raise errors.UnknownApp("unknown-app", app=name)
        return app

    def _order(self, what: str, name: str) -> asyncio.Lock:
        """The lock for changes of this value of the app. Raises AgentError if there is no app NAME.

        A lock is given to those who wait for it in their order. So the last of several calls at once decides, even if systemd
        answers a question of an earlier one late.
        """
        self._app(name)
        return self._orders.setdefault((what, name), asyncio.Lock())

    async def _controlled_app(self, name: str) -> App:
        """The app NAME. Raises AgentError if there is none, or if its unit is outside the slice of the apps."""
        app = self._app(name)
        await self._in_background(self._refresh(cached=True), self._settings.patience_s)
        if name in self._outside:
            raise errors.UnitOutsideSlice("not-changed", app=name, reason=self._outside_reason(name))
        return app

    def _outside_reason(self, name: str) -> Message:
        unit = self._registry.apps[name].unit
        return Message("outside-slice", unit=unit, slice=self._outside[name], apps=APPS_SLICE)

    async def _state(self, name: str) -> AppState:
        self._snapshot_expires_s = 0.0  # the next snapshot shows the change
        for state in await self._list_apps():
            if state.name == name:
                return state
        raise errors.UnknownApp("app-removed", app=name)

    def _unit(self, name: str) -> Unit:
        return self._units.get(name, UNKNOWN)

    def _weight(self, app: App) -> int:
        return self._weights.get(app.name) or app.weight

    async def _sync_systemd(self, *, cached: bool = False) -> None:
        """Read the state of the units from systemd, and send it the weights that it does not have yet.

        CACHED: as in _refresh().
        """
        await self._refresh(cached=cached)
        if self._systemd_problem:
            return
        with contextlib.suppress(CallError):
            await self._systemd.subscribe()
        async with self._changing:
            self._pending -= self._outside.keys()
            pending = [app for name, app in self._registry.apps.items() if name in self._pending]
            await asyncio.gather(*(self._set_io_weight(app) for app in pending))

    async def _in_background(self, work: Coroutine[None, None, None], patience_s: float) -> None:
        """Run WORK as a task and wait for it at most PATIENCE_S. If it takes longer, it continues in the background."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        await asyncio.wait((task,), timeout=patience_s)

    async def _refresh(self, *, cached: bool) -> None:
        """Read unit states and cgroups from systemd. CACHED: ask for a cgroup only if the unit's state changed.

        While a full refresh runs, the stored cgroups may be outdated, and a cached refresh could store them again.
        So a refresh that begins at this time is a full refresh, whatever CACHED says.
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
        # If systemd does not answer, the last known cgroups stay, so that the agent can still measure the apps.
        cgroups = {name: path for name, path in self._cgroups.items() if name in apps}
        outside = {name: slice_ for name, slice_ in self._outside.items() if name in apps}
        problem = None
        try:
            listed = await self._systemd.list_units([*OTHERS, *(app.unit for app in apps.values())])
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
            problem = Message("systemd-silent", reason=str(error))
            units, listed = {}, {}
        if mine > self._refresh_used:
            self._refresh_used = mine
            if problem and not self._systemd_problem:
                _log.warning("%s", problem)
                # While there is a problem, watch() retries at shorter intervals than recheck_s. Wake it to begin.
                self.wake()
            self._units, self._cgroups, self._systemd_problem = units, cgroups, problem
            self._outside = outside
            self._others = {unit: listed[unit] for unit in OTHERS if unit in listed}

    async def _control_group(self, unit: str) -> str:
        try:
            return await self._systemd.control_group(unit)
        except CallError as error:
            if error.name == NO_REPLY:
                raise
            # systemd has unloaded the unit since it was listed
            return ""

    async def _slice(self, unit: str) -> str:
        """The slice of UNIT. If systemd has unloaded the unit meanwhile, APPS_SLICE: there is nothing to protect."""
        try:
            return await self._systemd.slice_of(unit) or "-.slice"
        except CallError as error:
            if error.name == NO_REPLY:
                raise
            return APPS_SLICE

    async def _set_io_weight(self, app: App) -> str:
        """Send the app's weight to systemd. Returns the reason of a failure, or "" if the weight was sent or must wait."""
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
        """Whether the agent must not send the app's weight before the app runs. watch() then sends it. Raises CallError.

        When a stopped unit gets a weight, systemd creates its cgroup. It gives the cgroup access to those devices of
        DeviceAllow= that exist at this moment, and does not update the list when the unit starts. So the app could
        not open a device that appears later, or reappears with another number. The agent cannot see which devices
        exist (PrivateDevices=), so it waits for every unit that names devices.
        """
        if self._unit(app.name).has_processes:
            return False
        try:
            allowed = await self._systemd.devices(app.unit)
        except CallError as error:
            if error.name == NO_REPLY:
                raise
            return False
        # char-rtc does not count: systemd adds it to each unit with ProtectClock=
        return any(name != "char-rtc" for name in allowed)

    async def _apply_weight(self, app: App) -> None:
        """Send the weight to systemd, and wait at most settle_s until io.weight has it.

        A failure is stored in _weight_problems, which GetStatus reports.
        """
        before = self._unit(app.name)
        refused = await self._set_io_weight(app)
        if not refused:
            await self._refresh(cached=True)
            if self._unit(app.name).has_processes and not before.has_processes:
                # The unit started meanwhile. If it has DeviceAllow=, _set_io_weight() had skipped it.
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
        reason = (
            Message("external", text=refused)
            if refused
            else Message("io-weight-is", content=content)
            if content
            else Message("io-weight-missing")
        )
        self._weight_problems[app.name] = Message(
            "weight-not-in-force", weight=value, app=app.name, reason=reason
        )

    async def _job(self, member: str, code: str, app: App) -> None:
        """Call the method MEMBER of systemd for the app's unit. Raises AgentError with the message CODE on failure."""
        try:
            result = await self._systemd.run_job(member, app.unit, self._settings.job_timeout_s)
        except CallError as error:
            if error.name == NO_SUCH_UNIT:
                reason = Message("no-unit", unit=app.unit)
                raise errors.UnitNotFound(code, app=app.name, reason=reason) from error
            raise errors.Failed(code, app=app.name, reason=str(error)) from error
        finally:
            self._snapshot_expires_s = 0.0
        # "" means that the job still runs after job_timeout_s. This is not an error: ListApps shows its progress.
        if result not in ("done", "skipped", ""):
            raise errors.Failed(
                code, app=app.name, reason=Message("job-failed", unit=app.unit, result=result)
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
