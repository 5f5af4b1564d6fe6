# SPDX-License-Identifier: Apache-2.0
"""The sliding window, with counters that grow, restart, disappear and come back."""

from pathlib import Path

import pytest
from evenkeel_agent import sampler as agent_sampler
from evenkeel_agent.sampler import Sampler, step
from evenkeel_common import reading as reading_module
from evenkeel_common.iostat import DeviceStat, parse
from evenkeel_common.reading import ABSENT, Reading
from hypothesis import given
from hypothesis import strategies as st


def reading(identity: int = 1, **devices: tuple[int, int, dict[int, int]]) -> Reading:
    stats = {
        name: DeviceStat(100, {"rbytes": r, "wbytes": w}, {"rtotal": h})
        for name, (r, w, h) in devices.items()
    }
    return Reading(identity, _devices=stats)


def test_a_step_is_the_difference() -> None:
    s = step(reading(a=(10, 5, {3: 1})), reading(a=(30, 5, {3: 2, 9: 4})))
    assert (s.rbytes, s.wbytes, s.latency) == (20, 0, {3: 1, 9: 4})


@pytest.mark.parametrize(
    "old",
    [
        ABSENT,
        reading(identity=2, a=(1, 1, {})),  # another cgroup with the same name
        reading(a=(500, 0, {})),  # a counter decreased
        reading(a=(1, 1, {9: 7})),  # a bucket decreased
        reading(b=(1000, 1000, {})),  # a device got evenkeel
    ],
)
def test_restarted_counters_count_from_zero(old: Reading) -> None:
    s = step(old, reading(a=(300, 20, {9: 4})))
    assert (s.rbytes, s.wbytes, s.latency) == (300, 20, {9: 4})


def test_a_failed_reading_gives_an_empty_step() -> None:
    for old, new in ((None, reading(a=(9, 9, {1: 1}))), (reading(a=(9, 9, {1: 1})), None)):
        assert step(old, new).rbytes == 0
    assert step(reading(a=(9, 9, {1: 1})), ABSENT).rbytes == 0


@given(st.lists(st.tuples(st.floats(0.9, 1.1), st.integers(0, 10**9)), min_size=8, max_size=40))
def test_rates_are_over_the_last_three_seconds(ticks: list[tuple[float, int]]) -> None:
    sampler = Sampler(3.0, 1.0)
    now = total = 0.0
    sampler.add(now, {"x": reading(a=(0, 0, {}))})
    for length, amount in ticks:
        now, total = now + length, total + amount
        sampler.add(now, {"x": reading(a=(int(total), 0, {}))})
    rates = sampler.rates(["x"])["x"]
    assert rates.window_s == pytest.approx(sum(length for length, _ in ticks[-3:]))
    assert rates.read_bps == pytest.approx(sum(amount for _, amount in ticks[-3:]) / rates.window_s)
    assert rates.share == (1.0 if rates.read_bps else 0.0)


def test_the_first_question_gets_a_longer_window_than_the_next_ones() -> None:
    """While nobody asks, the agent takes a sample each five seconds."""
    sampler, windows = Sampler(3.0, 1.0), []
    for now_s in (0, 5, 10, 12, 13, 14, 15):
        sampler.add(now_s, {"x": reading(a=(now_s * 100, 0, {}))})
        rates = sampler.rates(["x"])["x"]
        assert rates.read_bps == (100 if now_s else 0)
        windows.append(rates.window_s)
    assert windows == [0, 5, 5, 7, 3, 4, 3]


def test_shares_and_percentiles() -> None:
    sampler = Sampler(3.0, 1.0)
    sampler.add(0, {"x": ABSENT, "y": ABSENT, "z": ABSENT})
    sampler.add(1, {"x": reading(a=(300, 0, {10: 98, 20: 2})), "y": reading(b=(0, 100, {})), "z": ABSENT})
    rates = sampler.rates(["x", "y", "z"])
    assert (rates["x"].share, rates["y"].share, rates["z"].share) == (0.75, 0.25, 0.0)
    assert (rates["x"].p99_us, rates["y"].p99_us, rates["z"].p99_us) == (25.0, -1.0, -1.0)
    assert (rates["x"].read_bps, rates["y"].write_bps) == (300.0, 100.0)


def test_one_sample_gives_no_rate() -> None:
    sampler = Sampler(3.0, 1.0)
    sampler.add(0, {"x": reading(a=(300, 0, {10: 98}))})
    rates = sampler.rates(["x", "unknown"])
    assert rates["x"] == rates["unknown"]
    assert (rates["x"].window_s, rates["x"].read_bps, rates["x"].p99_us) == (0.0, 0.0, -1.0)


def test_a_late_sample_makes_the_window_longer_and_not_the_rate_higher() -> None:
    sampler = Sampler(3.0, 1.0)
    for now in (0, 1, 2, 3, 10):
        sampler.add(now, {"x": reading(a=(now * 100, 0, {}))})
    assert sampler.rates(["x"])["x"].read_bps == pytest.approx(100)


def test_files_that_disappear_and_come_back(tmp_path: Path) -> None:
    group = tmp_path / "app.service"
    sampler = Sampler(3.0, 1.0)
    cgroups = {"x": str(group), "stopped": None}

    def tick(now: float, text: str | None) -> bool:
        if text is not None:
            (group / "io.evenkeel.stat").write_text(text)
        return sampler.add(now, sampler.read(cgroups))

    assert not tick(0, None)
    group.mkdir()
    assert not tick(1, "8:0 rbytes=100 wbytes=0 rtotal=4:1 wtotal=-\n")
    assert sampler.rates(["x"])["x"].read_bps == 100
    assert not tick(2, "8:0 rbytes=300 wbytes=0 rtotal=4:3 wtotal=-\n")
    assert sampler.rates(["x"])["x"].read_bps == 150
    (group / "io.evenkeel.stat").unlink()
    group.rmdir()
    assert tick(3, None), "the removal of a cgroup is reported"
    assert not tick(4, None), "it is reported once"
    group.mkdir()
    tick(5, "8:0 rbytes=900 wbytes=0 rtotal=4:9 wtotal=-\n")
    assert sampler.rates(["x"])["x"].read_bps == 300
    assert sampler.problems == {}


def test_counters_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    sampler = Sampler(3.0, 1.0)
    cgroups = {"x": str(tmp_path)}
    assert sampler.read(cgroups) == {"x": None}
    assert {name: str(text) for name, text in sampler.problems.items()} == {
        "x": "io.evenkeel.stat of x cannot be read: No such file or directory"
    }
    for now_s, (count, bytes_s) in enumerate({"1000": 0, "many": 0, "2000": 0, "2500": 500}.items()):
        (tmp_path / "io.evenkeel.stat").write_text(f"8:0 rbytes={count}\n")
        sampler.add(now_s, sampler.read(cgroups))
        found = sampler.rates(["x"])["x"]
        assert found.read_bps * found.window_s == bytes_s
        assert ("rbytes of 8:0 is 'many'" in str(sampler.problems)) == (count == "many")


def test_nothing_is_parsed_before_somebody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time, nobody looks at the rates."""
    parsed = []
    monkeypatch.setattr(reading_module, "parse", lambda text, _: parsed.append(text) or parse(text))
    steps = []
    monkeypatch.setattr(agent_sampler, "step", lambda old, new: steps.append(new) or step(old, new))
    sampler = Sampler(3.0, 1.0)
    for now_s in range(20):
        (tmp_path / "io.evenkeel.stat").write_text(f"8:0 rbytes={now_s * 100}\n")
        sampler.add(now_s, sampler.read({"x": str(tmp_path)}))
    assert (parsed, steps) == ([], [])
    assert sampler.rates(["x"])["x"].read_bps == 100
    assert (len(parsed), len(steps)) == (4, 3)
    sampler.rates(["x"])
    assert (len(parsed), len(steps)) == (4, 3)
