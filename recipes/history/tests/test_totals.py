# SPDX-License-Identifier: Apache-2.0
"""The totals since the boot: exact sums that never decrease, also over a restart and with a damaged file."""

import time
from pathlib import Path

import pytest
from evenkeel_history.live import Live, Server
from evenkeel_history.period import READ, Flow, Sum
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
        totals.add(step)
    assert decode(totals.data) == expected


def test_totals_survive_a_restart_of_the_service(tmp_path: Path) -> None:
    Totals(tmp_path / "totals").add(read(4096))
    again = Totals(tmp_path / "totals")
    assert amount(again.data) == 4096
    again.add(read(1))
    assert amount(Totals(tmp_path / "totals").data) == 4097


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xc1", b"\x84"])
def test_a_damaged_file_begins_at_zero(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "totals").write_bytes(content)
    totals = Totals(tmp_path / "totals")
    assert decode(totals.data) == Sum()
    totals.add(read(7))
    assert amount(Totals(tmp_path / "totals").data) == 7


def test_totals_that_cannot_be_written_are_published_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a reader would see smaller totals after a restart of the service."""
    folder = tmp_path / "run"
    folder.mkdir()
    totals = Totals(folder / "totals")
    totals.add(read(1))
    folder.rename(tmp_path / "elsewhere")
    totals.add(read(2))
    totals.add(read(4))
    assert amount(totals.data) == 1
    assert len(caplog.records) == 1
    folder.mkdir()
    totals.add(read(8))
    assert amount(totals.data) == amount(Totals(folder / "totals").data) == 15


def test_the_socket_serves_the_totals(tmp_path: Path) -> None:
    live = Live()
    server = Server(tmp_path / "live", live)
    reader = Reader(tmp_path, tmp_path / "live")
    try:
        assert reader.totals() is None  # no sample yet
        totals = Totals(tmp_path / "totals")
        totals.add(read(4096))
        live.totals = totals.data
        assert reader.totals() == read(4096)
        live.totals = b"rubbish"
        with pytest.raises(OSError, match="cannot be read"):
            reader.totals()
    finally:
        server.close()
    with pytest.raises(OSError, match="No such file"):
        reader.totals()


def test_totals_of_16_apps_cost_less_than_a_thousandth_of_a_core(tmp_path: Path) -> None:
    step = Sum(ms=1000)
    names = [f"app-{number}" for number in range(16)]
    for name in names:
        for direction in (0, 1):
            flow = step.flow((name, "mmcblk0", direction))
            flow.bytes, flow.latency = 4096, dict.fromkeys(range(30, 70), 7)
    step.blame = {(victim, cause): 1000 for victim in names for cause in names}
    totals, costs = Totals(tmp_path / "totals"), []
    for _ in range(20):
        before = time.thread_time()
        totals.add(step)
        costs.append(time.thread_time() - before)
    typical = sorted(costs)[len(costs) // 2]
    print(f"totals: {typical * 1e3:.2f} ms CPU a second, {len(totals.data)} bytes")
    assert typical <= 0.001
