# SPDX-License-Identifier: Apache-2.0
"""ek-recordings: which commands it runs, what it sends, and what happens when one side goes away."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evenkeel_agent import recordings_helper
from evenkeel_common.packets import End, Truncated
from hypothesis import given
from hypothesis import strategies as st
from recordings_harness import FakeRecordings, receive

REQUEST = {"start": "", "end": "", "incident": "", "format": "mcap", "channels": ["arm"]}
HEAD = "export -o - --format mcap --directory"


@pytest.fixture
def helper(tmp_path: Path) -> FakeRecordings:
    return FakeRecordings(tmp_path / "socket", tmp_path)


def ask(tmp_path: Path, request: Any) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(20)
    connection.connect(str(tmp_path / "socket"))
    connection.send(request if isinstance(request, bytes) else json.dumps(request).encode())
    return connection


def test_an_export(helper: FakeRecordings, tmp_path: Path) -> None:
    start, end = "2026-11-25T10:00:00Z", "2026-11-25T11:00:00Z"
    content, last = receive(
        ask(tmp_path, {**REQUEST, "channels": ["arm", "can0"], "start": start, "end": end})
    )
    assert last == End(0)
    assert content.decode() == f"{HEAD} {helper.directory} --from {start} --to {end} -- arm can0\n"


def test_an_incident_as_csv(helper: FakeRecordings, tmp_path: Path) -> None:
    content, last = receive(ask(tmp_path, {**REQUEST, "incident": "brake-failure", "format": "csv-text"}))
    path = f"{helper.directory}/arm/kept/brake-failure"
    assert content.decode().split(" -- ") == [
        f"export -o - --format csv --payload text --directory {helper.directory}", f"{path}\n"
    ]  # fmt: skip
    assert last == End(0)


def test_a_large_file_arrives_whole(helper: FakeRecordings, tmp_path: Path) -> None:
    helper.mode("large")
    content, last = receive(ask(tmp_path, REQUEST))
    assert (content.count(b"x"), last.status) == (3_000_000 + content.split(b"\n")[0].count(b"x"), 0)


def test_a_fault_of_the_recording_is_reported_and_does_not_block(
    helper: FakeRecordings, tmp_path: Path
) -> None:
    helper.mode("noisy")
    assert receive(ask(tmp_path, REQUEST))[1] == End(1, "arm: 7 records lost")


@pytest.mark.parametrize("mode", ["refuse", "killed"])
def test_a_failed_export_ends_as_failed(helper: FakeRecordings, tmp_path: Path, mode: str) -> None:
    helper.mode(mode)
    assert receive(ask(tmp_path, REQUEST))[1].status == 2


def test_a_missing_program_is_an_error(helper: FakeRecordings, tmp_path: Path) -> None:
    helper.recorder.unlink()
    assert receive(ask(tmp_path, REQUEST)) == (b"", End(2, "No such file or directory"))


def test_a_receiver_that_goes_away_ends_the_export(helper: FakeRecordings, tmp_path: Path) -> None:
    helper.mode("large")
    process = f"{helper.recorder} export"
    connection = ask(tmp_path, REQUEST)
    connection.recv(100)
    connection.close()
    eventually(lambda: not runs(process))


def test_a_receiver_that_goes_away_ends_an_export_that_prints_nothing(
    helper: FakeRecordings, tmp_path: Path
) -> None:
    helper.mode("slow")
    process = f"{helper.recorder} export"
    connection = ask(tmp_path, REQUEST)
    connection.shutdown(socket.SHUT_WR)  # as the agent does
    eventually(lambda: runs(process))
    time.sleep(0.2)
    assert runs(process)
    connection.close()
    eventually(lambda: not runs(process))


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("the export runs or ends against expectation")


def runs(process: str) -> bool:
    return any(process in cmdline(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def cmdline(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize(
    "change",
    [
        {"channels": []},
        {"channels": ["../etc"]},
        {"channels": ["--output=x"]},
        {"channels": ["arm\n"]},
        {"channels": [7]},
        {"start": "-5min"},
        {"end": "--force"},
        {"incident": "../../can0"},
        {"incident": "-x"},
        {"format": "sh"},
        {"format": []},
    ],
)
def test_bad_requests_run_nothing(helper: FakeRecordings, tmp_path: Path, change: dict[str, Any]) -> None:
    content, last = receive(ask(tmp_path, {**REQUEST, **change}))
    assert (content, last.status) == (b"", 2)
    assert last.text.startswith("the request is not valid")


@pytest.mark.parametrize("request_", [b"{", b"[]", b"7", b"null", b'"ls"', b"\xff", b"{}"])
def test_requests_of_another_form_run_nothing(
    helper: FakeRecordings, tmp_path: Path, request_: bytes
) -> None:
    assert receive(ask(tmp_path, request_))[1].status == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda one: st.lists(one), max_leaves=5
)


@given(st.fixed_dictionaries(dict.fromkeys(REQUEST, JSON)))
def test_no_request_passes_an_option_or_a_path(request_: dict[str, Any]) -> None:
    try:
        found = recordings_helper.command(request_)
    except (recordings_helper.BadRequest, LookupError, TypeError):
        return
    names = found[found.index("--") + 1 :]
    assert names
    assert not any(name.startswith(("-", ".")) or ".." in name for name in names)


def test_a_list(helper: FakeRecordings, tmp_path: Path) -> None:
    content, last = receive(ask(tmp_path, "list"))
    found = json.loads(content)
    assert last == End(0)
    assert [row["name"] for row in found["channels"]] == ["arm", "can0"]
    assert [(row["channel"], row["name"]) for row in found["incidents"]] == [("arm", "brake-failure")]
    assert found["denied"] == []


def test_a_list_names_what_it_may_not_read(helper: FakeRecordings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings_helper.os, "access", lambda path, mode: not path.endswith("/can0"))
    found = recordings_helper.listing(str(helper.recorder), str(helper.directory))
    assert ([row["name"] for row in found["channels"]], found["denied"]) == (["arm"], ["can0"])


def test_a_missing_partition_is_an_error(helper: FakeRecordings, tmp_path: Path) -> None:
    helper.directory.rename(tmp_path / "elsewhere")
    assert receive(ask(tmp_path, "list")) == (b"", End(2, "No such file or directory"))


def test_a_helper_that_is_stopped_truncates_the_file() -> None:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.send(b"Dpart")
    theirs.close()
    with pytest.raises(Truncated):
        receive(mine)
