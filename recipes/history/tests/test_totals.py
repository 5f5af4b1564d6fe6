# SPDX-License-Identifier: Apache-2.0
"""The totals since the boot: exact sums that never decrease, also over a restart and with a damaged file."""

from pathlib import Path

import msgspec
import pytest
from evenkeel_history.live import Live, Request, Server
from evenkeel_history.period import LARGEST, READ, Flow, Sum
from evenkeel_history.reader import Reader
from evenkeel_history.totals import Totals, decode
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = st.integers(0, 1 << 40)
FLOWS = st.builds(
    Flow, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.dictionaries(st.integers(0, 199), NUMBERS)
)
APPS = st.sampled_from(["", "player", "loader"])
SUMS = st.builds(
    Sum,
    NUMBERS,
    st.dictionaries(st.tuples(APPS, st.sampled_from(["vda", "mmcblk0"]), st.sampled_from([0, 1])), FLOWS),
    st.dictionaries(st.tuples(APPS, APPS), NUMBERS),
    st.dictionaries(APPS, st.tuples(NUMBERS, NUMBERS)),
)


def read(count: int) -> Sum:
    found = Sum(ms=1000)
    flow = found.flow(("player", "vda", READ))
    flow.bytes, flow.ios, flow.latency = count, 1, {100: 33}  # a Period would round 33
    return found


def published(path: Path) -> bytes:
    return Totals(path).publish(Sum())


def amount(data: bytes) -> int:
    return decode(data).flows["player", "vda", READ].bytes


@settings(deadline=None)
@given(st.lists(SUMS, max_size=4))
def test_totals_are_the_exact_sum_of_all_steps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Sum]
) -> None:
    totals, expected = Totals(tmp_path_factory.mktemp("t") / "totals"), Sum()
    for step in steps:
        expected.add(step)
        assert decode(totals.publish(step)) == expected
        totals.add(step)
    assert decode(totals.publish(Sum())) == expected


def test_totals_survive_a_restart_of_the_service(tmp_path: Path) -> None:
    """The running minute, too, if a reader has seen it."""
    Totals(tmp_path / "totals").publish(read(4096))
    again = Totals(tmp_path / "totals")
    assert amount(again.publish(read(1))) == 4097
    assert amount(published(tmp_path / "totals")) == 4097


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xc1", b"\x84"])
def test_a_damaged_file_begins_at_zero(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "totals").write_bytes(content)
    totals = Totals(tmp_path / "totals")
    assert decode(totals.publish(Sum())) == Sum()
    totals.add(read(7))
    totals.publish(Sum())
    assert amount(published(tmp_path / "totals")) == 7


def test_a_file_with_the_largest_numbers_stops_no_sample(tmp_path: Path) -> None:
    """A sum that would be larger stays at the largest number, so it never decreases."""
    full = read(LARGEST)
    full.add_stalls("player", LARGEST, LARGEST)
    (tmp_path / "totals").write_bytes(msgspec.msgpack.encode(full))
    live = Live(Totals(tmp_path / "totals"))
    for at in (59, 60):
        step = read(LARGEST)
        step.add_stalls("player", 1, 1)
        live.add(at, step)
    live.close_minute()
    found = decode(live.answer(Request(0, totals=True)).totals)
    assert found.flows["player", "vda", READ].bytes == LARGEST
    assert found.stalls == {"player": (LARGEST, LARGEST)}
    assert found.ms == 3000


def test_totals_that_cannot_be_written_are_published_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a reader would see smaller totals after a restart of the service."""
    folder = tmp_path / "run"
    folder.mkdir()
    totals = Totals(folder / "totals")
    totals.add(read(1))
    totals.publish(Sum())
    folder.rename(tmp_path / "elsewhere")
    totals.add(read(2))
    assert amount(totals.publish(read(4))) == 1
    assert amount(totals.publish(read(4))) == 1
    totals.add(read(4))
    assert len(caplog.records) == 1
    folder.mkdir()
    assert amount(totals.publish(read(8))) == amount(published(folder / "totals")) == 15


def test_a_minute_that_ends_is_published(tmp_path: Path) -> None:
    """A service that is killed loses at most the running minute, although nobody has asked for the totals."""
    live = Live(Totals(tmp_path / "totals"))
    live.add(59, read(1))
    assert amount(live.answer(Request(0, totals=True)).totals) == 1
    live.add(60, read(2))
    live.add(61, read(4))
    assert amount(published(tmp_path / "totals")) == 1
    live.close_minute()
    assert amount(published(tmp_path / "totals")) == 7
    assert amount(live.answer(Request(0, totals=True)).totals) == 7


def test_a_second_writes_no_totals(tmp_path: Path) -> None:
    """Nobody has asked, and the minute has not ended."""
    live = Live(Totals(tmp_path / "totals"))
    for at in range(60):
        live.add(at, read(1))
    assert not (tmp_path / "totals").exists()


def test_the_socket_serves_the_totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(Totals(tmp_path / "totals"))
    server = Server(tmp_path / "live", live)
    reader = Reader(tmp_path, tmp_path / "live")
    try:
        assert reader.totals() is None  # no sample yet
        live.add(1, read(4096))
        assert reader.totals() == read(4096)
        monkeypatch.setattr(Totals, "publish", lambda *_: b"rubbish")
        with pytest.raises(OSError, match="cannot be read"):
            reader.totals()
    finally:
        server.close()
    with pytest.raises(OSError, match="No such file"):
        reader.totals()
