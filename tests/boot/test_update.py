# SPDX-License-Identifier: Apache-2.0
"""Updates of a board by its panel, with the real RAUC: refused bundles, an update, and one that does not start.

The board boots an image that trusts keys of this test. All else of it is the image that `make image` built.
"""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import BOOT_SECONDS, CONSOLE, Board, second_medium
from bundles import Factory
from ranges import Server
from sample import sample
from visitor import Visitor
from vm import enter

TOP = Path(__file__).resolve().parents[2]
VERSION = (TOP / "VERSION").read_text().strip()
NEWER = "99.0.0"
BROKEN = "99.0.1"
# QEMU's address of this machine, as the board sees it
HOST = "10.0.2.2"


@pytest.fixture(scope="module")
def factory() -> Iterator[Factory]:
    made = Factory(TOP / "build/test-boot-update")
    yield made
    for file in made.folder.iterdir():
        if file.suffix in (".img", ".ext4", ".raucb"):
            file.unlink()


@pytest.fixture(scope="module")
def board(factory: Factory) -> Iterator[Board]:
    """Another medium with the same image is attached: no update may write to it."""
    run, image = factory.folder / "board", factory.image()
    found = Board(run, credentials=(CONSOLE,), image=image, extra=second_medium(run, image))
    try:
        found.power_on()
        yield found
    finally:
        if found.qemu is not None:
            found.power_cut()


@pytest.fixture(scope="module")
def visitor(board: Board) -> Visitor:
    found = Visitor(board.port)
    board.health()
    found.first_log_in(board.first_password())
    return found


@pytest.fixture(scope="module")
def newer(factory: Factory) -> Path:
    return factory.bundle(factory.other_root(NEWER), NEWER)


def state(visitor: Visitor) -> dict[str, Any]:
    """The state of updates. Asks again while RAUC starts, which takes longer than the agent waits if the host is busy."""
    for _ in range(6):
        found: dict[str, Any] = json.loads(visitor.get("/update.json"))
        if found["state"] != "unavailable":
            break
        time.sleep(5)
    return found


def wait_until_installed(visitor: Visitor, seconds: float = 400) -> dict[str, Any]:
    began, shown = time.monotonic(), set()
    while (found := state(visitor))["state"] == "installing":
        shown.add(found["progress"])
        assert time.monotonic() - began < seconds, f"still {found} after {seconds} s"
        time.sleep(1)
    print(f"installation: {time.monotonic() - began:.0f} s, progress {sorted(shown)}")
    return found


def slots(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {slot["name"]: slot for slot in found["slots"]}


def grubenv(board: Board) -> dict[str, str]:
    text = board.run("grub-editenv /bootstate/grubenv list")
    return dict(line.split("=", 1) for line in text.splitlines())


def settled(board: Board) -> None:
    assert board.settled() == "running", board.run("systemctl --failed --no-pager")


def test_a_new_board_has_two_good_slots(board: Board, visitor: Visitor) -> None:
    settled(board)
    found = state(visitor)
    assert (found["state"], found["version"], found["problem"]) == ("idle", VERSION, [])
    assert all(slot["good"] and slot["version"] == "" for slot in found["slots"])
    assert slots(found)["A"]["running"]
    assert slots(found)["A"]["next"]
    assert f"IMAGE_VERSION={VERSION}" in board.run("cat /etc/os-release")


def test_the_boot_state_is_mounted_only_while_it_is_used(board: Board) -> None:
    board.run("cat /bootstate/grubenv > /dev/null && grep -q '^/dev/[^ ]* /bootstate ext4' /proc/mounts")
    board.run(
        "for i in $(seq 60); do grep -q '^/dev/[^ ]* /bootstate' /proc/mounts || break; sleep 1; done; [ $i -lt 60 ]",
        90,
    )


def test_only_root_and_the_agent_may_order_rauc(board: Board) -> None:
    call = "busctl call de.pengutronix.rauc / de.pengutronix.rauc.Installer GetPrimary"
    assert board.run(call) == 's "rootfs.0"'
    for user in ("evenkeel-panel", "evenkeel-history", "nobody"):
        status, text = board.try_run(f"setpriv --reuid={user} --clear-groups {call}")
        assert status != 0, user
        assert "denied" in text.lower() or "not allowed" in text.lower(), text


# what the reason of a refusal has, besides its beginning
REASONS = {"revoked": "certificate revoked", "expired": "certificate has expired"}


@pytest.mark.parametrize(
    "damage",
    [
        *sample(
            "refused when it is uploaded", ["other-keys", "revoked", "expired", "truncated", "no-bundle"]
        ),
        *sample("refused when it is installed", ["flipped", "older"]),
    ],
)
def test_a_bad_bundle_is_refused_and_nothing_changes(
    damage: str, board: Board, visitor: Visitor, factory: Factory, newer: Path
) -> None:
    bad = factory.folder / f"bad-{damage}.raucb"
    small = factory.folder / "small.ext4"
    small.write_bytes(os.urandom(1 << 20))
    if damage == "other-keys":
        bad = factory.bundle(small, NEWER, "other")
    elif damage in ("revoked", "expired"):
        bad = factory.bundle(small, NEWER, f"keys/{damage}")
    elif damage == "older":
        bad = factory.bundle(small, "0.0.1")
    elif damage == "no-bundle":
        bad.write_bytes(b"<html>404</html>" * 1000)
    else:
        content = newer.read_bytes()
        if damage == "truncated":
            content = content[: 8 << 20]
        else:
            # One bit in each 64 KiB of the first 60 MB. A single one might be in a block that RAUC does not read, because
            # the board already has a block with the same contents.
            flipped = bytearray(content)
            for at in range(4096, min(len(content) - (8 << 20), 60 << 20), 64 << 10):
                flipped[at] ^= 1
            content = bytes(flipped)
        bad.write_bytes(content)
    before = grubenv(board)
    answer = visitor.upload("/upload/bundle", "/update", bad)
    if damage in ("flipped", "older"):
        # The signature is good. The board finds a flipped byte when it reads the contents, and refuses an old version then.
        assert answer["status"] == 200, answer
        assert answer["older"] is (damage == "older")
        page = visitor.post("/update/install", "/update")
        assert "The installation has begun." in page, page
        found = wait_until_installed(visitor)
        assert found["state"] == "failed", found
        reason = found["problem"][0]["text"]
        assert reason.startswith("the update was not installed: ")
        print(f"{damage}: {reason}")
    else:
        assert answer["status"] == 503
        assert answer["reason"].startswith("The bundle was refused: ")
        print(f"{damage}: {answer['reason']}")
        assert REASONS.get(damage, "") in answer["reason"]
    found = state(visitor)
    assert slots(found)["A"]["next"]
    assert slots(found)["A"]["running"]
    if damage != "flipped":
        assert grubenv(board) == before
    assert board.health()[0] == 200


def test_an_update_from_the_panel(board: Board, visitor: Visitor, newer: Path) -> None:
    board.run("ekctl add-user keeper operator")
    began = time.monotonic()
    answer = visitor.upload("/upload/bundle", "/update", newer)
    assert answer["status"] == 200, answer
    assert (answer["version"], answer["older"]) == (NEWER, False)
    print(f"upload of {newer.stat().st_size / 1e6:.0f} MB: {time.monotonic() - began:.0f} s")
    page = visitor.post("/update/install", "/update")
    assert "The installation has begun." in page, page
    found = wait_until_installed(visitor)
    assert found["state"] == "installed", found
    assert slots(found)["B"]["next"]
    assert slots(found)["B"]["version"] == NEWER
    assert board.try_run("ls /var/lib/evenkeel-panel/update/bundle.raucb")[0] != 0  # its space is free again
    visitor.post("/system/restart", "/update")
    board.wait_for_boot()
    board.health()
    settled(board)
    assert f"IMAGE_VERSION={NEWER}" in board.run("cat /etc/os-release")
    visitor.log_in()
    found = state(visitor)
    assert slots(found)["B"]["running"]
    assert found["state"] == "idle", found
    # the new slot is confirmed, and what the board knew before is still there
    assert {"B_OK": "1", "B_TRY": "0"}.items() <= grubenv(board).items()
    assert slots(found)["B"]["good"]
    assert "keeper" in board.run("ekctl users")
    assert "InstallBundle" in board.run("ekctl audit")


# What is missing in the new version. Without kernel or init the board restarts at once; without panel it starts, and its
# health check restarts it.
MISSING = {
    "kernel": "/boot/vmlinuz",
    "init": "/usr/lib/evenkeel/preinit",
    "panel": "/usr/lib/systemd/system/evenkeel-panel.service",
}


@pytest.mark.parametrize("missing", sample("a version that does not start", list(MISSING)))
def test_an_update_that_does_not_start_is_rolled_back(
    missing: str, board: Board, visitor: Visitor, factory: Factory
) -> None:
    """Installed by ekctl from a URL."""
    before = state(visitor)
    running = next(slot["name"] for slot in before["slots"] if slot["running"])
    other = "AB".replace(running, "")
    bundle = factory.bundle(factory.other_root(BROKEN, {MISSING[missing]: None}), BROKEN)
    handler = partial(Server, directory=str(factory.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{HOST}:{server.server_address[1]}/{bundle.name}"
        assert BROKEN in board.run(f"ekctl inspect {url}", 120)
        began, Server.sent = time.monotonic(), 0
        board.run(f"ekctl install {url}", 600)
        size = bundle.stat().st_size
        print(f"from a URL: {time.monotonic() - began:.0f} s, {Server.sent / 1e6:.1f} of {size / 1e6:.0f} MB")
        # the slots have nearly the same contents, so RAUC reads little
        assert Server.sent < 0.15 * size
        server.shutdown()
    board._send("ekctl restart")
    tries = 0
    while True:
        # The version without kernel or init is tried three times before the other slot starts.
        board.wait_for_boot(2 * BOOT_SECONDS)
        if f"rauc.slot={running} " in board.run("cat /proc/cmdline") + " ":
            break
        tries += 1
        assert missing == "panel", "the board booted without kernel or init"
        assert tries <= 3, "the boot loader tries the broken slot for ever"
        assert grubenv(board)[f"{other}_TRY"] == str(tries)
        # Nobody is there: the board restarts by itself.
    assert tries == (3 if missing == "panel" else 0)
    board.health()
    visitor.log_in()
    found = state(visitor)
    assert found["state"] == "rolled-back", found
    assert found["version"] == before["version"]
    assert found["problem"][0]["parameters"] == {"slot": other, "version": BROKEN, "running": running}
    if missing == "panel":
        shown_why = [note["text"] for note in found["problem"][1:]]
        assert any(
            f"slot {other} was not confirmed because the health check panel failed" in text
            for text in shown_why
        ), found["problem"]
    assert "was not confirmed in three starts" in visitor.get("/update")
    assert not slots(found)[other]["good"]
    # the board's own health names it as well
    assert "update-rolled-back" in [
        note["code"] for note in json.loads(board.run("ekctl status --json"))["problems"]
    ]


def test_the_other_medium_was_never_written(board: Board, factory: Factory) -> None:
    """Its partitions have the same names, so the links in by-partlabel lead to either medium."""
    board.run("test -e /dev/sda4 && readlink -f /dev/disk/by-partlabel/root-b")
    assert [board.run(f"readlink -f /dev/disk/evenkeel/root-{slot}") for slot in "ab"] == [
        "/dev/vda3",
        "/dev/vda4",
    ]
    board.power_cut()
    disk = factory.folder / "board/second.qcow2"
    command = enter("qemu-img", "map", "--output=json", str(disk))
    written = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert [part for part in written if part["depth"] == 0 and part["data"]] == []
