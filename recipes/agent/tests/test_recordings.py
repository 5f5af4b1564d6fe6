# SPDX-License-Identifier: Apache-2.0
"""The feature recorder: what the agent makes of the recorder's files, and how a download reaches the panel."""

import asyncio
import json
import os
import socket
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_harness import ERROR, Harness, on_board
from dbus_fast import BusType, MessageType
from dbus_fast import Message as BusMessage
from dbus_fast.aio import MessageBus
from evenkeel_agent import recorder, recordings
from evenkeel_agent.caller import Caller
from evenkeel_agent.recordings import Recordings, channels, incidents, state_of
from evenkeel_agent.settings import Settings
from evenkeel_agent.systemd import Unit
from evenkeel_api import errors, interface, schema
from evenkeel_api.features.recorder import Channel, Download, Loss, Recorder
from evenkeel_api.method import Nothing
from evenkeel_common.packets import End
from hypothesis import given
from hypothesis import strategies as st
from recordings_harness import FakeRecordings, receive
from test_accounts import PanelClient

RUNNING = Unit("loaded", "active", "running")
ROOT = Caller("root", "admin", "bus")
CHANNEL = {
    "state": "recording",
    "reason": "",
    "writer": 812,
    "record_size": 16384,
    "period_ns": 5_000_000,
    "window_ns": 500_000_000,
    "records": 1000,
    "bytes": 16_000_000,
    "durable": 990,
    "lost": {"overrun": 3, "absent": 0, "failed": 0, "writer": 0, "restart": 1},
    "late": 2,
    "errors": 1,
    "batches": 9,
    "medium_bytes": 17_000_000,
    "backlog": 4096,
    "buffer": 1 << 20,
    "segments": 5,
    "segments_wanted": 6,
    "segment_bytes": 1 << 20,
    "generation": 7,
    "synced_ms_ago": 250,
    "write_us": "1:2",
    "write_p99_us": 900,
    "write_max_us": 1200,
    "record_us": "1:2",
    "record_p99_us": 9000,
    "record_max_us": 12000,
}


class Board:
    """The agent's part below a folder, without a bus."""

    def __init__(self, root: Path) -> None:
        self.settings = Settings(root=str(root), call_timeout_s=5)
        self.fake = FakeRecordings(Path(self.settings.recordings_socket), root)
        self.units = {recorder.SERVICE: RUNNING, recorder.PARTITION: Unit("loaded", "active", "mounted")}
        self.recordings = Recordings(self.settings, self._units, self._started)
        self.write(arm=CHANNEL)

    async def _units(self) -> dict[str, Unit]:
        return self.units

    async def _started(self, unit: str) -> float:
        assert unit == recorder.SERVICE
        return 1_800_000_000.0

    def write(self, age_s: float = 0.0, **channels: object) -> None:
        path = Path(self.settings.path(recorder.STATISTICS))
        path.parent.mkdir(parents=True, exist_ok=True)
        written = time.monotonic_ns() - int(age_s * 1e9)
        found = {"version": 1, "pid": 7, "monotonic_ns": written, "configuration": "", "channels": channels}
        path.write_text(json.dumps(found))

    def get(self) -> Recorder:
        return run(self.recordings.get_recorder(Nothing(), ROOT))

    def open(self, *names: str, start: str = "", end: str = "", format_: str = "mcap") -> socket.socket:
        request = schema.convert(
            {"channels": list(names), "start": start, "end": end, "incident": "", "format": format_}, Download
        )
        return socket.socket(fileno=run(self.recordings.open_recording(request, ROOT)))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    found = Board(tmp_path)
    yield found
    found.fake.close()


def test_a_channel_has_all_figures_and_the_reach_of_its_recording(board: Board) -> None:
    found = board.get()
    assert (found.state, found.started_at, found.problems) == ("running", 1_800_000_000.0, [])
    assert found.partition_bytes >= found.free_bytes > 0
    arm, can0 = found.channels
    assert arm == Channel(
        name="arm",
        state="recording",
        connected=True,
        window_s=0.5,
        record_bytes=16384,
        records=1000,
        payload_bytes=16_000_000,
        written_bytes=17_000_000,
        lost=[Loss("overrun", 3), Loss("restart", 1)],
        late=2,
        errors=1,
        backlog_bytes=4096,
        buffer_bytes=1 << 20,
        used_bytes=5 << 20,
        wanted_bytes=6 << 20,
        flushed_s=0.25,
        write_p99_us=900,
        write_max_us=1200,
        record_p99_us=9000,
        record_max_us=12000,
        oldest_at=1795600800.5,
        newest_at=1795604400.0,
    )
    assert (can0.name, can0.state, can0.used_bytes) == ("can0", "not-configured", 4096)
    (incident,) = found.incidents
    assert (incident.channel, incident.name, incident.oldest_at) == ("arm", "brake-failure", 1795600800.5)
    assert time.time() - found.listed_at < 60


def test_the_recordings_are_read_only_now_and_then(board: Board) -> None:
    async def ask_often() -> None:
        for _ in range(5):
            await board.recordings.get_recorder(Nothing(), ROOT)

    run(ask_often())
    assert board.fake.served == 1


def test_only_one_list_is_made_at_once(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "PATIENCE_S", 0.05)
    begun: list[int] = []

    async def slow() -> dict[str, Any]:
        begun.append(1)
        await asyncio.sleep(30)
        return {}

    monkeypatch.setattr(board.recordings, "_receive_list", slow)

    async def ask_often() -> None:
        for _ in range(5):
            await board.recordings.get_recorder(Nothing(), ROOT)

    run(ask_often())
    assert begun == [1]


def test_a_slow_list_delays_the_answer_for_a_moment_only(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "PATIENCE_S", 0.1)

    async def slow(_: object = None) -> dict[str, Any]:
        await asyncio.sleep(30)
        return {}

    monkeypatch.setattr(board.recordings, "_receive_list", slow)
    began = time.monotonic()
    found = board.get()
    assert time.monotonic() - began < 5
    assert (found.listed_at, [c.name for c in found.channels]) == (0.0, ["arm"])


@pytest.mark.parametrize(
    ("unit", "state"),
    [
        (None, "unknown"),
        (Unit("not-found", "inactive", "dead"), "not-installed"),
        (Unit("loaded", "inactive", "dead"), "stopped"),
        (Unit("loaded", "deactivating", "stop"), "stopped"),
        (Unit("loaded", "activating", "start"), "starting"),
        (Unit("loaded", "activating", "auto-restart"), "restarting"),
        (Unit("loaded", "failed", "failed"), "failed"),
        (Unit("loaded", "reloading", "reload"), "running"),
        (RUNNING, "running"),
    ],
)
def test_the_state(unit: Unit | None, state: str) -> None:
    assert state_of({recorder.SERVICE: unit} if unit else {}) == state


def test_a_recorder_that_does_not_respond(board: Board) -> None:
    board.write(age_s=60, arm=CHANNEL)
    found = board.get()
    assert (found.state, [note.code for note in found.problems]) == ("silent", ["recorder-silent"])


def test_a_board_without_recorder_reads_nothing(board: Board) -> None:
    board.units = {recorder.SERVICE: Unit("not-found", "inactive", "dead")}
    Path(board.settings.path(recorder.STATISTICS)).unlink()
    assert board.get() == Recorder(state="not-installed")
    assert board.fake.served == 0


def test_the_configuration_that_is_not_in_force(board: Board) -> None:
    path = Path(board.settings.path(recorder.STATISTICS))
    path.write_text(path.read_text().replace('"configuration": ""', '"configuration": "restart it"'))
    assert board.get().configuration == "restart it"


def test_recordings_that_cannot_be_read_are_a_problem_and_the_rest_is_shown(board: Board) -> None:
    board.fake.directory.rename(board.fake.directory.with_name("elsewhere"))
    found = board.get()
    assert [note.text for note in found.listing_problem] == [
        "the recordings cannot be read: No such file or directory"
    ]
    assert [channel.name for channel in found.channels] == ["arm"]
    Path(board.settings.recordings_socket).unlink()
    board.recordings._listing_expires_s = 0.0
    assert board.get().listing_problem[0].code == "recordings-unreachable"


def test_a_channel_that_may_not_be_read() -> None:
    (found,) = channels({"channels": {"arm": CHANNEL}}, {"denied": ["arm", "stray"]})
    assert (found.name, found.readable, found.oldest_at) == ("arm", False, 0.0)


SCALAR = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})
)
ENTRY = SCALAR | st.dictionaries(st.sampled_from((*CHANNEL, "name", "first", "last")), SCALAR, max_size=4)
ROWS = SCALAR | st.lists(ENTRY, max_size=3)


@given(st.dictionaries(st.text(max_size=3), ENTRY, max_size=3), ROWS, ROWS)
def test_whatever_the_files_contain_the_answer_is_valid(
    found: dict[str, Any], rows: Any, denied: Any
) -> None:
    """Another version of the recorder may write other types."""
    names = denied if isinstance(denied, list) else []
    made = Recorder(
        state="running",
        channels=channels({"channels": found}, {"channels": rows, "denied": [str(name) for name in names]}),
        incidents=incidents({"incidents": rows}),
    )
    packed = schema.pack(made, Recorder, lambda _, value, __=True: value)
    assert schema.convert(packed, Recorder).state == "running"
    assert {channel.name for channel in made.channels} >= found.keys()


def test_a_download(board: Board) -> None:
    with board.open("arm", "can0", start="2026-11-25T10:00:00Z") as connection:
        content, last = receive(connection)
    assert content.endswith(b"--from 2026-11-25T10:00:00Z -- arm can0\n")
    assert last == End(0)


def test_nobody_can_send_a_second_request(board: Board) -> None:
    with board.open("arm") as connection, pytest.raises(BrokenPipeError):
        connection.send(b'"list"')


@pytest.mark.parametrize(
    ("names", "values", "kind"),
    [
        (["arm", "can0"], {"format_": "csv-text"}, "one-channel-csv"),
        (["arm"], {"start": "2026-11-25T10:00:01Z", "end": "2026-11-25T10:00:00Z"}, "bad-range"),
    ],
)
def test_bad_arguments(board: Board, names: list[str], values: dict[str, str], kind: str) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        board.open(*names, **values)
    assert caught.value.message.code == kind
    assert board.fake.served == 0


@pytest.mark.parametrize(
    "change", [{"channels": ["../x"]}, {"channels": []}, {"start": "now"}, {"end": "x\n"}, {"format": "sh"}]
)
def test_the_schema_refuses_other_arguments(change: dict[str, Any]) -> None:
    good = {"channels": ["arm"], "start": "", "end": "", "incident": "", "format": "mcap"}
    schema.convert(good, Download)
    with pytest.raises(Exception, match=r"Expected|Invalid"):
        schema.convert({**good, **change}, Download)


def test_an_export_that_fails_at_once_is_an_error_of_the_call(board: Board) -> None:
    board.fake.mode("refuse")
    with pytest.raises(errors.Failed, match=r"the download did not begin: .* no segments of a recording"):
        board.open("arm")


def test_a_helper_that_ends_without_a_packet(board: Board) -> None:
    """systemd closes a connection beyond MaxConnections=. A helper that fails does the same, so the text names both."""
    board.fake.full = True
    with pytest.raises(
        errors.Conflict, match=r"too many downloads run, or it failed; .* -u evenkeel-recordings@\*'"
    ):
        board.open("arm")
    assert [note.code for note in board.get().listing_problem] in ([], ["recordings-ended"])


def test_a_helper_that_cannot_be_reached(board: Board) -> None:
    Path(board.settings.recordings_socket).unlink()
    with pytest.raises(errors.Failed, match=r"cannot be reached at .*evenkeel-recordings.socket"):
        board.open("arm")


def test_a_range_that_is_found_late_is_left_to_the_panel(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "FIRST_PACKET_S", 0.2)
    board.fake.mode("slow")
    with board.open("arm") as connection, pytest.raises(BlockingIOError):
        connection.recv(1)


def test_no_descriptor_stays_open(board: Board) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    board.fake.mode("refuse")
    for _ in range(3):
        with pytest.raises(errors.Failed):
            board.open("arm")
    board.fake.mode("")
    board.open("arm").close()
    deadline = time.monotonic() + 10
    while len(list(Path("/proc/self/fd").iterdir())) > before and time.monotonic() < deadline:
        time.sleep(0.05)  # the fake ends its side in a thread
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


async def open_on_bus(board: Harness, secret: str) -> BusMessage:
    """Call OpenRecording as the panel does."""
    client = await MessageBus(board.address, BusType.SYSTEM, negotiate_unix_fd=True).connect()
    signature = interface.SESSION_SIGNATURE + interface.METHODS["OpenRecording"].in_signature
    message = BusMessage(
        destination=interface.NAME,
        path=interface.PATH,
        interface=interface.SESSION,
        member="OpenRecording",
        signature=signature,
        body=[secret, "192.0.2.7", "", "", "", "mcap", ["arm"]],
    )
    reply = await client.call(message)
    client.disconnect()
    assert reply
    return reply


@on_board
async def test_the_bus_carries_the_connection_and_the_log_has_a_row(board: Harness) -> None:
    fake = FakeRecordings(board.root / "run/evenkeel/recordings", board.top)
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()
    viewer = (await panel.call("CreateToken", "x", "viewer", 0))["token"]
    reply = await open_on_bus(board, panel.session)
    assert reply.message_type is MessageType.METHOD_RETURN, reply.body
    with socket.socket(fileno=reply.unix_fds[reply.body[0]]) as connection:
        content, last = await asyncio.to_thread(receive, connection)
    assert (content[:6], last) == (b"export", End(0))
    assert (await open_on_bus(board, viewer)).error_name == ERROR + "NotAuthorized"
    rows = [row for row in await panel.call("ListAudit", 0, 20) if row["action"] == "OpenRecording"]
    assert [(row["user"], row["via"], row["address"], row["outcome"]) for row in rows] == [
        ("admin", "token", "192.0.2.7", "NotAuthorized"),
        ("admin", "panel", "192.0.2.7", ""),
    ]
    assert "format mcap, channels ['arm']" in rows[1]["detail"]
    fake.close()


@on_board
async def test_no_program_can_fill_the_agent_with_descriptors(board: Harness) -> None:
    """Each user may send signals, also with descriptors."""
    await board.agent_up()
    bus = await MessageBus(board.address, BusType.SYSTEM, negotiate_unix_fd=True).connect()
    await board.call("GetStatus")
    before = len(list(Path(f"/proc/{board.agent.pid}/fd").iterdir()))
    null = os.open(os.devnull, os.O_RDONLY)
    for _ in range(20):
        await bus.send(
            BusMessage(
                message_type=MessageType.SIGNAL,
                destination=interface.NAME,
                path="/x",
                interface="a.b",
                member="C",
                signature="h",
                body=[0],
                unix_fds=[null],
            )
        )
    await bus.call(
        BusMessage(
            destination="org.freedesktop.DBus",
            path="/org/freedesktop/DBus",
            interface="org.freedesktop.DBus",
            member="GetId",
        )
    )
    await board.call("GetStatus")
    assert len(list(Path(f"/proc/{board.agent.pid}/fd").iterdir())) < before + 10
    os.close(null)
    bus.disconnect()
