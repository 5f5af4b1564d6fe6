# SPDX-License-Identifier: Apache-2.0
"""Updates: what the agent asks RAUC, and what it makes of RAUC's answers. tests/boot/test_update.py has the real RAUC."""

import asyncio
from typing import Any

import pytest
from agent_harness import ERROR, Fake, Harness, on_board, write
from dbus_fast import Message, Variant
from evenkeel_agent import __version__, update
from evenkeel_agent.bus import CallError
from evenkeel_agent.caller import Caller
from evenkeel_api import interface
from evenkeel_api.features.update import Update
from test_accounts import PASSWORD, PanelClient

SLOTS = {"rootfs.0": "A", "rootfs.1": "B"}
CODE = "org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code30"
BUSY = "Already processing a different method"


class FakeRauc(Fake):
    """Answers as RAUC 1.13 does. The harness's board has booted slot B."""

    name = update.RAUC

    def __init__(self, bus: Any, board: Harness) -> None:
        super().__init__(bus)
        self.file = board.root / "bootstate/grubenv"
        self.file.parent.mkdir()
        self.boot = {"ORDER": "B A", "A_OK": "1", "A_TRY": "0", "B_OK": "1", "B_TRY": "0"}
        self.grubenv()
        self.operation, self.error, self.percent, self.step = "idle", "", 0, ""
        self.status: dict[str, str] = {}  # of slots that were installed: "ok" or "pending"
        self.refuses = ""
        self.ends_with: str | None = None  # LastError of an installation that ends at once; None: it goes on
        self.version = "9.0.0"

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        if message.member == "GetAll":
            properties = {
                "Operation": Variant("s", self.operation),
                "LastError": Variant("s", self.error),
                "Progress": Variant("(isi)", [self.percent, self.step, 1]),
            }
            return "a{sv}", [properties]
        if self.operation != "idle":
            raise CallError(CODE, BUSY)
        if message.member == "GetSlotStatus":
            return "a(sa{sv})", [[[name, self._slot(name)] for name in SLOTS]]
        if self.refuses:
            raise CallError(CODE, self.refuses)
        if message.member == "InspectBundle":
            about = {"compatible": Variant("s", "evenkeel-x86_64"), "version": Variant("s", self.version)}
            return "a{sv}", [{"update": Variant("v", Variant("a{sv}", about))}]
        if message.member == "InstallBundle":
            self.operation = "installing" if self.ends_with is None else "idle"
            self.error = self.ends_with or ""
            self.report()
            return "", []
        assert message.member == "Mark"
        self.grubenv(ORDER="B A" if message.body[1] == "booted" else "A B")
        return "ss", ["rootfs", "activated"]

    def report(self) -> None:
        """Report the begin or the end of an operation, as RAUC does."""
        body = [update.INSTALLER, {"Operation": Variant("s", self.operation)}, []]
        self.bus.send(Message.new_signal("/", update.PROPERTIES, "PropertiesChanged", "sa{sv}as", body))

    def installed(self, status: str) -> None:
        """An installation into slot A has ended, or was cut off (`pending`)."""
        self.operation, self.status["rootfs.0"] = "idle", status
        self.report()

    def grubenv(self, **values: str) -> None:
        """Write grubenv as GRUB does, with changed VALUES."""
        self.boot |= values
        text = "# GRUB Environment Block\n" + "".join(
            f"{name}={value}\n" for name, value in self.boot.items()
        )
        write(self.file, text.ljust(update.GRUBENV_BYTES, "#"))

    def _slot(self, name: str) -> dict[str, Variant]:
        found = {
            "bootname": Variant("s", SLOTS[name]),
            "state": Variant("s", "booted" if name == "rootfs.1" else "inactive"),
        }
        if name in self.status:
            found["status"] = Variant("s", self.status[name])
            found["bundle.version"] = Variant("s", "9.0.0")
            found["installed.timestamp"] = Variant("s", "2026-11-25T12:00:00Z")
        return found


class FakeLogin(Fake):
    name = "org.freedesktop.login1"

    async def answer(self, message: Message) -> tuple[str, list[Any]]:
        assert message.member in ("Reboot", "PowerOff")
        assert message.body == [False]
        return "", []


async def rauc_up(board: Harness) -> FakeRauc:
    keyring = board.root / "usr/lib/rauc/keyring.pem"
    keyring.parent.mkdir(parents=True)
    keyring.write_text("a certificate\n")
    rauc = FakeRauc(await board.connect(), board)
    assert await rauc.bus.own(rauc.name)
    return rauc


@on_board
async def test_an_idle_board(board: Harness) -> None:
    await rauc_up(board)
    await board.agent_up()
    found = await board.call("GetUpdate")
    assert set(found) == set(Update.__struct_fields__)
    assert (found["state"], found["version"], found["problem"]) == ("idle", __version__, [])
    a, b = found["slots"]
    assert (a["name"], a["running"], a["next"], a["good"], a["version"]) == ("A", False, False, True, "")
    assert (b["name"], b["running"], b["next"]) == ("B", True, True)


@on_board
async def test_without_rauc_the_reason_is_shown_and_all_else_works(board: Harness) -> None:
    await board.agent_up()
    found = await board.call("GetUpdate")
    assert (found["state"], found["slots"]) == ("unavailable", [])
    assert found["problem"][0]["code"] == "update-unavailable"
    assert (await board.call("GetStatus"))["health"] == "ok"


@on_board
async def test_an_installation(board: Harness) -> None:
    rauc = await rauc_up(board)
    await board.agent_up()
    await board.call("GetUpdate")
    await board.call("InstallBundle", "/data/x.raucb", False)
    assert rauc.calls[-1][1][0] == "/data/x.raucb"
    assert rauc.calls[-1][1][1]["ignore-version-limit"].value is False
    rauc.percent, rauc.step = 40, "Copying image to rootfs.0"
    found = await board.call("GetUpdate")
    assert (found["state"], found["progress"], found["step"]) == ("installing", 40, rauc.step)
    # RAUC does not tell them now: the agent remembers
    assert [slot["name"] for slot in found["slots"]] == ["A", "B"]
    for member, arguments in (("Restart", ()), ("PowerOff", ()), ("ChooseSlot", ("A",))):
        error = await board.refused(member, *arguments)
        assert error.name == ERROR + "Conflict"
        assert "an installation is running" in error.text
    rauc.installed("ok")
    rauc.grubenv(ORDER="A B")
    found = await board.call("GetUpdate")
    assert found["state"] == "installed"
    assert found["slots"][0]["version"] == "9.0.0"
    assert found["slots"][0]["next"]
    audit = await board.call("ListAudit", 0, 10)
    assert [(row["action"], row["outcome"]) for row in audit][-1] == ("InstallBundle", "")


@on_board
async def test_the_agent_asks_about_the_slots_only_if_they_may_have_changed(board: Harness) -> None:
    rauc = await rauc_up(board)
    await board.agent_up()
    for _ in range(3):
        await board.call("GetUpdate")
    assert rauc.count("GetSlotStatus") == 1
    rauc.installed("ok")
    assert (await board.call("GetUpdate"))["slots"][0]["version"] == "9.0.0"
    assert rauc.count("GetSlotStatus") == 2
    # an operation that the agent has seen, although nothing was reported
    rauc.operation = "installing"
    await board.call("GetUpdate")
    rauc.operation = "idle"
    await board.call("GetUpdate")
    assert rauc.count("GetSlotStatus") == 3
    # a RAUC that has ended cannot report what it did last
    rauc.status.clear()
    rauc.bus.close()
    await board.until(lambda: unavailable(board))
    rauc.bus = await board.connect()
    rauc.bus.handle(rauc._receive)
    assert await rauc.bus.own(FakeRauc.name)
    assert (await board.call("GetUpdate"))["slots"][0]["version"] == ""


async def unavailable(board: Harness) -> bool:
    return bool((await board.call("GetUpdate"))["state"] == "unavailable")


@on_board
async def test_a_failed_installation(board: Harness) -> None:
    rauc = await rauc_up(board)
    await board.agent_up()
    rauc.error = "checksum mismatch"
    rauc.installed("pending")
    rauc.grubenv(A_OK="0")
    found = await board.call("GetUpdate")
    assert found["state"] == "failed"
    assert found["problem"][0]["text"].startswith("the update was not installed: checksum mismatch; ")


@on_board
async def test_a_roll_back_is_a_problem_of_the_board(board: Harness) -> None:
    """Nobody has asked for updates since the boot: the agent finds out by itself."""
    rauc = await rauc_up(board)
    rauc.installed("ok")
    rauc.grubenv(A_TRY="3")
    await board.agent_up("--first-update-check", "0.1")

    async def reported() -> bool:
        return any("was not confirmed" in text for text in await board.problems())

    await board.until(reported)
    error = await board.refused("ChooseSlot", "A")
    assert error.name == ERROR + "Conflict"
    # A bundle that is refused changes nothing about it; RAUC marks the slot before it writes.
    rauc.error = "signature verification failed"
    found = await board.call("GetUpdate")
    assert (found["state"], len(found["problem"])) == ("failed", 2)
    assert await reported()
    rauc.error = ""
    rauc.grubenv(A_OK="0", A_TRY="0")
    await board.call("GetUpdate")
    assert not await reported()


@on_board
async def test_a_slot_that_is_not_confirmed(board: Harness) -> None:
    """GRUB counts each boot as a try, and boots the slot again until it has three. slot-good ends this after a minute."""
    rauc = await rauc_up(board)
    rauc.grubenv(B_TRY="1")
    await board.agent_up()
    found = await board.call("GetUpdate")
    assert found["state"] == "unconfirmed"
    _, b = found["slots"]
    assert (b["running"], b["good"], b["next"]) == (True, False, True)
    # To install would overwrite the only slot that works. To choose it would confirm it.
    for member, arguments in (("InstallBundle", ("/x", False)), ("ChooseSlot", ("B",))):
        error = await board.refused(member, *arguments)
        assert error.name == ERROR + "Conflict"
        assert "is not confirmed" in error.text
    assert rauc.count("InstallBundle") == rauc.count("Mark") == 0
    rauc.grubenv(B_TRY="3")  # now GRUB would boot the other slot
    found = await board.call("GetUpdate")
    assert [slot["next"] for slot in found["slots"]] == [True, False]
    # going back is always possible
    await board.call("ChooseSlot", "A")


@on_board
async def test_failed_health_checks_say_why_a_slot_is_not_confirmed(board: Harness) -> None:
    """Those of this start for the slot that runs, and those of the last trial for the slot that was given up."""
    rauc = await rauc_up(board)
    rauc.installed("ok")
    rauc.grubenv(B_TRY="1", A_TRY="3")
    write(
        board.root / "run/evenkeel/health",
        "passed required agent\nfailed wanted x y\nfailed required panel no answer\n",
    )
    (board.root / "var/lib/evenkeel-health").mkdir(parents=True)
    write(
        board.root / "var/lib/evenkeel-health/A",
        "version 9.0.0\nfailed trial network eth0 is missing\nfailed trial\n",
    )
    await board.agent_up()
    notes = [note["text"] for note in (await board.call("GetUpdate"))["problem"]]
    assert notes[1:] == [
        "slot B was not confirmed because the health check panel failed: no answer",
        notes[2],
        "slot A was not confirmed because the health check network failed: eth0 is missing",
    ]
    assert notes[2].startswith("slot A (version 9.0.0) was not confirmed in three starts")
    # A later version in the same slot may have ended before its checks.
    write(board.root / "var/lib/evenkeel-health/A", "version 8.0.0\nfailed trial network eth0 is missing\n")
    assert not any("network" in note["text"] for note in (await board.call("GetUpdate"))["problem"])


@on_board
async def test_an_interrupted_installation(board: Harness) -> None:
    rauc = await rauc_up(board)
    rauc.installed("pending")
    rauc.grubenv(A_OK="0")
    await board.agent_up("--first-update-check", "0.1")
    found = await board.call("GetUpdate")
    assert found["state"] == "interrupted"
    assert "install again" in found["problem"][0]["text"]
    assert [slot["good"] for slot in found["slots"]] == [False, True]


@on_board
async def test_without_grubenv_the_state_is_unknown(board: Harness) -> None:
    rauc = await rauc_up(board)
    rauc.file.unlink()
    await board.agent_up()
    found = await board.call("GetUpdate")
    assert (found["state"], found["problem"][0]["code"]) == ("unavailable", "boot-state-unreadable")


@on_board
async def test_a_silent_server_blocks_rauc_but_not_the_agent(board: Harness) -> None:
    rauc = await rauc_up(board)
    await board.agent_up()
    await board.call("GetUpdate")
    rauc.frozen = True
    client = await board.connect()
    asking = asyncio.create_task(
        client.call(
            interface.NAME, interface.PATH, interface.NAME, "InspectBundle", "s", ["https://x/y"], timeout_s=1
        )
    )
    with pytest.raises(CallError):
        await asking
    # answered from what is known
    assert [slot["name"] for slot in (await board.call("GetUpdate"))["slots"]] == ["A", "B"]
    error = await board.refused("InstallBundle", "/x", False)
    assert error.name == ERROR + "Conflict"
    assert "still waits" in error.text


@on_board
async def test_rauc_s_refusals_are_passed_on(board: Harness) -> None:
    rauc = await rauc_up(board)
    await board.agent_up()
    rauc.refuses = "signature verification failed: Verify error: self-signed certificate"
    error = await board.refused("InspectBundle", "/data/x.raucb")
    assert error.name == ERROR + "Failed"
    assert rauc.refuses in error.text
    rauc.refuses = BUSY
    assert (await board.refused("InstallBundle", "/x", False)).name == ERROR + "Conflict"


@on_board
async def test_bad_sources_are_refused(board: Harness) -> None:
    rauc = await rauc_up(board)
    await board.agent_up()
    for source in ("", "x.raucb", "file:///x", "https://a b/", "/x\n", "ftp://x/y", "/" + "x" * 1000):
        assert (await board.refused("InspectBundle", source)).name == ERROR + "InvalidArgument", source
    assert rauc.count("InspectBundle") == 0


@on_board
async def test_an_image_without_keyring_says_so(board: Harness) -> None:
    rauc = await rauc_up(board)
    write(board.root / "usr/lib/rauc/keyring.pem", "")
    await board.agent_up()
    error = await board.refused("InstallBundle", "/data/x.raucb", False)
    assert "KEYRING=FILE" in error.text
    assert rauc.count("InstallBundle") == 0


@on_board
async def test_restart_and_slot(board: Harness) -> None:
    rauc = await rauc_up(board)
    login = FakeLogin(await board.connect())
    assert await login.bus.own(login.name)
    await board.agent_up()
    found = await board.call("ChooseSlot", "A")
    assert [slot["next"] for slot in found["slots"]] == [True, False]
    assert found["state"] == "installed"
    await board.call("ChooseSlot", "B")
    assert rauc.boot["ORDER"] == "B A"
    await board.call("Restart")
    assert login.count("Reboot") == 1
    await board.call("PowerOff")
    assert login.count("PowerOff") == 1


@on_board
async def test_ekctl(board: Harness) -> None:
    rauc = await rauc_up(board)
    await board.agent_up()
    shown = await board.ekctl("update")
    assert "state    idle" in shown.out
    assert "slot B   runs, next, first image" in shown.out
    rauc.version = "0.0.1"
    assert "older than the version that runs" in (await board.ekctl("inspect", "x.raucb")).out
    assert rauc.calls[-1][1][0].endswith("/x.raucb")  # absolute
    rauc.error = "it is broken"
    rauc.operation = "idle"
    done = await board.ekctl("choose-slot", "C")
    assert done.status == 2


@on_board
async def test_ekctl_reports_a_refused_bundle_although_another_one_waits_for_its_start(
    board: Harness,
) -> None:
    rauc = await rauc_up(board)
    await board.agent_up()
    rauc.installed("ok")
    rauc.grubenv(ORDER="A B")
    rauc.ends_with = "signature verification failed"
    done = await board.ekctl("install", "/data/y.raucb")
    assert done.status == 1
    assert "signature verification failed" in done.err
    rauc.ends_with = ""
    done = await board.ekctl("install", "/data/x.raucb")
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("0.1.0", "0.1.1", True),
        ("0.1.1", "0.1.1", False),
        ("0.10.0", "0.9.9", False),
        ("1", "1.0.1", True),
        ("", "0.0.1", True),
    ],
)
def test_versions(version: str, than: str, older: bool) -> None:
    assert update.is_older(version, than) is older


@pytest.mark.parametrize("via", ["panel", "token"])
def test_the_panel_names_no_file_but_the_uploaded_one(via: str) -> None:
    """RAUC makes root the owner of a file before it checks the signature, so the file must not be any file."""
    from evenkeel_agent.settings import Settings
    from evenkeel_api.errors import Conflict, InvalidArgument

    class NoBus:
        def handle(self, _: object) -> None:
            pass

    updates = update.Updates(Settings(root="/nonexistent"), NoBus(), NoBus())  # type: ignore[arg-type]
    caller = Caller("admin", "admin", via)
    with pytest.raises(InvalidArgument, match="only an uploaded bundle"):
        updates._check("not-installed", "/etc/shadow", caller)
    for source in (update.UPLOADED, "https://x.example/y"):
        with pytest.raises(Conflict, match="KEYRING"):
            updates._check("not-installed", source, caller)


async def resettable(board: Harness) -> tuple[FakeRauc, FakeLogin]:
    """A board whose systemd has the units that order a factory reset. The fake does what they do: it writes grubenv."""
    rauc = await rauc_up(board)
    login = FakeLogin(await board.connect())
    assert await login.bus.own(login.name)
    (board.root / "proc").mkdir(exist_ok=True)
    write(board.root / "proc/cmdline", "rauc.slot=B evenkeel.reset=none\n")
    await board.agent_up()
    answer = board.systemd.answer

    async def start(message: Message) -> tuple[str, list[Any]]:
        unit = str(message.body[0]) if message.body else ""
        if unit.startswith("evenkeel-factory-reset@"):
            if message.member == "StartUnit":
                assert login.count("Reboot") == 0, "the order comes first"
                what = unit.partition("@")[2].removesuffix(".service")
                rauc.grubenv(RESET="" if what == "none" else what)
            return "o", ["/org/freedesktop/systemd1/job/1"]
        return await answer(message)

    board.systemd.answer = start  # type: ignore[method-assign]
    return rauc, login


@on_board
async def test_a_factory_reset(board: Harness) -> None:
    rauc, login = await resettable(board)
    await board.call("FactoryReset", True, "")
    assert (rauc.boot["RESET"], login.count("Reboot")) == ("keep", 1)


@on_board
async def test_a_factory_reset_with_the_recordings_by_ekctl(board: Harness) -> None:
    rauc, login = await resettable(board)
    done = await board.ekctl("factory-reset", "--recordings")
    assert done.status == 1
    assert "and all recordings of this board would be lost; to do it, add --yes" in done.err
    assert "RESET" not in rauc.boot
    done = await board.ekctl("factory-reset", "--recordings", "--yes")
    assert done.status == 0, done.err
    assert (rauc.boot["RESET"], login.count("Reboot")) == ("all", 1)


@on_board
async def test_no_factory_reset_while_it_could_go_wrong(board: Harness) -> None:
    """During an installation; if another version starts next; and if the boot loader does not pass the order on."""
    rauc, login = await resettable(board)
    await board.call("GetUpdate")
    rauc.operation = "installing"
    error = await board.refused("FactoryReset", True, "")
    assert error.name == ERROR + "Conflict"
    assert error.text.startswith("the board was not reset, and nothing is lost: an installation is running")
    rauc.operation = "idle"
    rauc.grubenv(ORDER="A B")
    assert "the other slot starts next" in (await board.refused("FactoryReset", True, "")).text
    rauc.grubenv(ORDER="B A")
    write(board.root / "proc/cmdline", "rauc.slot=B\n")
    assert "older than the factory reset" in (await board.refused("FactoryReset", True, "")).text
    assert "RESET" not in rauc.boot
    assert login.count("Reboot") == 0


@on_board
async def test_an_order_is_taken_back_if_the_board_does_not_restart(board: Harness) -> None:
    """Otherwise the next restart, perhaps months later, would erase the settings."""
    rauc, login = await resettable(board)
    login.bus.close()
    error = await board.refused("FactoryReset", True, "")
    assert error.name == ERROR + "Failed"
    assert "nothing is lost" in error.text
    assert rauc.boot["RESET"] == ""


@on_board
async def test_an_order_that_may_remain_is_named(board: Harness) -> None:
    _, login = await resettable(board)
    login.bus.close()
    answer = board.systemd.answer

    async def stubborn(message: Message) -> tuple[str, list[Any]]:
        if message.member == "StopUnit":
            raise CallError("org.freedesktop.DBus.Error.Failed", "the bus is tired")
        return await answer(message)

    board.systemd.answer = stubborn  # type: ignore[method-assign]
    error = await board.refused("FactoryReset", True, "")
    assert "the order may remain" in error.text
    assert "unset RESET" in error.text


@on_board
async def test_a_factory_reset_that_failed_is_a_problem(board: Harness) -> None:
    await rauc_up(board)
    write(board.root / "run/evenkeel/factory-reset", "factory-reset: cannot mount /dev/x\n")
    await board.agent_up()
    await board.call("GetUpdate")
    assert any("the factory reset failed, and is not tried again" in text for text in await board.problems())


@on_board
async def test_a_user_of_the_panel_confirms_a_factory_reset_by_the_password(board: Harness) -> None:
    rauc, login = await resettable(board)
    panel = PanelClient(board)
    await panel.log_in()
    assert (await panel.refused("FactoryReset", True, "")).name == ERROR + "WrongPassword"
    assert "RESET" not in rauc.boot
    await panel.call("FactoryReset", True, PASSWORD)
    assert (rauc.boot["RESET"], login.count("Reboot")) == ("keep", 1)
    rows = [row for row in await panel.call("ListAudit", 0, 20) if row["action"] == "FactoryReset"]
    assert [row["outcome"] for row in rows] == ["", "WrongPassword"]
    assert all(PASSWORD not in str(row) for row in rows)
