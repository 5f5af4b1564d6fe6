# SPDX-License-Identifier: Apache-2.0
"""GetJournal and ek-journal, with a fake journal. test_journal_library.py has a real one."""

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import pytest
from agent_harness import ERROR, Harness, on_board
from evenkeel_agent import helper, journal, journal_helper
from evenkeel_agent.journal_helper import MAX_BYTES, MAX_LINES, MAX_TEXT, BadRequest, Opener, Search
from evenkeel_agent.journal_library import Field
from evenkeel_api.features.system import Line
from evenkeel_common.packets import PACKET_BYTES, End, Truncated, end, parse
from hypothesis import given
from hypothesis import strategies as st

ORDER: dict[str, Any] = {"unit": "", "priority": "info", "start": "", "end": "", "limit": 10}
# a journalctl: prints what the file `lines` next to it has, and its arguments into `arguments`
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


def entry(text: bytes | str = "", n: int = 0, **more: str) -> dict[str, Any]:
    """A line of the journal, logged N microseconds after the first one."""
    content = text.encode() if isinstance(text, str) else text
    return {"at": 1_800_000_000_500_000 + n, "MESSAGE": content.hex()} | {
        name: value.encode().hex() for name, value in more.items()
    }


def write(folder: Path, *lines: dict[str, Any]) -> None:
    (folder / "entries").write_text(json.dumps(lines))


class FakeJournal:
    """Stands for journal_library.Journal. FOLDER has its lines, oldest first, and a file for a way in which it fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "opened").write_text("")
        if self._mode("refuse"):
            raise OSError(errno.EBADMSG, "Bad message")

    def _mode(self, name: str) -> bool:
        path = self.folder / "mode"
        return path.exists() and path.read_text() == name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        (self.folder / "closed").write_text("")

    def require(self, alternatives: Sequence[Sequence[str]]) -> None:
        with (self.folder / "opened").open("a") as file:
            file.write(f"{alternatives}\n")

    def newest_first(self, until_us: int | None) -> Iterator[tuple[int, Field]]:
        if self._mode("slow"):
            time.sleep(60)
        path = self.folder / "entries"
        for line in reversed(json.loads(path.read_text()) if path.exists() else []):
            if until_us is None or line["at"] <= until_us:
                yield line["at"], partial(self._field, line)

    def _field(self, line: dict[str, Any], name: bytes) -> bytes:
        return bytes.fromhex(line.get(name.decode(), ""))[:MAX_BYTES]


def opener(folder: Path) -> Opener:
    """What opens the fake journal in FOLDER."""
    return cast("Opener", lambda: FakeJournal(folder))


def fake(folder: Path) -> Path:
    """A fake journalctl in FOLDER."""
    made = folder / "journalctl"
    made.write_text(FAKE)
    made.chmod(0o755)
    (folder / "lines").write_text("")
    return made


class FakeSocket:
    """Serves `path` like evenkeel-journal.socket, with a fake journal and a fake journalctl in FOLDER."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.folder, self.journalctl = folder, fake(folder)
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
            journal_helper.serve(connection, opener(self.folder), str(self.journalctl))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # ends accept()
        self._socket.close()


def ask(order: object, folder: Path) -> tuple[bytes, End]:
    """The answer of the helper to ORDER, which is sent as JSON."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, theirs:
        mine.send(order if isinstance(order, bytes) else json.dumps(order).encode())
        thread = threading.Thread(target=journal_helper.serve, args=(theirs, opener(folder)))
        thread.start()
        content = b""
        while not isinstance(part := parse(mine.recv(PACKET_BYTES)), End):
            content += part
        thread.join()
        return content, part


def test_a_search() -> None:
    found = Search.of({**ORDER, "unit": "nginx.service", "priority": "err", "limit": 51})
    assert found.required == [
        [["PRIORITY=0", "PRIORITY=1", "PRIORITY=2", "PRIORITY=3"]],
        journal_helper.of_unit("nginx.service"),
    ]
    assert (found.since_us, found.until_us, found.limit) == (None, None, 51)
    times = Search.of({**ORDER, "start": "2026-11-25T10:00:00Z", "end": "2026-11-25T10:00:01Z"})
    assert (times.since_us, times.until_us) == (1795600800_000000, 1795600801_000000)
    assert Search.of({**ORDER, "unit": "kernel"}).required[1] == [["_TRANSPORT=kernel"]]


def test_the_lines_of_a_unit() -> None:
    found = journal_helper.of_unit("nginx")
    assert found[0] == ["_SYSTEMD_UNIT=nginx.service"]
    assert ["_PID=1", "UNIT=nginx.service"] in found
    assert found == journal_helper.of_unit("nginx.service")
    assert journal_helper.of_unit("dev-sda.device")[0] == ["_SYSTEMD_UNIT=dev-sda.device"]
    assert journal_helper.of_unit("evenkeel-apps.slice")[-1] == ["_SYSTEMD_SLICE=evenkeel-apps.slice"]


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
def test_a_bad_request_does_not_reach_the_journal(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        Search.of({**ORDER, **change})
    content, last = ask({**ORDER, **change}, tmp_path)
    assert (content, last.status) == (b"", 2)
    assert not (tmp_path / "opened").exists()


@pytest.mark.parametrize("packet", [b"", b"x", b"[]", b"7", b"{}", b'"list"', b"[" * 4000])
def test_a_packet_that_is_no_request_is_refused(packet: bytes, tmp_path: Path) -> None:
    if packet:
        content, last = ask(packet, tmp_path)
        assert (content, last.status) == (b"", 2)


@given(
    st.dictionaries(
        st.sampled_from(list(ORDER)), st.text("aZ0-@.:*\n", max_size=10) | st.integers() | st.none()
    )
)
def test_a_request_chooses_no_other_field(change: dict[str, Any]) -> None:
    try:
        found = Search.of({**ORDER, **change})
    except BadRequest:
        return
    known = {
        *("PRIORITY", "_TRANSPORT", "_SYSTEMD_UNIT", "MESSAGE_ID", "_UID", "COREDUMP_UNIT", "_PID", "UNIT"),
        *("OBJECT_SYSTEMD_UNIT", "_SYSTEMD_SLICE"),
    }
    matches = [match for part in found.required for matches in part for match in matches]
    assert {match.partition("=")[0] for match in matches} <= known
    assert not [match for match in matches if "\n" in match]


def test_rows_have_what_the_journal_has(tmp_path: Path) -> None:
    write(
        tmp_path,
        entry("one", PRIORITY="4", _SYSTEMD_UNIT="a.service", SYSLOG_IDENTIFIER="a", _COMM="b", _PID="7"),
        entry("started", UNIT="b.service", _SYSTEMD_UNIT="init.scope", _COMM="systemd"),
        entry(b"h\xc3\xa4\xff"),
        entry(),
        entry("x" * MAX_TEXT),
        entry("\U0001f30a" * (MAX_TEXT + 1)),
        entry("last"),
    )
    content, last = ask(ORDER, tmp_path)
    assert last.status == 0
    rows = json.loads(content)
    assert rows[0] == {
        "at_us": 1800000000500000, "priority": "4", "unit": "a.service", "program": "a", "pid": "7", "text": "one",
    }  # fmt: skip
    assert (rows[1]["unit"], rows[1]["program"], rows[1]["priority"]) == ("b.service", "systemd", "6")
    assert [row["text"] for row in rows[2:5]] == ["hä\ufffd", "", "x" * MAX_TEXT]
    assert rows[5]["text"] == "\U0001f30a" * (MAX_TEXT - 1) + "…"
    assert rows[6]["text"] == "last"
    assert (tmp_path / "closed").exists()


def test_only_a_support_bundle_has_a_low_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[int] = []
    monkeypatch.setattr(os, "nice", lowered.append)
    ask(ORDER, tmp_path)
    assert lowered == []
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, theirs:
        mine.send(b'"bundle"')
        mine.send(end(End(0)))  # no facts, so the bundle is refused
        journal_helper.serve(theirs, opener(tmp_path))
    assert lowered == [journal_helper.BUNDLE_NICE]


def test_a_range_of_time(tmp_path: Path) -> None:
    """Both ends are whole seconds, and lines at these times are in the range."""
    write(tmp_path, *(entry(str(n), n * 250_000) for n in range(14)))
    found, _ = ask({**ORDER, "start": "2027-01-15T08:00:01Z", "end": "2027-01-15T08:00:03Z"}, tmp_path)
    assert [row["text"] for row in json.loads(found)] == [str(n) for n in range(2, 11)]


def test_the_answer_is_bounded(tmp_path: Path) -> None:
    write(tmp_path, *(entry("x" * 3000, n) for n in range(2 * MAX_LINES)))
    content, last = ask({**ORDER, "limit": MAX_LINES}, tmp_path)
    assert last.status == 0
    assert len(json.loads(content)) == MAX_LINES
    assert len(content) < helper.LIMIT


def test_a_failure_has_its_reason(tmp_path: Path) -> None:
    (tmp_path / "mode").write_text("refuse")
    content, last = ask(ORDER, tmp_path)
    assert (content, last) == (b"", End(2, "Bad message"))


def test_a_slow_search_is_ended(tmp_path: Path) -> None:
    (tmp_path / "mode").write_text("slow")
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="choose a unit, a shorter time or fewer lines"):
        journal_helper.read(Search.of(ORDER), opener(tmp_path), 0.3)
    assert time.monotonic() - began < 10


def test_the_helper_gives_up_before_the_agent() -> None:
    # systemd may need seconds to start the helper
    assert journal_helper.SEARCH_S + 4 <= journal.ANSWER_S
    assert tuple(journal.PRIORITIES) == journal_helper.PRIORITIES


LISTEN = """
import socket, sys
from contextlib import nullcontext
from types import SimpleNamespace
from evenkeel_agent import journal_helper
# no test module is loaded, which would delay the start
EMPTY = SimpleNamespace(require=lambda _: None, newest_first=lambda _: iter(()))
journal_helper.CONNECTION_S = int(sys.argv[1])
if sys.argv[3] == "faulty":
    def fault(*_):
        raise RuntimeError("a fault")
    journal_helper.read = fault
with socket.socket(fileno=0) as listener:
    journal_helper.listen(listener, lambda: nullcontext(EMPTY), float(sys.argv[2]))
"""


class Helper:
    """ek-journal on a socket in FOLDER, with an empty journal."""

    def __init__(self, folder: Path, connection_s: int = 60, idle_s: float = 60, mode: str = "") -> None:
        self.path = str(folder / "journal")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.path)
            listener.listen()
            self.process = subprocess.Popen(
                [sys.executable, "-c", LISTEN, str(connection_s), str(idle_s), mode],
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
    write(board.top, *(entry(f"line {n}", n, PRIORITY="3", _PID="5") for n in range(4)))
    await board.agent_up()
    found = await board.call("GetJournal", "", "info", "", "", 3)
    assert [line["text"] for line in found["lines"]] == ["line 1", "line 2", "line 3"]
    assert found["more"] is True
    line = found["lines"][0]
    assert set(line) == set(Line.__struct_fields__)
    assert (line["at"], line["priority"], line["pid"]) == (1800000000.500001, "err", 5)
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
        assert not (board.top / "opened").exists()
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
    assert "the journal was not read: Bad message" in (await board.refused(*arguments)).text
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
