# SPDX-License-Identifier: Apache-2.0
"""GetJournal and ek-journal, with a fake journalctl. tests/boot/test_system.py has the real one."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_harness import ERROR, Harness, on_board
from evenkeel_agent import helper, journal, journal_helper
from evenkeel_agent.journal_helper import MAX_LINES, MAX_TEXT, BadRequest, command
from evenkeel_api.features.system import Line
from evenkeel_common.packets import PACKET_BYTES, End, Truncated, parse
from hypothesis import given
from hypothesis import strategies as st

ORDER: dict[str, Any] = {"unit": "", "priority": "info", "start": "", "end": "", "limit": 10}
# prints what the file `lines` next to it has, and its arguments into `arguments`
FAKE = """#!/usr/bin/python3
import os, sys, time
here = os.path.dirname(sys.argv[0])
open(here + "/arguments", "w").write("\\n".join(sys.argv[1:]))
mode = open(here + "/mode").read() if os.path.exists(here + "/mode") else ""
if mode == "slow":
    time.sleep(60)
if mode == "refuse":
    print("Failed to search journal: bad", file=sys.stderr)
    sys.exit(1)
sys.stdout.write(open(here + "/lines").read())
"""


def entry(text: Any, n: int = 0, **more: Any) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": str(1_800_000_000_500_000 + n), "MESSAGE": text, **more})


@pytest.fixture
def journalctl(tmp_path: Path) -> Path:
    return fake(tmp_path)


def fake(folder: Path) -> Path:
    made = folder / "journalctl"
    made.write_text(FAKE)
    made.chmod(0o755)
    (folder / "lines").write_text("")
    return made


class FakeSocket:
    """Serves `path` like evenkeel-journal.socket, with a fake journalctl in FOLDER."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.journalctl = fake(folder)
        self.full = False  # systemd closes each connection at once
        path.parent.mkdir(parents=True, exist_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if self.full:
                connection.close()
            else:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            journal_helper.serve(connection, str(self.journalctl))

    def close(self) -> None:
        self._socket.close()


def ask(order: object, journalctl: Path) -> tuple[bytes, End]:
    """The answer of the helper to ORDER, which is sent as JSON."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, theirs:
        mine.send(order if isinstance(order, bytes) else json.dumps(order).encode())
        thread = threading.Thread(target=journal_helper.serve, args=(theirs, str(journalctl)))
        thread.start()
        content = b""
        while not isinstance(part := parse(mine.recv(PACKET_BYTES)), End):
            content += part
        thread.join()
        return content, part


def test_the_command() -> None:
    assert command({**ORDER, "unit": "nginx.service", "priority": "err", "limit": 51}, "j") == [
        "j", "--quiet", "--no-pager", "--system", "--output=json", f"--output-fields={journal_helper.FIELDS}",
        "--lines=51", "--priority=err", "--unit=nginx.service",
    ]  # fmt: skip
    times = command({**ORDER, "start": "2026-11-25T10:00:00Z", "end": "2026-11-25T10:00:01Z"}, "j")
    assert times[-2:] == ["--since=@1795600800", "--until=@1795600801"]
    assert command({**ORDER, "unit": "kernel"}, "j")[-1] == "_TRANSPORT=kernel"


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "--root=/etc"}, {"unit": "-M"}, {"unit": "a b"}, {"unit": "a*"}, {"unit": "a\n"}, {"unit": 7},
        {"unit": "x" * 256},
        {"priority": "5"}, {"priority": "--"}, {"priority": None},
        {"start": "now"}, {"start": "2026-11-25T10:00:00Z\n"}, {"end": "2026-13-25T10:00:00Z"}, {"end": 7},
        {"limit": 0}, {"limit": MAX_LINES + 1}, {"limit": True}, {"limit": "5"}, {"limit": 5.0},
    ],
)  # fmt: skip
def test_no_request_passes_an_option_or_a_path(change: dict[str, Any], journalctl: Path) -> None:
    with pytest.raises(BadRequest):
        command({**ORDER, **change})
    content, last = ask({**ORDER, **change}, journalctl)
    assert (content, last.status) == (b"", 2)
    assert not (journalctl.parent / "arguments").exists()


@pytest.mark.parametrize("packet", [b"", b"x", b"[]", b"7", b"{}", b'"list"', b"[" * 4000])
def test_a_packet_that_is_no_request_is_refused(packet: bytes, journalctl: Path) -> None:
    if packet:
        content, last = ask(packet, journalctl)
        assert (content, last.status) == (b"", 2)


@given(
    st.dictionaries(
        st.sampled_from(list(ORDER)), st.text("aZ0-@.:*\n", max_size=10) | st.integers() | st.none()
    )
)
def test_a_command_has_only_known_options(change: dict[str, Any]) -> None:
    try:
        found = command({**ORDER, **change}, "j")
    except BadRequest:
        return
    known = ("--quiet", "--no-pager", "--system", "--output=json", "--output-fields=", "--lines=", "--priority=",
             "--since=@", "--until=@", "--unit=", "_TRANSPORT=kernel")  # fmt: skip
    assert all(argument.startswith(known) for argument in found[1:])


def test_rows_have_what_journalctl_prints(journalctl: Path) -> None:
    lines = [
        entry("one", PRIORITY="4", _SYSTEMD_UNIT="a.service", SYSLOG_IDENTIFIER="a", _PID="7"),
        entry("started", UNIT="b.service", _SYSTEMD_UNIT="init.scope", _COMM="systemd"),
        entry([104, 195, 164, 255]),  # bytes that are not UTF-8
        entry(["first", "second"]),
        entry(None),
        entry("x" * 5000),
        "not json",
        "[]",
        "y" * (journal_helper.MAX_LINE + 10),
        entry("last"),
    ]
    (journalctl.parent / "lines").write_text("\n".join(lines))
    content, last = ask(ORDER, journalctl)
    assert last.status == 0
    rows = json.loads(content)
    assert rows[0] == {
        "at_us": "1800000000500000", "priority": "4", "unit": "a.service", "program": "a", "pid": "7", "text": "one",
    }  # fmt: skip
    assert (rows[1]["unit"], rows[1]["program"], rows[1]["priority"]) == ("b.service", "systemd", "6")
    assert [row["text"] for row in rows[2:5]] == ["hä\ufffd", "first", ""]
    assert len(rows[5]["text"]) == MAX_TEXT
    assert rows[6]["text"] == "last"


def test_the_answer_is_bounded(journalctl: Path) -> None:
    (journalctl.parent / "lines").write_text("\n".join(entry("x" * 3000) for _ in range(2 * MAX_LINES)))
    content, last = ask(ORDER, journalctl)
    assert last.status == 0
    assert len(json.loads(content)) == MAX_LINES
    assert len(content) < helper.LIMIT


def test_a_failure_of_journalctl_has_its_reason(journalctl: Path) -> None:
    (journalctl.parent / "mode").write_text("refuse")
    content, last = ask(ORDER, journalctl)
    assert (content, last) == (b"", End(2, "Failed to search journal: bad"))


def test_a_slow_search_is_ended(journalctl: Path) -> None:
    (journalctl.parent / "mode").write_text("slow")
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="choose a unit, a shorter time or fewer lines"):
        journal_helper.read([str(journalctl)], 0.3)
    assert time.monotonic() - began < 10


def test_the_helper_gives_up_before_the_agent() -> None:
    # systemd may need seconds to start the helper
    assert journal_helper.SEARCH_S + 4 <= journal.ANSWER_S
    assert tuple(journal.PRIORITIES) == journal_helper.PRIORITIES


LISTEN = """
import socket, sys
from evenkeel_agent import journal_helper
journal_helper.CONNECTION_S = int(sys.argv[2])
if sys.argv[4] == "faulty":
    def fault(arguments):
        raise RuntimeError("a fault")
    journal_helper.read = fault
with socket.socket(fileno=0) as listener:
    journal_helper.listen(listener, sys.argv[1], float(sys.argv[3]))
"""


class Helper:
    """ek-journal on a socket in FOLDER, with a fake journalctl there."""

    def __init__(self, folder: Path, connection_s: int = 60, idle_s: float = 60, mode: str = "") -> None:
        self.journalctl = fake(folder)
        self.path = str(folder / "journal")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.path)
            listener.listen()
            self.process = subprocess.Popen(
                [sys.executable, "-c", LISTEN, str(self.journalctl), str(connection_s), str(idle_s), mode],
                stdin=listener,
                stderr=subprocess.PIPE,
                env={"PYTHONPATH": os.pathsep.join(sys.path)},
                text=True,
            )

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(20)
        connection.connect(self.path)
        return connection

    def ask(self) -> End:
        """The end of the answer to a request."""
        with self.connect() as connection:
            connection.send(json.dumps(ORDER).encode())
            while not isinstance(part := parse(connection.recv(PACKET_BYTES)), End):
                pass
            return part

    def end(self) -> str:
        """End the process. Returns what it has logged."""
        self.process.kill()
        return self.process.communicate()[1]


def test_one_process_serves_one_connection_after_the_other(tmp_path: Path) -> None:
    served = Helper(tmp_path)
    assert [served.ask() for _ in range(6)] == [End(0)] * 6
    assert served.process.poll() is None
    assert served.end() == ""


def test_a_slow_reader_delays_no_other_and_a_fifth_connection_is_closed(tmp_path: Path) -> None:
    served = Helper(tmp_path)
    slow = [served.connect() for _ in range(journal_helper.CONNECTIONS - 1)]
    assert served.ask() == End(0)
    slow.append(served.connect())
    with served.connect() as further:
        further.settimeout(journal_helper.STALL_S / 2)
        assert further.recv(PACKET_BYTES) == b""
    for connection in slow:
        connection.close()
    served.end()


def test_the_process_ends_when_no_connection_comes_and_none_is_open(tmp_path: Path) -> None:
    served = Helper(tmp_path, idle_s=0.3)
    with served.connect():
        time.sleep(1.5)
        assert served.process.poll() is None, "a connection is open"
    assert served.process.wait(20) == 0
    served.end()


def test_a_connection_that_takes_too_long_is_closed(tmp_path: Path) -> None:
    served = Helper(tmp_path, connection_s=1)
    began = time.monotonic()
    with served.connect() as connection:
        assert connection.recv(PACKET_BYTES) == b""
    assert time.monotonic() - began < journal_helper.STALL_S - 2
    assert served.ask() == End(0)
    served.end()


def test_a_fault_in_one_connection_ends_no_other(tmp_path: Path) -> None:
    served = Helper(tmp_path, mode="faulty")
    with served.connect() as other:
        for _ in range(2):
            with pytest.raises(Truncated):
                served.ask()
        other.send(b"x")
        assert isinstance(parse(other.recv(PACKET_BYTES)), End)
    assert served.process.poll() is None
    assert served.end().count("RuntimeError: a fault") == 2


def connected(board: Harness) -> FakeSocket:
    return FakeSocket(board.root / "run/evenkeel/journal", board.top)


@on_board
async def test_lines_of_the_journal(board: Harness) -> None:
    served = connected(board)
    (board.top / "lines").write_text(
        "\n".join(entry(f"line {n}", n, PRIORITY="3", _PID="5") for n in range(4))
    )
    await board.agent_up()
    found = await board.call("GetJournal", "", "info", "", "", 3)
    assert [line["text"] for line in found["lines"]] == ["line 1", "line 2", "line 3"]
    assert found["more"] is True
    line = found["lines"][0]
    assert set(line) == set(Line.__struct_fields__)
    assert (line["at"], line["priority"], line["pid"]) == (1800000000.500001, "err", 5)
    assert "--lines=4" in (board.top / "arguments").read_text()
    assert (await board.call("GetJournal", "", "info", "", "", 4))["more"] is False
    served.close()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("a b", "info", "", "", 5), "unit"),
        (("-x", "info", "", "", 5), "unit"),
        (("", "loud", "", "", 5), "priority"),
        (("", "info", "yesterday", "", 5), "start"),
        (("", "info", "2026-02-30T00:00:00Z", "", 5), "is not a time"),
        (("", "info", "2026-11-25T10:00:01Z", "2026-11-25T10:00:00Z", 5), "before it begins"),
        (("", "info", "", "", 0), "limit"),
        (("", "info", "", "", 501), "limit"),
    ],
)
def test_a_bad_request_is_refused(arguments: tuple[Any, ...], text: str) -> None:
    @on_board
    async def test(board: Harness) -> None:
        served = connected(board)
        await board.agent_up()
        error = await board.refused("GetJournal", *arguments)
        assert error.name == ERROR + "InvalidArgument"
        assert text in error.text
        assert not (board.top / "arguments").exists()
        served.close()

    test()


@on_board
async def test_a_failure_says_what_to_do(board: Harness) -> None:
    await board.agent_up()
    arguments = ("GetJournal", "", "info", "", "", 5)
    assert "systemctl status evenkeel-journal.socket" in (await board.refused(*arguments)).text
    served = connected(board)
    served.full = True
    assert "ended too early; try again" in (await board.refused(*arguments)).text
    served.full = False
    (board.top / "mode").write_text("refuse")
    assert "the journal was not read: Failed to search journal: bad" in (await board.refused(*arguments)).text
    assert (await board.call("GetStatus"))["health"] == "ok"
    served.close()


def test_a_truncated_answer_is_no_answer(tmp_path: Path) -> None:
    """A helper that is killed in the middle of its answer."""

    async def run() -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.send(b'D[{"text": "x"}]')
            connection.close()

        threading.Thread(target=serve, daemon=True).start()
        reader = journal.JournalReader.__new__(journal.JournalReader)
        reader._path = str(tmp_path / "s")
        with pytest.raises(Truncated):
            await reader._ask({})
        listener.close()

    asyncio.run(run())


VALUES = st.text("09-a\0\n", max_size=25) | st.integers() | st.none()


@given(st.dictionaries(st.sampled_from(["at_us", "priority", "unit", "program", "pid", "text"]), VALUES))
def test_no_row_breaks_the_answer(row: dict[str, Any]) -> None:
    found = journal.line(row)
    assert found.priority in journal.PRIORITIES
    assert found.at >= 0
    assert 0 <= found.pid < 1 << 63
