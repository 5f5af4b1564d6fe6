# SPDX-License-Identifier: Apache-2.0
"""The support bundle: what is in it, that no secret is, and that a cut file never looks complete."""

import asyncio
import io
import json
import re
import socket
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agent_harness import ERROR, Harness, on_board
from dbus_fast import BusType, Message, MessageType
from dbus_fast.aio import MessageBus
from evenkeel_agent import support, support_bundle
from evenkeel_agent.settings import Settings
from evenkeel_api import errors, interface
from evenkeel_common.packets import CONTENT_BYTES, PACKET_BYTES, End, Truncated, data, end, parse
from test_journal import FakeSocket, fake

FILES = ["README.txt", "status.json", "apps.json", "update.json", "recorder.json", "system.json", "scheduler.txt",
         "journal.txt", "kernel.txt", "journal-before.txt"]  # fmt: skip


def receive(connection: socket.socket) -> tuple[bytes, End]:
    content = b""
    while not isinstance(part := parse(connection.recv(PACKET_BYTES)), End):
        assert len(part) <= CONTENT_BYTES
        content += part
    return content, part


def unpack(content: bytes) -> dict[str, str]:
    """The files in the bundle CONTENT, by name without the folder."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        entries = tar.getmembers()
        assert len({entry.name.partition("/")[0] for entry in entries}) == 1
        found = {}
        for entry in entries:
            assert (entry.isreg(), entry.mode, entry.uid) == (True, 0o644, 0)
            file = tar.extractfile(entry)
            assert file
            found[entry.name.partition("/")[2]] = file.read().decode()
    return found


def ask(facts: bytes | dict[str, str], journalctl: Path) -> tuple[bytes, End]:
    """The answer of the helper's code to FACTS."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, theirs:
        content = facts if isinstance(facts, bytes) else json.dumps(facts).encode()
        thread = threading.Thread(target=support_bundle.serve, args=(theirs, str(journalctl)))
        thread.start()
        for at in range(0, len(content), CONTENT_BYTES):
            mine.sendall(data(content[at : at + CONTENT_BYTES]))
        mine.sendall(end(End(0)))
        answer = receive(mine)
        thread.join()
        return answer


def test_the_file(tmp_path: Path) -> None:
    journalctl = fake(tmp_path)
    (tmp_path / "lines").write_text("a line\n")
    content, last = ask({"status.json": "{}", "scheduler.txt": "x" * 100_000}, journalctl)
    assert last == End(0)
    found = unpack(content)
    assert list(found) == ["README.txt", "status.json", "scheduler.txt", *support_bundle.JOURNAL]
    assert (found["status.json"], len(found["scheduler.txt"]), found["journal.txt"]) == (
        "{}",
        100_000,
        "a line\n",
    )
    for name in found:
        assert name in found["README.txt"] or name == "README.txt"
    options = (tmp_path / "arguments").read_text().splitlines()
    assert options[:4] == ["--quiet", "--no-pager", "--system", "--utc"]


@pytest.mark.parametrize(
    "facts",
    [b"", b"[]", b"7", b"{", b'{"../x.json": "a"}', b'{"/x.json": "a"}', b'{"x.sh": "a"}', b'{"x.json": 7}',
     b'{"journal.txt\\n": "a"}', b"[" * 100_000],
)  # fmt: skip
def test_facts_that_are_not_valid_are_refused(facts: bytes, tmp_path: Path) -> None:
    content, last = ask(facts, fake(tmp_path))
    assert (content, last.status) == (b"", 2)
    assert not (tmp_path / "arguments").exists()


def test_too_many_facts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_bundle, "MAX_FACTS", 100_000)
    assert ask({"status.json": "x" * 200_000}, fake(tmp_path))[1].status == 2
    assert (
        ask({f"a{'b' * n}.json": "" for n in range(support_bundle.MAX_FILES + 1)}, fake(tmp_path))[1].status
        == 2
    )
    assert support.FACTS_LIMIT < 5 << 20


def test_an_output_is_bounded_in_size_and_time(tmp_path: Path) -> None:
    journalctl = fake(tmp_path)
    (tmp_path / "lines").write_text("x" * 100_000)
    found = support_bundle.output([str(journalctl)], most=1000)
    assert found == b"(incomplete: more than 1000 bytes)\n" + b"x" * 1000
    (tmp_path / "mode").write_text("slow")
    began = time.monotonic()
    assert support_bundle.output([str(journalctl)], 0.3).startswith(
        b"(incomplete: journalctl took more than 0.3 s)"
    )
    assert time.monotonic() - began < 10
    assert b"does not run" in support_bundle.output([str(tmp_path / "missing")])
    (tmp_path / "mode").write_text("refuse")
    assert support_bundle.output([str(journalctl)]) == b"Failed to search journal: bad\n"


def test_a_large_file_is_sent_in_bounded_memory(tmp_path: Path) -> None:
    """The sender waits for the receiver: what it has packed and not sent is at most what a socket holds."""
    journalctl = fake(tmp_path)
    text = "".join(f"{n * 7919 % 1000003:x} {n * n}\n" for n in range(400_000))  # packs badly
    (tmp_path / "lines").write_text(text)
    content, last = ask({"status.json": "{}"}, journalctl)
    assert last == End(0)
    assert len(content) > 1_000_000
    assert unpack(content)["journal.txt"] == text


def test_a_cut_file_never_looks_complete(tmp_path: Path) -> None:
    journalctl = fake(tmp_path)
    (tmp_path / "lines").write_text("".join(f"{n * n * 7919}\n" for n in range(200_000)))
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine:
        failed: list[OSError] = []

        def send() -> None:
            try:
                support_bundle.send(theirs, {}, str(journalctl))
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        mine.recv(PACKET_BYTES)
        theirs.shutdown(socket.SHUT_RDWR)  # as when the process is killed
        thread.join()
        assert failed
        theirs.close()
        with pytest.raises(Truncated):
            receive(mine)


async def opened(board: Harness) -> socket.socket:
    """OpenSupportBundle, called as root."""
    bus = await MessageBus(board.address, BusType.SYSTEM, negotiate_unix_fd=True).connect()
    reply = await bus.call(
        Message(
            destination=interface.NAME,
            path=interface.PATH,
            interface=interface.NAME,
            member="OpenSupportBundle",
        )
    )
    assert reply
    assert reply.message_type is MessageType.METHOD_RETURN, reply.body
    bus.disconnect()
    return socket.socket(fileno=reply.unix_fds[0])


@on_board
async def test_a_bundle_has_the_facts_and_no_secret(board: Harness) -> None:
    served = FakeSocket(board.root / "run/evenkeel/journal", board.top)
    unit = board.app("player")
    board.set_stat(unit, "a line of the counters")
    await board.agent_up()
    await board.call(
        "SetAlerts",
        "https://chat.example/hunter2",
        "a@example.org",
        "",
        "mail.example",
        587,
        "starttls",
        "u",
        "hunter3",
    )
    first = (await board.call("GetFirstPassword"))["password"]
    with await opened(board) as connection:
        connection.setblocking(True)
        content, last = await asyncio.to_thread(receive, connection)
    assert last == End(0)
    found = unpack(content)
    assert list(found) == FILES
    assert json.loads(found["status.json"])["kernel"] == "6.12.1-evenkeel"
    assert json.loads(found["apps.json"])[0]["name"] == "player"
    assert json.loads(found["update.json"])["state"] == "unavailable"
    assert "# nvme0n1 (259:0), Fast Flash" in found["scheduler.txt"]
    assert "a line of the counters" in found["scheduler.txt"]
    text = "".join(found.values())
    assert first
    for secret in (first, "hunter2", "hunter3", "mail.example", "$argon2"):
        assert secret not in text, secret
    rows = [row for row in await board.call("ListAudit", 0, 9) if row["action"] == "OpenSupportBundle"]
    assert len(rows) == 1
    served.close()


@on_board
async def test_ekctl_saves_a_complete_bundle_or_no_file(board: Harness) -> None:
    served = FakeSocket(board.root / "run/evenkeel/journal", board.top)
    await board.agent_up()
    file = board.root / "support.tar.gz"
    answer = await board.ekctl("support-bundle", str(file))
    assert answer.status == 0, answer.err
    assert answer.out.strip() == f"{file}: {file.stat().st_size} bytes"
    assert list(unpack(file.read_bytes())) == FILES
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    answer = await board.ekctl("support-bundle", str(file))
    assert (answer.status, file.read_bytes()) == (1, before)
    assert "cannot be written: File exists" in answer.err
    served.full = True
    other = board.root / "other.tar.gz"
    answer = await board.ekctl("support-bundle", str(other))
    assert answer.status == 1
    # either the agent notices that the helper has ended, or ekctl does
    assert re.search("ended too early|the support bundle was not (made|saved)", answer.err)
    assert not other.exists()
    served.close()


@on_board
async def test_without_the_helper_the_reason_is_shown(board: Harness) -> None:
    await board.agent_up()
    error = await board.refused("OpenSupportBundle")
    assert error.name == ERROR + "Failed"
    assert "systemctl status evenkeel-journal.socket" in error.text
    served = FakeSocket(board.root / "run/evenkeel/journal", board.top)
    served.full = True
    # more facts than the buffer of a socket holds, so the agent still sends when the connection is closed
    for number in range(3):
        folder = Path(Settings(root=str(board.root)).apps_cgroup) / f"large-{number}.service"
        folder.mkdir(parents=True)
        (folder / "io.pressure").write_text("y" * 200_000)
    assert "ended too early" in (await board.refused("OpenSupportBundle")).text
    served.close()
    assert (await board.call("GetStatus"))["health"] == "ok"


def test_a_fault_of_the_board_does_not_prevent_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "QUERY_S", 0.05)

    async def refuse(*_: Any) -> None:
        raise errors.Failed("no-flash")

    async def hang(*_: Any) -> None:
        await asyncio.sleep(60)

    caller: Any = None
    assert "no flash device" in json.loads(asyncio.run(support._answer(refuse, caller)))["error"]
    assert "no answer within" in json.loads(asyncio.run(support._answer(hang, caller)))["error"]


def test_the_facts_about_the_scheduler_are_bounded(tmp_path: Path) -> None:
    settings = Settings(root=str(tmp_path))
    assert support.scheduler(settings) == ""
    for n in range(300):
        folder = Path(settings.apps_cgroup) / f"a{n}.service"
        folder.mkdir(parents=True)
        (folder / "io.evenkeel.stat").write_text("x" * 20_000)
        (folder / "io.weight").symlink_to("/etc/passwd")
        for name in ("io.stat", "io.pressure", "io.evenkeel.weight"):
            (folder / name).write_text("y")
    found = support.scheduler(settings)
    assert len(found) <= support.FACTS_LIMIT // 2
    assert "root:" not in found
