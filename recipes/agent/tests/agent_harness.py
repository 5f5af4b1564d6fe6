# SPDX-License-Identifier: Apache-2.0
"""A board for tests: the real evenkeeld on a private bus, with a fake systemd, a fake polkit and fake cgroups.

The bus is a dbus-daemon that denies by default, like the system bus, and reads the agent's policy file.
"""

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dbus_fast import Message, MessageType, Variant
from dbus_fast.unpack import unpack_variants
from evenkeel_agent import recorder_config, system_helper, systemd
from evenkeel_agent.bus import Bus, CallError
from evenkeel_api import interface
from evenkeel_common import command

COMPONENT = Path(__file__).resolve().parent.parent
PANEL = "daemon"  # the user in place of evenkeel-panel, which exists only on a board
ADMINISTRATOR = "bin"  # a user in place of the group sudo
STRANGER = "nobody"
ERROR = interface.NAME + ".Error."

BUS_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <auth>EXTERNAL</auth>
  <listen>unix:path={directory}/bus</listen>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
    <allow send_destination="org.freedesktop.systemd1"/>
    <allow send_destination="org.freedesktop.PolicyKit1"/>
    <allow own="org.freedesktop.systemd1"/>
    <allow own="org.freedesktop.PolicyKit1"/>
    <allow send_destination="de.pengutronix.rauc"/>
    <allow send_destination="org.freedesktop.login1"/>
    <allow send_destination="org.freedesktop.network1"/>
    <allow own="org.freedesktop.network1"/>
    <allow own="de.pengutronix.rauc"/>
    <allow own="org.freedesktop.login1"/>
    <allow send_destination="org.freedesktop.hostname1"/>
    <allow send_destination="org.freedesktop.timedate1"/>
    <allow send_destination="org.freedesktop.timesync1"/>
    <allow own="org.freedesktop.hostname1"/>
    <allow own="org.freedesktop.timedate1"/>
    <allow own="org.freedesktop.timesync1"/>
  </policy>
  <include>{directory}/agent.conf</include>
  {tester}
</busconfig>
"""


@dataclass
class FakeUnit:
    """A unit of the fake systemd."""

    load: str = "loaded"
    active: str = "active"
    sub: str = "running"
    cgroup: str = ""
    slice: str = "evenkeel-apps.slice"
    weight: int | None = None  # IOWeight= as last set; a stop does not reset it
    condition: bool = True
    result: str = "done"  # result of the next job
    devices: tuple[str, ...] = ()  # DeviceAllow=
    refuses: str = ""  # error text of SetUnitProperties; "": success


class Fake:
    """A fake service on the bus."""

    name = ""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.calls: list[tuple[str, list[Any]]] = []
        self.frozen = False  # accept calls, but do not answer
        self._tasks: set[asyncio.Task[None]] = set()
        bus.handle(self._receive)

    def _receive(self, message: Message) -> bool:
        if message.message_type is not MessageType.METHOD_CALL:
            return False
        self.calls.append((str(message.member), message.body))
        if not self.frozen:
            task = asyncio.get_running_loop().create_task(self._answer(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    async def _answer(self, message: Message) -> None:
        try:
            signature, body = await self.answer(message)
            self.bus.send(Message.new_method_return(message, signature, body))
        except CallError as error:
            self.bus.send(Message.new_error(message, error.name, error.text))

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        raise NotImplementedError

    def count(self, member: str) -> int:
        return sum(1 for called, _ in self.calls if called == member)


class FakeSystemd(Fake):
    """The part of org.freedesktop.systemd1 that the agent uses. A live unit has a directory below CGROUP_ROOT."""

    name = systemd.NAME

    def __init__(self, bus: Bus, cgroup_root: Path) -> None:
        super().__init__(bus)
        self.cgroup_root = cgroup_root
        self.units: dict[str, FakeUnit] = {}
        self.writes_weights = True
        self.has_fixed = True  # the loaded evenkeel creates io.evenkeel.fixed
        self.late_s: list[float] = []  # by how much the next answers to ListUnitsByNames are late
        self._jobs = 0

    def add(self, name: str, active: bool = True) -> FakeUnit:
        unit = self.units[name] = FakeUnit()
        if active:
            self.start(name)
        else:
            unit.active, unit.sub = "inactive", "dead"
        return unit

    def directory(self, name: str) -> Path:
        slice_ = self.units[name].slice
        inside = "" if slice_ == "evenkeel-apps.slice" else slice_
        apps = self.cgroup_root / "evenkeel.slice/evenkeel-apps.slice"
        return (apps if slice_.startswith("evenkeel-apps") else self.cgroup_root) / inside / name

    def start(self, name: str) -> None:
        unit = self.units[name]
        unit.active, unit.sub = "active", "running"
        directory = self.directory(name)
        unit.cgroup = "/" + str(directory.relative_to(self.cgroup_root))
        directory.mkdir(parents=True)
        write(directory / "io.evenkeel.stat", "")
        write(directory / "io.weight", f"default {unit.weight or 100}\n")
        if self.has_fixed:
            write(directory / "io.evenkeel.fixed", "")
        self.changed(name)

    def stop(self, name: str) -> None:
        unit = self.units[name]
        unit.active, unit.sub, unit.cgroup = "inactive", "dead", ""
        shutil.rmtree(self.directory(name), ignore_errors=True)
        self.changed(name)

    def changed(self, name: str) -> None:
        body = [systemd.NAME + ".Unit", {"ActiveState": Variant("s", self.units[name].active)}, []]
        path = systemd.object_path(name)
        self.bus.send(Message.new_signal(path, systemd.PROPERTIES, "PropertiesChanged", "sa{sv}as", body))

    def _missing(self, name: str) -> CallError:
        return CallError(systemd.NO_SUCH_UNIT, f"Unit {name} not found.")

    def _write_weight(self, name: str) -> None:
        unit = self.units[name]
        if unit.cgroup and self.writes_weights:
            write(self.directory(name) / "io.weight", f"default {unit.weight}\n")

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        member, body = message.member, message.body
        if member == "Subscribe":
            return "", []
        if member == "ListUnitsByNames":
            if self.late_s:
                await asyncio.sleep(self.late_s.pop(0))
            rows = []
            for name in body[0]:
                unit = self.units.get(name) or FakeUnit("not-found", "inactive", "dead")
                path = systemd.object_path(name)
                rows.append([name, "", unit.load, unit.active, unit.sub, "", path, 0, "", "/"])
            return "a(ssssssouso)", [rows]
        if member == "Get":
            paths = {systemd.object_path(name): unit for name, unit in self.units.items()}
            # systemd also answers for a unit that does not exist
            unit = paths.get(str(message.path)) or FakeUnit("not-found", "inactive", "dead")
            value = {
                "ControlGroup": Variant("s", unit.cgroup),
                "Slice": Variant("s", unit.slice),
                "DeviceAllow": Variant(
                    "a(ss)", [["char-rtc", "r"], *([path, "rw"] for path in unit.devices)]
                ),
                "ConditionResult": Variant("b", unit.condition),
                "ConditionTimestampMonotonic": Variant("t", 1),
                "ActiveEnterTimestampMonotonic": Variant("t", 1_000_000),
            }[body[1]]
            return "v", [value]
        if member == "ReloadOrTryRestartUnit":
            return "o", ["/org/freedesktop/systemd1/job/1"]
        if body[0] not in self.units:
            raise self._missing(body[0])
        name, unit = body[0], self.units[body[0]]
        if member == "SetUnitProperties":
            assert message.signature == "sba(sv)"
            assert body[1] is True, "the agent must not write to /etc/systemd"
            if unit.refuses:
                raise CallError("org.freedesktop.DBus.Error.AccessDenied", unit.refuses)
            unit.weight = unpack_variants(body[2][0][1])
            # like systemd, write the cgroup file after the answer
            asyncio.get_running_loop().call_later(0.03, self._write_weight, name)
            return "", []
        if member in ("StartUnit", "StopUnit"):
            self._jobs += 1
            job = f"/org/freedesktop/systemd1/job/{self._jobs}"
            asyncio.get_running_loop().call_later(0.02, self._finish, str(member), name, job)
            return "o", [job]
        raise AssertionError(member)

    def _finish(self, member: str, name: str, job: str) -> None:
        unit = self.units[name]
        if unit.result == "done" and member == "StopUnit":
            self.stop(name)
        elif unit.result == "done" and unit.condition and unit.active != "active":
            self.start(name)
        body = [self._jobs, job, name, unit.result]
        self.bus.send(Message.new_signal(systemd.PATH, systemd.MANAGER, "JobRemoved", "uoss", body))


class FakePolkit(Fake):
    """Allows the actions in GRANTED to every caller."""

    name = "org.freedesktop.PolicyKit1"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.granted: set[str] = set()

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        assert message.signature == "(sa{sv})sa{ss}us"
        (kind, details), action = message.body[0], message.body[1]
        assert kind == "system-bus-name"
        assert unpack_variants(details)["name"].startswith(":")
        return "(bba{ss})", [[action in self.granted, False, {}]]


class FakeHelper(ABC):
    """Listens at PATH like the socket of a helper. `orders` has the request of each connection, and reply() answers it."""

    def __init__(self, path: Path) -> None:
        self.orders: list[dict[str, Any]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @abstractmethod
    def reply(self, connection: socket.socket, order: dict[str, Any]) -> None:
        """Answer ORDER on CONNECTION."""

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(BrokenPipeError):
                    self.orders.append(json.loads(connection.recv(65536)))
                    self.reply(connection, self.orders[-1])


class SystemHelper(FakeHelper):
    """ek-system: its real code and the real busctl, on the bus ADDRESS and below ROOT. polkit allows everything."""

    def __init__(self, root: Path, address: str) -> None:
        self._address = address
        self._folder = f"{root}{recorder_config.FOLDER}"
        super().__init__(root / "run/evenkeel/system")

    def reply(self, connection: socket.socket, order: dict[str, Any]) -> None:
        connection.sendall(system_helper.answer(json.dumps(order).encode(), self._run, self._folder))

    def _run(self, arguments: Sequence[str], limit_s: float) -> None:
        command.run(["env", f"DBUS_SYSTEM_BUS_ADDRESS={self._address}", *arguments], limit_s)


class FakeFixedShareHelper:
    """Replaces ek-fixed-share and the kernel. It accepts orders for the devices in `devices` ("MAJ:MIN").

    All orders for a device together may have at most 100 %.
    """

    def __init__(self, path: Path, cgroup_root: Path) -> None:
        self._cgroup_root = cgroup_root
        self.devices = {"259:0"}  # the devices that evenkeel serves
        self.orders: list[str] = []
        self.refuses = 0  # errno of the next answers; 0: carry out the orders
        self.frozen = False  # accept orders, but do not answer
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._socket.bind(str(path))
        self._socket.listen()
        self._tasks = {asyncio.get_running_loop().create_task(self._accept())}

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(self._socket)
            self._tasks.add(loop.create_task(self._serve(connection)))

    async def _serve(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with connection:
            while order := (await loop.sock_recv(connection, 4096)).decode():
                self.orders.append(order)
                if self.frozen:
                    await asyncio.sleep(60)
                await loop.sock_sendall(connection, str(self.refuses or self._set(order)).encode())

    @staticmethod
    def _lines(file: Path) -> dict[str, int]:
        return {number: int(percent) for number, percent in map(str.split, file.read_text().splitlines())}

    def _set(self, order: str) -> int:
        number, percent, path = order.split(" ", 2)
        apps = self._cgroup_root / "evenkeel.slice/evenkeel-apps.slice"
        file = apps / path.lstrip("/") / "io.evenkeel.fixed"
        if not file.exists():
            return errno.ENOENT
        if number not in self.devices:
            return errno.EOPNOTSUPP
        if int(percent) > 100:
            return errno.ERANGE
        groups = [other for other in self._cgroup_root.rglob("io.evenkeel.fixed") if other != file]
        if int(percent) and sum(self._lines(other).get(number, 0) for other in groups) + int(percent) > 100:
            return errno.ENOSPC
        lines = {**self._lines(file), number: int(percent)}
        write(file, "".join(f"{number} {percent}\n" for number, percent in lines.items() if percent))
        return 0


def write(path: Path, text: str) -> None:
    """Replace the file in one step. Like with a kernel file, a reader never sees a part of the new text."""
    new = path.with_name(path.name + ".write")
    new.write_text(text)
    new.replace(path)


@dataclass
class Answer:
    """Exit status and output of ekctl."""

    status: int
    out: str
    err: str


class Harness:
    """The board: `async with Harness() as board:`, then `await board.agent_up()` starts evenkeeld."""

    def __init__(self) -> None:
        self.top = Path(tempfile.mkdtemp(prefix="ek"))
        self.top.chmod(0o755)
        self.root = self.top / "root"
        self.cgroups = self.root / "sys/fs/cgroup"
        self.apps_d = self.root / "etc/evenkeel/apps.d"
        self.added = self.root / "var/lib/evenkeel-apps"
        self.state = self.root / "var/lib/evenkeel-agent"
        for directory in (
            self.cgroups,
            self.apps_d,
            self.added,
            self.state,
            self.root / "run",
            self.root / "proc/sys/kernel",
        ):
            directory.mkdir(parents=True)
        (self.root / "proc/cmdline").write_text("root=/dev/vda3 quiet rauc.slot=B\n")
        (self.root / "proc/uptime").write_text("4711.08 9000.00\n")
        (self.root / "proc/sys/kernel/osrelease").write_text("6.12.1-evenkeel\n")
        self.device("nvme0n1", "none mq-deadline [evenkeel]", "0", "Fast Flash")
        self.address = f"unix:path={self.top}/bus"
        self._daemon: subprocess.Popen[bytes] | None = None
        self._agent: subprocess.Popen[bytes] | None = None
        self._buses: list[Bus] = []
        self.systemd: FakeSystemd
        self.polkit: FakePolkit
        self.helper: FakeFixedShareHelper
        self.system_helper: SystemHelper
        self.client: Bus
        self.log = self.top / "log"
        # The tests also run ekctl as other users, who may have no access to the source tree. So they get a copy.
        self.site = self.top / "site"
        for package in ("evenkeel_agent", "evenkeel_api", "evenkeel_common"):
            shutil.copytree(COMPONENT / "src" / package, self.site / package)
        shutil.copy(COMPONENT.parents[1] / "VERSION", self.site)
        for path in (self.site, *self.site.rglob("*")):
            path.chmod(0o755)

    def device(self, name: str, scheduler: str, rotational: str, model: str, number: str = "259:0") -> None:
        base = self.root / "sys/block" / name
        (base / "queue").mkdir(parents=True, exist_ok=True)
        (base / "device").mkdir(exist_ok=True)
        (base / "size").write_text("2048\n")
        (base / "dev").write_text(number + "\n")
        (base / "queue/scheduler").write_text(scheduler + "\n")
        (base / "queue/rotational").write_text(rotational + "\n")
        (base / "device/model").write_text(model + "   \n")

    def app(self, name: str, weight: int = 100, active: bool = True, unit: str = "", stats: str = "") -> str:
        """Add an app to apps.d and its unit to systemd. Returns the unit's name."""
        unit = unit or f"evenkeel-{name}.service"
        text = f'title = "{name.title()}"\nunit = "{unit}"\nweight = {weight}\n'
        (self.apps_d / f"{name}.toml").write_text(text + (f'stats = "{stats}"\n' if stats else ""))
        self.systemd.add(unit, active)
        return unit

    async def __aenter__(self) -> Self:
        policy = (COMPONENT / "data/org.evenkeel.Agent1.conf").read_text()
        # The agent runs as the user that runs the test.
        policy = policy.replace("evenkeel-panel", PANEL).replace("evenkeel-agent", "root")
        policy = policy.replace('group="sudo"', f'user="{ADMINISTRATOR}"')
        (self.top / "agent.conf").write_text(policy)
        tester = ""
        if os.getuid():
            rules = f'<allow own="{interface.NAME}"/><allow send_destination="{interface.NAME}"/>'
            tester = f'<policy user="{os.getuid()}">{rules}</policy>'
        (self.top / "bus.conf").write_text(BUS_CONFIG.format(directory=self.top, tester=tester))
        self._daemon = subprocess.Popen(
            [
                "dbus-daemon",
                "--nofork",
                "--nopidfile",
                "--print-address",
                f"--config-file={self.top}/bus.conf",
            ],
            stdout=subprocess.PIPE,
        )
        # dbus-daemon prints the address once it listens. The socket's file exists earlier.
        assert self._daemon.stdout
        with self._daemon.stdout as output:
            assert await asyncio.to_thread(output.readline), "dbus-daemon did not start"
        await self.systemd_up()
        await self.polkit_up()
        self.helper_up()
        self.system_helper = SystemHelper(self.root, self.address)
        self.client = await self.connect()
        return self

    async def connect(self) -> Bus:
        bus = await Bus.connect(self.address)
        self._buses.append(bus)
        return bus

    async def systemd_up(self) -> None:
        old = getattr(self, "systemd", None)
        self.systemd = FakeSystemd(await self.connect(), self.cgroups)
        if old:
            self.systemd.units = old.units
        assert await self.systemd.bus.own(systemd.NAME)

    def helper_up(self) -> None:
        self.helper = FakeFixedShareHelper(self.root / "run/evenkeel/fixed-share", self.cgroups)

    async def polkit_up(self) -> None:
        self.polkit = FakePolkit(await self.connect())
        if os.getuid():
            self.polkit.granted = set(interface.ACTIONS)
        assert await self.polkit.bus.own(FakePolkit.name)

    async def __aexit__(self, *_: object) -> None:
        await self.agent_down()
        if self.log.exists():
            print(self.log.read_text())  # pytest shows it if the test fails
        self.helper.close()
        self.system_helper.__exit__()
        for bus in self._buses:
            bus.close()
        self.bus_down()
        shutil.rmtree(self.top)

    def bus_down(self) -> None:
        if self._daemon:
            self._daemon.kill()
            self._daemon.wait()
            self._daemon = None

    async def agent_up(self, *options: str, wait: bool = True, **environment: str) -> None:
        """Start evenkeeld with ten samples per second. With WAIT, return when it is ready."""
        always = ("--root", str(self.root), "--bus", self.address, "--interval", "0.1", "--window", "0.3")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
            path = self.top / "notify"
            path.unlink(missing_ok=True)
            notifications.bind(str(path))
            notifications.setblocking(False)
            with self.log.open("ab") as log:
                self._agent = subprocess.Popen(
                    [sys.executable, "-m", "evenkeel_agent", *always, *options],
                    env={
                        **os.environ,
                        "PYTHONPATH": os.pathsep.join(sys.path),
                        "NOTIFY_SOCKET": str(path),
                        **environment,
                    },
                    stderr=log,
                )
            if not wait:
                return
            text = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(notifications, 4096), 20)
            assert text == b"READY=1"

    @property
    def agent(self) -> subprocess.Popen[bytes]:
        assert self._agent
        return self._agent

    async def agent_ends(self) -> int:
        return await asyncio.to_thread(self.agent.wait, 20)

    async def agent_down(self, number: int = signal.SIGTERM) -> int:
        """Stop evenkeeld. Returns its exit status."""
        if not self._agent:
            return 0
        if self._agent.poll() is None:
            self._agent.send_signal(number)
        status = await self.agent_ends()
        self._agent = None
        return status

    async def call(self, member: str, *body: Any, signature: str | None = None) -> Any:
        """Call the agent as the user that runs the test."""
        if signature is None:
            signature = interface.METHODS[member].in_signature
        answer = await self.client.call(
            interface.NAME, interface.PATH, interface.NAME, member, signature, body, timeout_s=25
        )
        return unpack_variants(answer[0]) if answer else None

    async def refused(self, member: str, *body: Any, signature: str | None = None) -> CallError:
        """Make a call that must fail, and return the error."""
        try:
            answer = await self.call(member, *body, signature=signature)
        except CallError as error:
            return error
        raise AssertionError(f"{member}{body} was not refused, the answer is {answer}")

    async def problems(self) -> list[str]:
        """The texts of the board's problems."""
        return [problem["text"] for problem in (await self.call("GetStatus"))["problems"]]

    async def apps(self) -> dict[str, dict[str, Any]]:
        return {app["name"]: app for app in await self.call("ListApps")}

    async def until(self, condition: Any, seconds: float = 20.0) -> Any:
        """Call the coroutine function CONDITION until it returns a true value. Returns this value."""
        for _ in range(int(seconds / 0.05)):
            if result := await condition():
                return result
            await asyncio.sleep(0.05)
        raise AssertionError(f"timeout after {seconds} s; the agent's log: {self.log.read_text()}")

    async def ekctl(self, *arguments: str, user: str | None = None) -> Answer:
        return await self._python("-m", "evenkeel_agent.ekctl", *arguments, user=user)

    async def python(self, script: str, user: str | None = None) -> Answer:
        """Run SCRIPT as USER, with the packages of this component."""
        return await self._python("-c", script, user=user)

    async def _python(self, *arguments: str, user: str | None) -> Answer:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            env={**os.environ, "PYTHONPATH": str(self.site), "DBUS_SYSTEM_BUS_ADDRESS": self.address},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=user,
            group=None,
            extra_groups=[] if user else None,
        )
        out, err = await process.communicate()
        return Answer(process.returncode or 0, out.decode(), err.decode())

    def fixed(self, unit: str) -> str:
        """The content of io.evenkeel.fixed in the unit's cgroup."""
        return (self.systemd.directory(unit) / "io.evenkeel.fixed").read_text()

    def set_stat(self, unit: str, text: str) -> None:
        write(self.systemd.directory(unit) / "io.evenkeel.stat", text)


def on_board(test: Callable[[Harness], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Turn TEST, which expects a board, into a test for pytest. The time limit ends a test that hangs."""

    async def limited() -> None:
        async with asyncio.timeout(60), Harness() as board:
            await test(board)

    def run() -> None:
        asyncio.run(limited())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    run.__module__ = test.__module__
    return run
