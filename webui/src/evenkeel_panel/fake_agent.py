# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S311  (random figures need no cryptography)
"""A fake agent in the panel's process, for unit tests and the development server. A board does not have it."""

from __future__ import annotations

import asyncio
import json
import math
import random
import socket
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_agent import registry
from evenkeel_agent.accounts import Accounts
from evenkeel_agent.alerts import Alerts
from evenkeel_agent.bus import CallError
from evenkeel_agent.helper import result
from evenkeel_agent.network import HELPER_UNIT, Network
from evenkeel_agent.network_helper import Clock, Helper
from evenkeel_agent.restorer import Restorer
from evenkeel_agent.settings import Settings
from evenkeel_agent.wear import FlashWear
from evenkeel_api import errors, schema
from evenkeel_api.features.apps import App
from evenkeel_api.features.board import Health, Snapshot, Status
from evenkeel_api.features.cache import Cache, CacheMinute, PriorityDirectory
from evenkeel_api.features.certificate import Certificate
from evenkeel_api.features.recorder import Channel, Incident, Loss, Recorder
from evenkeel_api.features.system import Journal, Line, System
from evenkeel_api.features.update import Bundle, Slot, Update
from evenkeel_api.features.validation import (
    CaseNote,
    Changed,
    LeftOut,
    Measured,
    Promise,
    Validation,
    ValidationComparison,
    ValidationPlan,
    ValidationReport,
    ValidationRow,
)
from evenkeel_api.interface import METHODS
from evenkeel_api.messages import Message, Note
from evenkeel_api.method import Method
from evenkeel_common.packets import End, data, end
from msgspec.structs import replace

from .agent import AgentError, AgentRefused, AgentUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from evenkeel_common.wear import Wear

FIRST_PASSWORD = "abcd-efgh-jkmn"  # noqa: S105  (of a fake board)
FLASH_BPS = 82e6  # bandwidth of the fake flash, shared by all apps


def demo_apps() -> list[App]:
    return [
        App(
            name="player",
            title="Player",
            description="Plays a movie from flash and counts the stalls that a viewer would see",
            unit="evenkeel-player.service",
            active_state="active",
            sub_state="running",
            applied=True,
            window_s=3.0,
        ),
        App(
            name="loader",
            title="Loader",
            description="Reads without pause, 100 MB in one I/O",
            unit="evenkeel-loader.service",
            active_state="active",
            sub_state="running",
            applied=True,
            window_s=3.0,
        ),
    ]


def _checked(method: Method, values: Sequence[Any]) -> Any:
    """The arguments VALUES as the agent checks them. Raises errors.AgentError."""
    given = dict(zip(method.request.__struct_fields__, values, strict=True))
    try:
        return schema.convert(given, method.request)
    except msgspec.ValidationError as error:
        if any(field.error and f"$.{field.name}" in str(error) for field in method.inputs):
            return method.request(**given)  # the method refuses it
        raise errors.InvalidArgument("invalid-argument", method=method.name, reason=str(error)) from error


def external(text: str) -> Note:
    """A message that has no code."""
    return Note("external", {"text": text.rstrip(".")}, text.rstrip("."))


def refused(kind: str, text: str) -> AgentRefused:
    return AgentRefused(kind, external(text))


def unreachable(text: str, *, sent: bool = False) -> AgentUnreachable:
    return AgentUnreachable("external", sent=sent, text=text.rstrip("."))


def demo_status() -> Status:
    return Status(
        version="0.1.0",
        kernel="6.12.48-evenkeel",
        slot="A",
        scheduler="evenkeel",
        health="ok",
        demo=True,
        uptime_s=4242,
    )


def demo_update() -> Update:
    return Update(
        state="idle",
        version="0.1.0",
        slots=[
            Slot(name="A", running=True, next=True, good=True, version="", installed_at=""),
            Slot(name="B", running=False, next=False, good=True, version="", installed_at=""),
        ],
    )


def demo_system() -> System:
    return System(
        name="evenkeel",
        at=int(time.time()),
        zone="Europe/Berlin",
        offset_s=3600,
        clock="synchronised",
        server="192.0.2.1",
    )


def demo_journal() -> list[Line]:
    now = time.time()
    return [
        Line(now - 300, "info", "evenkeel-player.service", "ek-player", 412, "playing movie.bin"),
        Line(
            now - 200, "warning", "ek-recorder.service", "ek-recorder", 377, "channel can0: 1203 records lost"
        ),
        Line(now - 100, "err", "", "kernel", 0, "mmc0: Timeout waiting for hardware interrupt."),
        Line(now - 50, "info", "evenkeel-loader.service", "ek-loader", 418, "round 17"),
    ]


class FakeAlerts(Alerts):
    """The real code of the agent, without a program that sends. FAILS: why no receiver is reached, after DELAY_S."""

    fails = ""
    delay_s = 0.0

    async def _deliver(self, receiver: str, lines: list[str]) -> str:
        await asyncio.sleep(self.delay_s)
        return self.fails


NETWORK: dict[str, Any] = {
    "Interfaces": [
        {
            "Name": "enp1s0",
            "Type": "ether",
            "AdministrativeState": "configured",
            "OperationalState": "routable",
            "NetworkFile": "/usr/lib/systemd/network/60-wired.network",
            "HardwareAddress": [82, 84, 0, 18, 52, 86],
            "Addresses": [{"Address": [192, 168, 1, 57], "PrefixLength": 24}],
            "Routes": [{"Destination": [0, 0, 0, 0], "Gateway": [192, 168, 1, 1]}],
            "DNS": [{"Address": [192, 168, 1, 1]}],
        },
        {
            "Name": "enp2s0",
            "Type": "ether",
            "AdministrativeState": "configuring",
            "OperationalState": "no-carrier",
            "NetworkFile": "/usr/lib/systemd/network/60-wired.network",
            "HardwareAddress": [82, 84, 0, 18, 52, 87],
        },
    ]
}


class FakeNetwork(Network):
    """The real code of the agent and of ek-network, in FOLDER. networkd is fake: it takes the name of each new file.

    NOW_S: the time since the boot. SILENT: why networkd does not answer. GONE: ek-network cannot be reached.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        super().__init__(settings, None)
        (folder / "network").mkdir()
        self.now_s = 100.0
        self.silent = ""
        self.gone = False
        self.described = NETWORK
        self._helper = Helper(
            Clock(lambda: self.now_s, "boot"),
            str(folder / "network-state.json"),
            str(folder / "network"),
            lambda: None,
        )
        self._folder = folder / "network"

    async def _describe(self) -> str:
        if self.silent:
            raise CallError("org.freedesktop.DBus.Error.NoReply", self.silent)
        rows = []
        for row in self.described["Interfaces"]:
            own = self._folder / f"50-evenkeel-{row['Name']}.network"
            rows.append({**row, "NetworkFile": str(own)} if own.exists() else row)
        return json.dumps({"Interfaces": rows})

    async def _order(self, order: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.gone:
            reason = "No such file or directory"
            raise errors.Failed("network-unreachable", path="/run/x", reason=reason, unit=HELPER_UNIT)
        self._helper.work()
        return result(self._helper.answer(json.dumps(order).encode()))


def demo_recorder() -> Recorder:
    now = time.time()
    return Recorder(
        state="running",
        started_at=now - 7500,
        channels=[
            Channel(
                name="arm",
                state="recording",
                connected=True,
                window_s=0.5,
                record_bytes=16384,
                records=1_500_000,
                payload_bytes=24_576_000_000,
                written_bytes=25_100_000_000,
                lost=[],
                buffer_bytes=16 << 20,
                backlog_bytes=1 << 20,
                used_bytes=213_000_000,
                wanted_bytes=213_000_000,
                flushed_s=0.24,
                write_p99_us=61_000,
                write_max_us=180_000,
                record_p99_us=290_000,
                record_max_us=410_000,
                oldest_at=now - 65,
                newest_at=now - 1,
            ),
            Channel(
                name="can0",
                state="recording",
                connected=True,
                window_s=1.0,
                record_bytes=256,
                records=812_345,
                payload_bytes=64_000_000,
                written_bytes=91_000_000,
                lost=[Loss("overrun", 1203), Loss("restart", 1)],
                late=17,
                buffer_bytes=4 << 20,
                used_bytes=67_000_000,
                wanted_bytes=67_000_000,
                flushed_s=0.9,
                write_p99_us=38_000,
                write_max_us=2_400_000,
                record_p99_us=930_000,
                record_max_us=3_100_000,
                oldest_at=now - 86_000,
                newest_at=now - 2,
            ),
        ],
        incidents=[Incident("brake-failure", "can0", 17_000_000, now - 50_000, now - 49_400)],
        partition_bytes=650_000_000,
        free_bytes=340_000_000,
        listed_at=now - 20,
    )


def demo_validations() -> dict[str, ValidationReport]:
    """Two reports, by id. The second one was cancelled, and has a broken promise."""
    where, model = "the file /data/.ek-validate/data on mmcblk0", "BJTD4R"
    good = ValidationRow(
        "20260131-120000", "quick", "complete", "", "evenkeel", "2026-01-31T12:00:00Z", "2026-01-31T12:01:52Z", where, model,
        3, 0,
    )  # fmt: skip
    bad = replace(good, id="20260201-090000", profile="full", state="partial", reason="cancelled",
                  started="2026-02-01T09:00:00Z", ended="2026-02-01T09:12:00Z", held=1, broken=1)  # fmt: skip
    promises = [
        Promise("Bandwidth follows the weights", "held",
                "Held: 4 of 4 figures are within the bounds. 1 figure could not be judged.",
                "fair.read.1m.ratio is 2.01, bound 1.9 to 2.1"),
        Promise("A video player never stops", "open", "Not judged, because none of its cases was measured.", ""),
    ]  # fmt: skip
    figures = [
        Measured("device.sequential-read.1m.qd1.mbps", "98 MB/s", "", "open"),
        Measured("fair.read.1m.ratio", "2.01", "1.9 to 2.1", "held"),
    ]
    left_out = [LeftOut("channel.probe", "ek-pairs is not installed")]
    sentences = [
        "At best, this device reads 98 MB/s over 1.5 s.",
        "With the scheduler evenkeel, this device holds the ratio 2:1 at every size that was measured.",
    ]
    report = ValidationReport(
        good, "6.12.48-evenkeel", 798_000_000, 801_000_000, sentences, promises, figures, left_out,
        notes=[CaseNote("fair.read.100m", "It is not judged: the slowest group got so few I/Os that a single one decides.")],
    )  # fmt: skip
    broken = Promise(
        "Bandwidth follows the weights", "broken", "Broken: 1 of 4 figures is outside the bounds.", ""
    )
    other = replace(
        report,
        row=bad,
        promises=[broken, promises[1]],
        figures=[replace(figures[1], value="1.6", verdict="broken")],
    )
    return {bad.id: other, good.id: report}


def demo_cache() -> Cache:
    """A board with two priority directories, of which one does not exist yet."""
    minutes = [
        CacheMinute(
            ago, 96_000_000 - 4_000_000 * ago, 71_000_000 - 3_000_000 * ago, 99.1 - ago, 86.5 + ago / 4
        )
        for ago in range(10)
    ]
    return Cache(
        "on", 96_000_000, 71_000_000, 521_000_000, 1_042_000_000, 99.4, 81.2, 85.0, 71_000_000, 1.3, minutes,
        [PriorityDirectory("player", "/data/player/clips", "protected"),
         PriorityDirectory("player", "/data/player/new", "absent")],
    )  # fmt: skip


def demo_plan() -> ValidationPlan:
    return ValidationPlan(
        "the file /data/.ek-validate/data on mmcblk0", 14, 801_000_000, 0.0042, 112, 120, ["evenkeel"], True, True,
        [LeftOut("stall.direct.read.1m", "ek-player is not installed (component loads)")],
    )  # fmt: skip


class FakePool:
    """What a backup needs of the feature cache: all directories of a FakeAgent count as chosen ones."""

    def __init__(self, agent: FakeAgent) -> None:
        self._agent = agent

    async def saved(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self._agent.cache.directories:
            found.setdefault(one.app, []).append(one.path)
        return found

    async def restore(self, directories: dict[str, list[str]]) -> None:
        wanted = [
            PriorityDirectory(app, path, "absent") for app, paths in directories.items() for path in paths
        ]
        self._agent.cache = replace(self._agent.cache, directories=wanted)


class FakeSettings:
    """What a backup needs of the features apps, system and certificate, kept by a FakeAgent."""

    def __init__(self, agent: FakeAgent) -> None:
        self._agent = agent

    def saved_weights(self) -> dict[str, int]:
        return {app.name: app.weight for app in self._agent.apps if app.weight != 100}

    def saved_fixed_shares(self) -> dict[str, int]:
        return {app.name: app.fixed_share for app in self._agent.apps if app.fixed_share}

    async def restore_weights(self, weights: dict[str, int]) -> None:
        self._agent.apps = [replace(app, weight=weights.get(app.name, 100)) for app in self._agent.apps]

    async def restore_fixed_shares(self, fixed_shares: dict[str, int]) -> None:
        self._agent.apps = [
            replace(app, fixed_share=fixed_shares.get(app.name, 0)) for app in self._agent.apps
        ]

    def added(self) -> dict[str, str]:
        added = (app for app in self._agent.apps if app.added)
        return {
            app.name: registry.to_toml(app.title, app.description, app.unit, app.weight).decode()
            for app in added
        }

    async def restore_added(self, files: dict[str, str]) -> None:
        kept = [app for app in self._agent.apps if not app.added]
        found = [registry.parse(name, text.encode()) for name, text in files.items()]
        self._agent.apps = kept + [
            App(one.name, one.title, one.description, one.unit, one.weight, added=True) for one in found
        ]

    async def get_system(self, *_: Any) -> System:
        return self._agent.get_system()

    async def signed(self) -> Certificate | None:
        return None if self._agent.certificate.own else self._agent.certificate

    async def list_time_zones(self, *_: Any) -> list[str]:
        return self._agent.list_time_zones()

    async def set_host_name(self, request: Any, _: Any) -> System:
        return self._agent.set_host_name(request.hostname)

    async def set_time_zone(self, request: Any, _: Any) -> System:
        return self._agent.set_time_zone(request.zone)

    async def set_time_servers(self, request: Any, _: Any) -> System:
        return self._agent.set_time_servers(request.servers)


@dataclass
class FakeAgent:
    """A fake agent that stores weights and fixed shares.

    While `dead` is set, it does not answer. With `moving`, its figures change as if apps were running. The real code of
    evenkeel_agent handles users, sessions, tokens, alerts, backups and the network, in a temporary folder.
    """

    apps: list[App] = field(default_factory=demo_apps)
    board: Status = field(default_factory=demo_status)
    update: Update = field(default_factory=demo_update)
    bundle: Bundle | AgentError = field(default_factory=lambda: Bundle("0.2.0", "evenkeel-x86_64", "", False))
    recorder: Recorder = field(default_factory=demo_recorder)
    # what a download sends, packet by packet; it is cut unless the last one is an End
    recording: list[bytes | End] = field(default_factory=lambda: [b"MCAP", b" of the demo", End(0)])
    system: System = field(default_factory=demo_system)
    zones: list[str] = field(default_factory=lambda: ["America/New_York", "Europe/Berlin", "UTC"])
    journal: list[Line] = field(default_factory=demo_journal)
    bundle_file: list[bytes | End] = field(default_factory=lambda: [b"gzip", b" of the demo", End(0)])
    validations: dict[str, ValidationReport] = field(default_factory=demo_validations)  # newest first
    validation: Validation = field(default_factory=lambda: Validation("idle"))
    cache: Cache = field(default_factory=demo_cache)
    no_cache: AgentError | None = None  # why ek-pool does not answer
    plan: ValidationPlan | AgentError = field(default_factory=demo_plan)
    report_file: list[bytes | End] = field(
        default_factory=lambda: [b'{"format": 1,', b' "rows": []}', End(0)]
    )
    pem: str = ""  # the certificate and the key that were installed last
    certificate: Certificate = field(
        default_factory=lambda: Certificate(
            subject="CN=evenkeel",
            issuer="CN=evenkeel",
            own=True,
            names=["evenkeel", "evenkeel.local", "localhost", "127.0.0.1"],
            not_before=1_795_000_000,
            not_after=2_110_000_000,
            fingerprint=":".join(f"{number:02X}" for number in range(0, 256, 8)),
            hsts=False,
        )
    )
    dead: str = ""  # why it does not answer
    refuse: AgentError | None = None  # the answer to every change
    obstacle: str = ""  # why no fixed share can be in force; may contain {app} and {percent}
    moving: bool = False
    free_units: list[str] = field(default_factory=lambda: ["dashcam.service", "dash_cam@front.service"])
    calls: list[str] = field(default_factory=list)
    stalls: int = 3

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._folder = tempfile.TemporaryDirectory(prefix="evenkeel-accounts-")

        async def start() -> Accounts:
            accounts = Accounts(self._folder.name, "evenkeel")
            await accounts.start()
            accounts._users["admin"] = with_fields(accounts._users["admin"], first=FIRST_PASSWORD)
            return accounts

        self.accounts = self._run(start())
        settings = Settings(root=self._folder.name)
        Path(settings.state_dir).mkdir(parents=True)
        self.alerts = FakeAlerts(settings, "evenkeel")
        self.network = FakeNetwork(settings, Path(self._folder.name))
        fake: Any = FakeSettings(self)
        pool: Any = FakePool(self)
        self.wear = FlashWear(settings, lambda: None)
        self.restorer = Restorer(
            settings, fake, self.accounts, self.alerts, fake, pool, self.network, self.wear, fake
        )

    def close(self) -> None:
        """Stop the threads. No call works after this."""
        self._run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def on_sessions_changed(self, callback: Callable[[], None]) -> None:
        self.accounts.changed = callback

    def call(self, method: str, session: str, address: str, *values: Any) -> Any:
        found = METHODS[method]
        if self.dead:
            raise unreachable(self.dead)
        try:
            caller = self.accounts.caller(found, session, address)
            parts = (self.accounts, self.alerts, self.network, self.restorer, self.wear)
            real = next((part for part in parts if hasattr(part, found.handler)), None)
            wanted = _checked(found, values)
            handler = getattr(real or self, found.handler)
            answer = self._run(handler(wanted, caller)) if real else handler(*values)
        except errors.AgentError as error:
            if isinstance(error, errors.NotAuthorized | errors.NotLoggedIn):
                self._run(self.accounts.audit_refusal(error, found, session, address))
            raise AgentRefused(error.kind, error.message.note()) from error
        self._audit(found.changes and caller, method, values)
        return answer

    def _audit(self, caller: Any, method: str, values: Sequence[Any], outcome: str = "") -> None:
        if caller:
            names = METHODS[method].request.__struct_fields__
            shown = (
                f"{name} {value}"
                for name, value in zip(names, values, strict=True)
                if name not in METHODS[method].secret
            )
            self._run(self.accounts.audit(caller, method, ", ".join(shown), outcome))

    def get_health(self) -> Health:
        status = self.get_status()
        return Health(status.version, status.kernel, status.slot, status.scheduler, status.health)

    def get_snapshot(self) -> Snapshot:
        return Snapshot(sequence=len(self.calls), status=self.get_status(), apps=self.list_apps())

    def get_status(self) -> Status:
        self._answer("GetStatus")
        worn = [message.note() for message in self.wear.problems]
        return replace(self.board, wear_limit=self.wear.limit, problems=[*self.board.problems, *worn])

    def worn(self, *states: Wear) -> None:
        """From now on, the flash devices report STATES."""
        self.wear._states = list(states)

    def list_apps(self) -> list[App]:
        self._answer("ListApps")
        if self.moving:
            self._move()
        return list(self.apps)

    def list_free_units(self) -> list[str]:
        self._answer("ListFreeUnits")
        taken = {app.unit for app in self.apps}
        return [unit for unit in self.free_units if unit not in taken]

    def add_app(self, name: str, title: str, description: str, unit: str, weight: int) -> App:
        self._answer(f"AddApp {name} {unit}")
        try:
            registry.parse(name, registry.to_toml(title, description, unit, weight))
        except registry.AppError as error:
            raise errors.InvalidArgument("app-not-added", app=name, reason=error.message) from error
        if name in {app.name for app in self.apps}:
            raise errors.Conflict("app-not-added", app=name, reason=Message("app-name-taken", app=name))
        if unit not in self.free_units:
            raise errors.UnitNotFound("app-not-added", app=name, reason=Message("no-unit", unit=unit))
        app = App(name, title, description, unit, weight, "active", "running", applied=True, added=True)
        self.apps = sorted([*self.apps, app], key=lambda each: each.name)
        return app

    def remove_app(self, name: str) -> None:
        self._answer(f"RemoveApp {name}")
        if not self._change(name).added:
            reason = Message("app-from-file", path=f"/etc/evenkeel/apps.d/{name}.toml")
            raise errors.Conflict("app-not-removed", app=name, reason=reason)
        self.apps = [app for app in self.apps if app.name != name]
        kept = [one for one in self.cache.directories if one.app != name]
        self.cache = replace(self.cache, directories=kept)

    def set_weight(self, name: str, weight: int) -> App:
        self._answer(f"SetWeight {name} {weight}")
        app = self._change(name)
        changed = replace(app, weight=weight, applied=app.active_state == "active")
        self._put(changed)
        return changed

    def undo_weight(self, name: str, weight: int, present: int) -> App:
        if (now := self._change(name).weight) != present:
            raise errors.Conflict("weight-undo-too-late", value=now)
        return self.set_weight(name, weight)

    def undo_fixed_share(self, name: str, percent: int, present: int) -> App:
        if (now := self._change(name).fixed_share) != present:
            raise errors.Conflict("fixed-share-undo-too-late", value=f"{now} %" if now else "off")
        return self.set_fixed_share(name, percent)

    def set_fixed_share(self, name: str, percent: int) -> App:
        self._answer(f"SetFixedShare {name} {percent}")
        app = self._change(name)
        others = {a.name: a.fixed_share for a in self.apps if a.name != name and a.fixed_share}
        if percent and percent + sum(others.values()) > 100:
            taken = ", ".join(f"{other} {share} %" for other, share in others.items())
            left = 100 - sum(others.values())
            raise errors.InvalidFixedShare(
                "fixed-share-too-much", percent=percent, app=name, left=left, taken=taken
            )
        runs = app.active_state == "active"
        problem = self.obstacle.format(app=name, percent=percent) if percent and runs else ""
        changed = replace(
            app,
            fixed_share=percent,
            fixed_share_applied=not percent or (runs and not problem),
            fixed_share_problem=[external(problem)] if problem else [],
            fixed_share_used=-1.0,
        )
        self._put(changed)
        return changed

    def start_app(self, name: str) -> None:
        self._answer(f"StartApp {name}")
        self._put(
            replace(
                self._change(name),
                active_state="active",
                sub_state="running",
                applied=True,
                fixed_share_applied=True,
            )
        )

    def stop_app(self, name: str) -> None:
        self._answer(f"StopApp {name}")
        app = self._change(name)
        self._put(
            replace(
                app,
                active_state="inactive",
                sub_state="dead",
                applied=False,
                fixed_share_applied=not app.fixed_share,
                fixed_share_used=-1.0,
                read_bps=0.0,
                p99_us=-1.0,
            )
        )

    def get_update(self) -> Update:
        return self.update

    def inspect_bundle(self, source: str) -> Bundle:
        self._answer(f"InspectBundle {source}")
        if isinstance(self.bundle, AgentError):
            raise self.bundle
        return self.bundle

    def install_bundle(self, source: str, allow_older: bool) -> None:
        self._answer(f"InstallBundle {source} {allow_older}")
        if self.refuse is not None:
            raise self.refuse
        self.update = replace(self.update, state="installing", progress=40, step="Copying image to rootfs.1")

    def choose_slot(self, slot: str) -> Update:
        self._answer(f"ChooseSlot {slot}")
        slots = [replace(one, next=one.name == slot) for one in self.update.slots]
        self.update = replace(self.update, slots=slots)
        return self.update

    def get_recorder(self) -> Recorder:
        self._answer("GetRecorder")
        return self.recorder

    def open_recording(
        self, start: str, last: str, incident: str, format_: str, channels: Sequence[str]
    ) -> int:
        self._answer(f"OpenRecording {start} {last} {incident} {format_} {' '.join(channels)}")
        if self.refuse is not None:
            raise self.refuse
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=self._record, args=(mine, list(self.recording)), daemon=True).start()
        return theirs.detach()

    @staticmethod
    def _record(connection: socket.socket, packets: Sequence[bytes | End]) -> None:
        with connection, suppress(OSError):  # the panel may close its end
            for packet in packets:
                connection.sendall(end(packet) if isinstance(packet, End) else data(packet))

    def restart(self) -> None:
        self._answer("Restart")

    def factory_reset(self, keep_recordings: bool, password: str) -> None:
        self._answer(f"FactoryReset {keep_recordings} {password}")
        if self.refuse is not None:
            raise self.refuse

    def power_off(self) -> None:
        self._answer("PowerOff")
        if self.refuse is not None:
            raise self.refuse

    def get_system(self) -> System:
        self._answer("GetSystem")
        return self.system

    def list_time_zones(self) -> list[str]:
        return self.zones

    def set_host_name(self, hostname: str) -> System:
        return self._set_system(f"SetHostName {hostname}", name=hostname)

    def set_time_zone(self, zone: str) -> System:
        if zone not in self.zones:
            raise errors.InvalidArgument("unknown-time-zone", zone=zone)
        return self._set_system(f"SetTimeZone {zone}", zone=zone)

    def set_time_servers(self, servers: list[str]) -> System:
        return self._set_system(f"SetTimeServers {' '.join(servers)}", servers=list(servers))

    def _set_system(self, call: str, **changed: Any) -> System:
        self._answer(call)
        if self.refuse is not None:
            raise self.refuse
        self.system = replace(self.system, **changed)
        return self.system

    def get_certificate(self) -> Certificate:
        return self.certificate

    def install_certificate(self, pem: str, force: bool) -> Certificate:
        self._answer(f"InstallCertificate {force}")
        if self.refuse is not None:
            raise self.refuse
        self.pem = pem
        self.certificate = replace(self.certificate, issuer="CN=Example CA", own=False, hsts=True)
        return self.certificate

    def make_certificate(self, force: bool) -> Certificate:
        self._answer(f"MakeCertificate {force}")
        if self.refuse is not None:
            raise self.refuse
        if self.certificate.hsts and not force:
            raise errors.Conflict("certificate-remembered")
        self.certificate = replace(self.certificate, issuer=self.certificate.subject, own=True, hsts=False)
        return self.certificate

    def get_journal(self, unit: str, priority: str, start: str, last: str, limit: int) -> Journal:
        self._answer(f"GetJournal {unit} {priority} {start} {last} {limit}")
        if self.refuse is not None:
            raise self.refuse
        return Journal(lines=self.journal[-limit:], more=len(self.journal) > limit)

    def open_support_bundle(self) -> int:
        self._answer("OpenSupportBundle")
        if self.refuse is not None:
            raise self.refuse
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=self._record, args=(mine, list(self.bundle_file)), daemon=True).start()
        return theirs.detach()

    def get_cache(self) -> Cache:
        if self.no_cache:
            raise self.no_cache
        return self.cache

    def add_priority_directory(self, name: str, directory: str) -> Cache:
        self._answer(f"AddPriorityDirectory {name} {directory}")
        if self.refuse is not None:
            raise self.refuse
        if name not in {app.name for app in self.apps}:
            raise errors.UnknownApp("unknown-app", app=name)
        if bad := registry.directory_problem(directory):
            raise errors.InvalidArgument(bad.code, **bad.parameters)
        if (name, directory) in {(one.app, one.path) for one in self.cache.directories}:
            raise errors.Conflict("directory-listed", path=directory, app=name)
        added = PriorityDirectory(name, directory, "absent")
        self.cache = replace(self.cache, directories=[*self.cache.directories, added])
        return self.cache

    def remove_priority_directory(self, name: str, directory: str) -> Cache:
        self._answer(f"RemovePriorityDirectory {name} {directory}")
        if self.refuse is not None:
            raise self.refuse
        kept = [one for one in self.cache.directories if (one.app, one.path) != (name, directory)]
        if len(kept) == len(self.cache.directories):
            raise errors.Conflict("directory-not-listed", path=directory, app=name)
        self.cache = replace(self.cache, directories=kept)
        return self.cache

    def plan_validation(self, profile: str, topic: str, compare: bool, exclusive: bool) -> ValidationPlan:
        self._answer(f"PlanValidation {profile} {topic} {compare} {exclusive}")
        if isinstance(self.plan, AgentError):
            raise self.plan
        schedulers = ["evenkeel", "bfq", "mq-deadline"] if compare and profile != "quick" else ["evenkeel"]
        return replace(self.plan, schedulers=schedulers, exclusive=exclusive)

    def start_validation(self, profile: str, topic: str, compare: bool, exclusive: bool) -> Validation:
        self._answer(f"StartValidation {profile} {topic} {compare} {exclusive}")
        if self.refuse is not None:
            raise self.refuse
        if self.validation.state != "idle":
            raise errors.Conflict("validation-runs")
        about = "sequential reads, 1m, depth 1"
        self.validation = Validation(
            "running", "20260301-100000", 4, 14, about, "evenkeel", 40, 72, 220_000_000, exclusive, True
        )
        return self.validation

    def get_validation(self) -> Validation:
        self._answer("GetValidation")
        return self.validation

    def cancel_validation(self) -> Validation:
        self._answer("CancelValidation")
        if self.validation.state == "idle":
            raise errors.Conflict("validation-none")
        self.validation = Validation("idle")
        return self.validation

    def list_validations(self) -> list[ValidationRow]:
        return [found.row for found in self.validations.values()]

    def show_validation(self, id_: str) -> ValidationReport:
        if id_ not in self.validations:
            raise errors.InvalidArgument("validation-unknown", id=id_)
        return self.validations[id_]

    def compare_validations(self, before: str, after: str) -> ValidationComparison:
        self._answer(f"CompareValidations {before} {after}")
        for id_ in (before, after):
            self.show_validation(id_)
        changed = Changed("fair.read.1m.ratio", "2.01", "1.6", "-20.4 %", "worse, target no longer met")
        notes = ["The profile is quick in the first report, and full in the second one."]
        return ValidationComparison(
            [changed], ["device.sequential-read.1m.qd1.mbps 98 MB/s"], [], 3, 2, notes
        )

    def open_validation(self, id_: str, format_: str) -> int:
        self._answer(f"OpenValidation {id_} {format_}")
        self.show_validation(id_)
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=self._record, args=(mine, list(self.report_file)), daemon=True).start()
        return theirs.detach()

    def _answer(self, call: str) -> None:
        self.calls.append(call)

    def _change(self, name: str) -> App:
        if self.refuse is not None:
            raise self.refuse
        for app in self.apps:
            if app.name == name:
                return app
        raise errors.UnknownApp("unknown-app", app=name)

    def _put(self, app: App) -> None:
        self.apps = [app if old.name == app.name else old for old in self.apps]

    def _move(self) -> None:
        now = time.time()
        total = FLASH_BPS * (1 + 0.06 * math.sin(now / 7) + random.uniform(-0.03, 0.03))
        runs = [app for app in self.apps if app.active_state == "active"]
        fixed = {a.name: a.fixed_share / 100 for a in runs if a.fixed_share and a.fixed_share_applied}
        left = 1.0 - sum(fixed.values())
        wants = {a.name: a.weight for a in runs if a.name not in fixed}
        wobble = random.uniform(-0.01, 0.01) if len(wants) > 1 else 0
        moved = []
        # if no running app is served by weight, the part of the flash outside the fixed shares is idle
        busy = sum(fixed.values()) + (left if wants else 0.0)
        for app in self.apps:
            part = fixed.get(app.name, wants.get(app.name, 0) / (sum(wants.values()) or 1) * left)
            share = part / busy if busy else 0.0
            has_fixed = app.name in fixed
            behind = has_fixed and part >= 0.8
            share += share * (1 - share) * (wobble if app.name == "player" else -wobble)
            stats = ""
            if app.name == "player" and share:
                self.stalls += share < 0.6 and random.random() < 0.3
                stats = json.dumps(
                    {
                        "state": "playing" if share > 0.6 else "stalling",
                        "stalls": self.stalls,
                        "stall_ms": self.stalls * 140,
                    }
                )
            elif share:
                stats = json.dumps({"rounds": int(now / 9) % 1000, "read_bytes": int(now % 9000 * 4.1e7)})
            moved.append(
                replace(
                    app,
                    read_bps=total * busy * share * 0.97,
                    write_bps=total * busy * share * 0.03,
                    share=share,
                    fixed_share_used=random.uniform(0.7, 0.8) + (0.22 if not behind else 0)
                    if has_fixed
                    else -1,
                    fixed_share_late=(0.62 if behind else 0.01) if has_fixed else -1,
                    fixed_share_behind=behind,
                    p99_us=(4200 / share * random.uniform(0.9, 1.2)) if share else -1.0,
                    stats=stats,
                )
            )
        self.apps = moved
