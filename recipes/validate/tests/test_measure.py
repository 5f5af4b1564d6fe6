# SPDX-License-Identifier: Apache-2.0
"""The figures of each kind of case, from windows with known counts."""

import contextlib
import errno
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from evenkeel_api.features.cache import Cache
from evenkeel_report.row import Figure
from evenkeel_validate import cases, discards, measure, priority, recording
from evenkeel_validate.cases import MB, Case, Job
from evenkeel_validate.errors import ValidateError
from evenkeel_validate.loads import Load, Window
from evenkeel_validate.measure import Context, Outcome
from fake_pool import Pool
from msgspec.structs import replace as replace_struct

SIDE = {"io_bytes": 0, "total_ios": 0, "runtime": 0, "lat_ns": {}}
DONE = {"io_bytes": 4096, "total_ios": 100, "runtime": 1000, "lat_ns": {"bins": {"1000": 99, "5000000": 1}}}


@dataclass
class Fixed:
    """A runner whose groups get RATES bytes per second, whatever they do. `alone`: the same for a load that runs alone."""

    scratch: Path
    rates: Mapping[str, int]
    alone: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    started: list[list[Load]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    settled: list[float] = field(default_factory=list)
    seconds: float = 2.0

    def run(
        self, loads: Sequence[Load], *, settle: float, seconds: float, limit: int = 0, series: bool = False
    ) -> Window:
        self.started.append(list(loads))
        self.limits.append(limit)
        self.settled.append(settle)
        rates = self.alone if len(loads) == 1 and self.alone else self.rates
        read = {load.name: int(rates.get(load.name, 0) * self.seconds) for load in loads}
        return Window(self.seconds, read, dict.fromkeys(read, 0), limit, False)

    def report(self, load: Load) -> str:
        return json.dumps({"jobs": [{"error": 0, "read": DONE, "write": SIDE, "trim": SIDE}]})

    def output(self, load: Load) -> str:
        return "a line\n" + json.dumps(self.outputs[load.name])


def context(runner: Fixed, chosen: list[str], subject: str = "evenkeel") -> Context:
    return Context(
        runner, Path("/data/x"), 1024 * MB, 0, {}, Path("/data"), chosen.append, lambda seconds: {}, subject  # type: ignore[arg-type]
    )  # fmt: skip


def figures(found: Outcome) -> dict[str, Figure]:
    return {f.metric: f for f in found.figures}


def case(name: str) -> Case:
    return next(c for c in cases.full() if c.name == name)


def discarding(
    tmp_path: Path, discarded: int, folder: Path | None, load: str = "discards"
) -> tuple[Outcome, list[Load]]:
    """The figures alongside discards, and the loads."""
    (tmp_path / "reader.reads").write_text("1000000000 200000\n" * 30)
    runner = Fixed(tmp_path, {}, outputs={"load": {"bytes": discarded, "seconds": 2.5, "each_us": 700.0}})
    known = {("latency.alone", "p50"): 100.0, ("latency.alone", "p99"): 200.0}
    found = measure.measure(
        case(f"latency.beside.{load}"), replace(context(runner, []), folder=folder, known=known), 8 * MB
    )
    return found, runner.started[-1]


def test_discards_in_a_file_system_are_a_load_of_their_own(tmp_path: Path) -> None:
    """fio discards only on partitions and devices."""
    found, loads = discarding(tmp_path, 500_000_000, Path("/data/.ek-validate"))
    assert figures(found)["load-mbps"].value == 200.0
    assert figures(found)["p50"].value == 200.0
    reader, trims = loads
    assert (reader.arguments[0], reader.name) == ("ek-light-reader", "reader")
    assert trims.arguments[1:] == ["-I", discards.__file__, "/data/.ek-validate/discards"]
    # on a partition, fio discards
    assert [load.arguments[0] for load in discarding(tmp_path, 0, None)[1]] == ["ek-light-reader", "fio"]
    others = discarding(tmp_path, 0, Path("/data/.ek-validate"), "reads")[1]
    assert [load.arguments[0] for load in others] == ["ek-light-reader", "fio"]


class Streaming(Fixed):
    """A stream whose rate falls after 20 s. From then on, the reads alongside it take 90 ms instead of 0.2 ms."""

    def run(
        self, loads: Sequence[Load], *, settle: float, seconds: float, limit: int = 0, series: bool = False
    ) -> Window:
        self.started.append(list(loads))
        reads = ((n / 50, 90_000_000 if n / 50 >= 20 else 200_000) for n in range(30 * 50))
        (self.scratch / "reader.reads").write_text("".join(f"{at * 1e9:.0f} {ns}\n" for at, ns in reads))
        points = [(second + 1.0, 120.0 if second < 20 else 60.0) for second in range(30)]
        return Window(30.0, {"job": 0, "reader": 0}, {"job": limit, "reader": 0}, limit, False, True, points)

    def report(self, load: Load) -> str:
        done = {**DONE, "runtime": 30_000}
        return json.dumps({"jobs": [{"error": 0, "read": done, "write": SIDE, "trim": SIDE}]})


def test_a_stream_shows_how_long_reads_wait_after_its_rate_has_fallen(tmp_path: Path) -> None:
    runner = Streaming(tmp_path, {})
    outcome = measure.measure(case("device.sustained"), context(runner, []), 4096 * MB)
    found = figures(outcome)
    assert (found["first-mbps"].value, found["last-mbps"].value, found["fast-cache"].value) == (
        120.0,
        60.0,
        2.4,
    )
    # of all writes, and of the reads after the fall
    assert (found["p50"].value, found["max"].value) == (1.0, 5000.0)
    assert (found["read-p50"].value, found["read-max"].value) == (90_000.0, 90_000.0)
    assert outcome.series[0] == (1.0, 120.0)
    assert outcome.curve == [(1.0, 0.99), (5000.0, 1.0)]
    assert outcome.reads == [(90_000.0, 1.0)]
    # Each request waits for at most one write, so the figures do not depend on the scheduler.
    stream, reader = runner.started[0]
    assert "iodepth=1\n" in Path(stream.arguments[-1]).read_text()
    assert reader.name == "reader"


def test_the_fall_of_a_stream() -> None:
    series = [(float(s + 1), 100.0 if s < 6 else 80.0 if s == 6 else 60.0 + s % 2) for s in range(20)]
    assert measure.fall(series) in (6, 7)
    assert measure.fall([(1.0, 9.0), (2.0, 9.0), (3.0, 5.0), (4.0, 5.0)]) == 2


def test_a_file_system_that_discards_nothing_has_no_figures(tmp_path: Path) -> None:
    with pytest.raises(ValidateError, match=r"the file system discarded nothing in 2\.5 s"):
        discarding(tmp_path, 0, Path("/data/.ek-validate"))


@pytest.mark.parametrize(("subject", "must"), [("evenkeel", True), ("none", False)])
def test_a_ratio(tmp_path: Path, subject: str, must: bool) -> None:
    runner = Fixed(tmp_path, {"a": 196 * 10**6, "b": 98 * 10**6})
    found = figures(measure.measure(case("fair.read.1m"), context(runner, [], subject), 0))
    assert (found["ratio"].value, found["ratio"].target, found["ratio"].paper) == (2.0, (1.96, 2.04), 1.96)
    assert found["ratio"].must is must
    assert found["total"].value == 294.0
    assert found["longest"].value == 5.0
    assert [(load.name, load.weight) for load in runner.started[0]] == [("a", 200), ("b", 100)]


def test_a_starved_group_has_a_ratio(tmp_path: Path) -> None:
    found = figures(measure.measure(case("fair.read.1m"), context(Fixed(tmp_path, {"a": 10**8}), []), 0))
    assert found["ratio"].value == 99.0


@pytest.mark.parametrize("name", ["fair.read.1m", "fair.shares.3-2"])
def test_a_window_without_io_is_no_result(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValidateError, match="no group was served"):
        measure.measure(case(name), context(Fixed(tmp_path, {}), []), 0)


def test_shares_are_in_percent_of_what_the_weight_entitles_to(tmp_path: Path) -> None:
    runner = Fixed(tmp_path, {"a": 30 * 10**8, "b": 20 * 10**8, "c": 20 * 10**8, "d": 10 * 10**8})
    found = figures(measure.measure(case("fair.shares.3-2-2-1"), context(runner, []), 0))
    assert [found[f"share-{g}"].value for g in "abcd"] == [100.0] * 4
    uneven = Fixed(tmp_path, {"a": 10**9, "b": 10**9, "c": 10**9, "d": 10**9})
    found = figures(measure.measure(case("fair.shares.3-2-2-1"), context(uneven, []), 0))
    assert (found["share-a"].value, found["share-d"].value) == (66.67, 200.0)


def test_a_promise_compares_with_each_load_alone_without_a_scheduler(tmp_path: Path) -> None:
    runner = Fixed(tmp_path, {"small": 10**7, "medium": 5 * 10**7}, {"small": 2 * 10**7, "medium": 2 * 10**8})
    chosen: list[str] = []
    found = figures(measure.measure(case("promise.small-medium"), context(runner, chosen), 0))
    assert chosen == ["none", "evenkeel"]
    assert [[load.name for load in loads] for loads in runner.started] == [
        ["small"],
        ["medium"],
        ["small", "medium"],
    ]
    # parts 0.5 and 0.25 of what each gets alone; each is entitled to a half
    assert (found["least"].value, found["least"].target, found["least"].must) == (0.5, 0.95, True)
    assert [found[name].value for name in ("sum", "part-small", "part-medium")] == [75.0, 50.0, 25.0]


def test_a_promise_that_writes_shares_its_bytes_among_its_parts(tmp_path: Path) -> None:
    runner = Fixed(tmp_path, dict.fromkeys(("read", "write"), 10**7))
    chosen: list[str] = []
    found = measure.measure(case("promise.read-write"), context(runner, chosen), 1100 * MB)
    assert runner.limits == [300 * MB, 0, 300 * MB, 200 * MB, 300 * MB]
    assert found.written == 1100 * MB
    assert chosen == ["none", "evenkeel"] * 3
    # A device that was idle has collected garbage. Writes settle until that is used up, also alone.
    assert runner.settled == [12, 2, 12, 12, 12]


def test_a_device_that_writes_change_is_measured_before_and_after(tmp_path: Path) -> None:
    """The write gets 90 MB/s alone on a rested device, 40 before and 20 after, and 15 together: half of the mean."""

    class Worn(Fixed):
        def run(self, loads: Sequence[Load], **more: Any) -> Window:
            rate = {0: 9 * 10**7, 2: 4 * 10**7}.get(len(self.started), 2 * 10**7)
            self.alone = {"read": 2 * 10**7, "write": rate}
            return super().run(loads, **more)

    runner = Worn(tmp_path, {"read": 2 * 10**7, "write": 15 * 10**6})
    found = figures(measure.measure(case("promise.read-write"), context(runner, []), 600 * MB))
    assert (found["least"].value, found["sum"].value) == (1.0, 150.0)
    # Nobody knows how fast it was meanwhile: between 20 and 40 MB/s. This part is enough for the mean, 30 MB/s.
    assert found["least"].target == 0.95


def test_a_promise_is_not_judged_if_apps_use_the_device(tmp_path: Path) -> None:
    """They do not use it equally in all windows."""

    class Busy(Fixed):
        def run(self, loads: Sequence[Load], **more: Any) -> Window:
            window = super().run(loads, **more)
            return replace(window, others=10**9) if len(loads) > 1 else window

    runner = Busy(tmp_path, {"small": 10**7, "medium": 5 * 10**7})
    outcome = measure.measure(case("promise.small-medium"), context(runner, []), 0)
    least = figures(outcome)["least"]
    assert (least.target, least.must) == (None, False)
    assert "other programs used the device" in outcome.note


def test_the_scheduler_comes_back_if_a_load_fails(tmp_path: Path) -> None:
    class Failing(Fixed):
        def run(self, *_: Any, **__: Any) -> Window:
            raise ValidateError("a load failed")

    chosen: list[str] = []
    for name in ("promise.small-medium", "regulate.30"):
        with pytest.raises(ValidateError):
            measure.measure(case(name), context(Failing(tmp_path, {}), chosen), 0)
    assert chosen == ["none", "evenkeel"] * 2


def test_a_fixed_share(tmp_path: Path) -> None:
    runner = Fixed(tmp_path, {"fixed": 33 * 10**5, "rest": 10**7}, {"fixed": 10**7})
    found = figures(measure.measure(case("regulate.30"), context(runner, []), 0))
    accuracy = found["accuracy"]
    assert (accuracy.value, accuracy.target, accuracy.must) == (110.0, (95.0, 105.0), True)
    assert [[load.fixed for load in loads] for loads in runner.started] == [[30], [30, 0], [30]]


def test_a_device_that_changes_widens_the_bounds_of_a_fixed_share(tmp_path: Path) -> None:
    """The group gets 9 MB/s alone before, and 11 after. Nobody knows which rate is the whole meanwhile."""

    class Changing(Fixed):
        def run(self, loads: Sequence[Load], **more: Any) -> Window:
            self.alone = {"fixed": 11 * 10**6 if self.started else 9 * 10**6}
            return super().run(loads, **more)

    chosen: list[str] = []
    runner = Changing(tmp_path, {"fixed": 33 * 10**5, "rest": 10**7})
    found = figures(measure.measure(case("regulate.30"), context(runner, chosen), 0))
    assert (found["accuracy"].value, found["accuracy"].target) == (110.0, (85.5, 115.5))
    assert chosen == ["none", "evenkeel"] * 2


@pytest.mark.parametrize(
    ("value", "low", "found"),
    [
        (0.9, 0.9, 0.9),
        (1.0, 0.5, 0.95),
        (0.95, 0.5, 0.95),
        (0.7, 0.5, None),
        (0.5, 0.5, None),
        (0.49, 0.5, 0.5),
    ],
)
def test_a_bound_that_allows_for_much_makes_no_verdict(value: float, low: float, found: float | None) -> None:
    """The rates alone differ by half. Then a part between half of the share and the share may be either."""
    range_ = measure.changed(value, (0.95, math.inf), (low, math.inf))
    assert range_ == (None if found is None else (found, math.inf))


def test_a_device_that_changes_much_is_not_judged(tmp_path: Path) -> None:
    class Worn(Fixed):
        def run(self, loads: Sequence[Load], **more: Any) -> Window:
            self.alone = {"read": 2 * 10**7, "write": {2: 4 * 10**7}.get(len(self.started), 2 * 10**7)}
            return super().run(loads, **more)

    runner = Worn(tmp_path, {"read": 7 * 10**6, "write": 15 * 10**6})
    found = measure.measure(case("promise.read-write"), context(runner, []), 600 * MB)
    least = figures(found)["least"]
    assert (least.value, least.target, least.must) == (0.7, None, False)
    assert found.note == (
        "It is not judged: alone, write had between 20.0 and 40.0 MB/s, so the device changed meanwhile."
    )


def test_a_player_that_played_for_a_moment_is_not_judged(tmp_path: Path) -> None:
    """On a fast device, a load has written all its bytes in two seconds."""
    report = {"stalls": 0, "stall_ms": 0, "worst_stall_ms": 0, "read_max_us": 100}
    runner = Fixed(tmp_path, {"load": 10**9}, outputs={"player": report})
    found = measure.measure(case("stall.direct.write.100m"), context(runner, []), 2 * 10**9)
    count = figures(found)["count"]
    assert (count.value, count.target, count.must) == (0, None, False)
    assert "in 2.0 s" in found.note
    # but a player that stopped has stopped
    runner = Fixed(tmp_path, {"load": 10**9}, outputs={"player": {**report, "stalls": 1}})
    count = figures(measure.measure(case("stall.direct.write.100m"), context(runner, []), 2 * 10**9))["count"]
    assert (count.value, count.target, count.must) == (1, 0, True)


@pytest.mark.parametrize(
    ("fast", "slow", "expected"),
    [
        (220, 0, False),
        (218, 2, False),
        (217, 3, True),
        (214, 6, True),
        (213, 7, False),
        (210, 10, False),
        (985, 15, False),
    ],
)
def test_chance_decides_about_few_reads(fast: int, slow: int, expected: bool) -> None:
    """1 % of 220 reads are 2. Chance makes 3 or more in 38 % of runs, 7 or more in 0.8 %."""
    assert measure.undecided({100_000: fast, 900_000: slow}, 500.0) is expected


def test_a_reader_that_was_not_alone_is_the_basis_of_nothing(tmp_path: Path) -> None:
    class Busy(Fixed):
        def run(self, loads: Sequence[Load], **more: Any) -> Window:
            window = super().run(loads, **more)
            return replace(window, others=sum(window.read.values()) + 1)

    (tmp_path / "reader.reads").write_text("1000000000 200000\n" * 30)
    found = measure.measure(case("latency.alone"), context(Busy(tmp_path, {"reader": 200_000}), []), 0)
    assert (found.unusable, found.note) == ({"p99"}, measure.NOT_ALONE_NOTE)
    (tmp_path / "reader.reads").write_text("1000000000 200000\n" * 30)
    alone = Fixed(tmp_path, {"reader": 200_000})
    assert not measure.measure(case("latency.alone"), context(alone, []), 0).unusable
    # the bound rests on p50 alone then, and is lower
    load = case("latency.beside.reads").jobs[1]
    known = {("latency.alone", "p50"): 100.0, ("device.sequential-read.1m.qd1", "p50"): 900.0}
    assert measure.light_bound(known, load) == 2000.0
    assert measure.light_bound({**known, ("latency.alone", "p99"): 5000.0}, load) == 5000.0


def test_a_discard_that_did_not_end_is_no_basis(tmp_path: Path) -> None:
    runner = Fixed(tmp_path, {}, outputs={"load": {"bytes": 0, "seconds": 2.5, "each_us": 0}})
    with pytest.raises(ValidateError, match=r"no discard ended within 2\.5 s"):
        measure.measure(case("latency.beside.discards"), context(runner, []), 0)


def test_a_fixed_share_that_other_programs_disturb_is_not_judged(tmp_path: Path) -> None:
    class Busy(Fixed):
        def run(self, loads: Sequence[Load], **more: Any) -> Window:
            window = super().run(loads, **more)
            return replace(window, others=10**9) if len(self.started) == 3 else window

    runner = Busy(tmp_path, {"fixed": 33 * 10**5, "rest": 10**7}, {"fixed": 10**7})
    found = measure.measure(case("regulate.30"), context(runner, []), 0)
    accuracy = figures(found)["accuracy"]
    assert (accuracy.value, accuracy.target, accuracy.must) == (110.0, None, False)
    assert found.note == measure.DISTURBED_NOTE


def test_a_fixed_share_of_nothing_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(ValidateError, match=r"regulate\.30: the device completed no request"):
        measure.measure(case("regulate.30"), context(Fixed(tmp_path, {}), []), 0)


def test_stalls_of_a_player(tmp_path: Path) -> None:
    report = {"stalls": 2, "stall_ms": 300.04, "worst_stall_ms": 200, "read_max_us": 512000}
    runner = Fixed(tmp_path, {"load": 10**8}, outputs={"player": report}, seconds=30.0)
    found = figures(measure.measure(case("stall.direct.read.100m"), context(runner, []), 0))
    assert (found["count"].value, found["count"].target, found["count"].paper, found["count"].must) == (
        2,
        0,
        1.0,
        True,
    )
    assert (found["worst_ms"].value, found["read_max_ms"].value, found["load-mbps"].value) == (
        200,
        512.0,
        100.0,
    )
    player, load = runner.started[0]
    assert (player.weight, load.weight, player.lasting, load.lasting) == (200, 100, False, True)


def test_a_light_reader_waits_for_one_discard(tmp_path: Path) -> None:
    """The time of a discard is measured alone, in a run before."""
    found = figures(discarding(tmp_path, 500_000_000, Path("/data/.ek-validate"))[0])
    assert found["load-one"].value == 700.0
    assert (found["p99"].value, found["p99"].target, found["p99"].must) == (200.0, 2 * (700 + 100), True)
    # on a partition, fio times it
    assert figures(discarding(tmp_path, 0, None)[0])["p99"].target == 2 * (1 + 100)


def test_a_light_reader_waits_for_one_flush(tmp_path: Path) -> None:
    """fio's 100 writes with fsync took 1 s."""
    found, loads = discarding(tmp_path, 0, Path("/data/.ek-validate"), "flushes")
    assert figures(found)["load-one"].value == 10_000.0
    assert figures(found)["p99"].target == 2 * (10_000 + 100)
    assert [load.name for load in loads] == ["reader", "load"]


def test_the_bytes_of_flushes_are_those_of_both_runs(tmp_path: Path) -> None:
    (tmp_path / "reader.reads").write_text("1000000000 200000\n" * 30)
    runner = Fixed(tmp_path, {})
    found = measure.measure(case("latency.beside.flushes"), context(runner, []), 8 * MB)
    assert runner.limits == [2 * MB, 6 * MB]
    assert found.written == 8 * MB


def test_the_recorder_alongside_its_disturbances(tmp_path: Path) -> None:
    writes = int(cases.RECORDER_S / cases.RECORD_EVERY_S)
    times = {f"{name}_us": 4.0 for name in ("p50", "p99", "max")}
    report = {"writes": writes, "lost": 1, "durable": {"late": 2, "lost": 3, "max_us": 140_000.0}, **times}
    runner = Fixed(tmp_path, {}, outputs={"writer": report})
    for subject in ("evenkeel", "none"):
        found = measure.measure(case("rec.ek.allocate"), context(runner, [], subject), 0)
        of = {name: (f.value, f.target, f.must) for name, f in figures(found).items() if f.target is not None}
        assert of == {"late": (2, 0, True), "lost": (4, 0, True), "durable-max": (140.0, 1000, True)}
    writer, *others = runner.started[0]
    assert writer.arguments[1:4] == ["-I", recording.__file__, "/data/recorder"]
    assert [load.name for load in others] == ["disturb-truncate", "disturb-allocate"]
    runner.outputs = {"writer": {**report, "writes": 7}}
    with pytest.raises(ValidateError, match=f"the recorder wrote 7 of {writes} records"):
        measure.measure(case("rec.ek.quiet"), context(runner, []), 0)


def test_the_slowest_load_says_what_a_promise_can_write(tmp_path: Path) -> None:
    """Each window has a limit of its own. The runner writes a whole limit, but only half of the contended one."""
    runner = Halved(tmp_path, {"read": 10**8, "write": 10**8})
    found = measure.measure(case("promise.read-write"), context(runner, []), 1100 * MB)
    assert found.reached == pytest.approx(0.5, rel=0.01)


@dataclass
class Halved(Fixed):
    def run(
        self, loads: Sequence[Load], *, settle: float, seconds: float, limit: int = 0, series: bool = False
    ) -> Window:
        found = super().run(loads, settle=settle, seconds=seconds, limit=limit, series=series)
        return replace(found, total_written=limit // len(loads))


def test_a_recording_alongside_its_disturbances(tmp_path: Path) -> None:
    report = {f"write_{n}_us": 10.0 for n in ("p50", "p99", "p999", "max")} | {"bytes": 5 * MB}
    runner = Fixed(tmp_path, {}, outputs={"writer": report})
    found = measure.measure(case("rec.allocate"), context(runner, []), 0)
    assert [load.name for load in runner.started[0]] == ["writer", "disturb-truncate", "disturb-allocate"]
    measure.measure(case("rec.read"), context(runner, []), 0)
    assert runner.started[1][1].arguments == [
        "ek-disturb", "--duration=81s", "--json", "read", str(context(runner, []).path)
    ]  # fmt: skip
    assert (figures(found)["max"].paper, found.written) == (12482, 5 * MB)


def test_a_limit(tmp_path: Path) -> None:
    job = Job("job", "randread", "4k")
    found = figures(
        measure.measure(Case("device.x", "limit", "", (job,)), context(Fixed(tmp_path, {}), []), 0)
    )
    assert (found["iops"].value, found["p50"].value, found["p99"].value, found["max"].value) == (
        100.0,
        1.0,
        1.0,
        5000.0,
    )


# the page cache


@dataclass
class Streams(Fixed):
    """A runner of the case of the cache: its stream reads the test file in TOOK_S, and each planned read takes READ_NS."""

    took_s: float = 4.0
    read_ns: int = 20_000
    windows: list[float] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def run(
        self, loads: Sequence[Load], *, settle: float, seconds: float, limit: int = 0, series: bool = False
    ) -> Window:
        self.started.append(list(loads))
        self.windows.append(seconds)
        once = "time_based" not in (self.scratch / "stream.fio").read_text()
        self.texts.append((self.scratch / "stream.fio").read_text())
        log = "".join(f"{n * 10**6} {self.read_ns}\n" for n in range(1000))
        (self.scratch / "reader.reads").write_text(log)
        early = once and self.took_s < seconds
        return Window(self.took_s if early else seconds, {}, {}, 0, early)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


@dataclass
class Cached(priority.Files):
    """Priority files of which SHARES are in the cache, at one count after the other."""

    shares: list[float]
    calls: list[str] = field(default_factory=list)

    def load(self) -> None:
        self.calls.append("load")

    def drop(self) -> None:
        self.calls.append("drop")

    def cached(self) -> float:
        self.calls.append("count")
        return self.shares.pop(0)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Cached:
    found = Cached([0.123456, 0.99996])

    @contextlib.contextmanager
    def made(folder: Path) -> Iterator[Cached]:
        yield found

    monkeypatch.setattr(priority, "made", made)
    return found


def cache_context(runner: Streams, tmp_path: Path) -> Context:
    return replace(context(runner, []), folder=tmp_path, pool=tmp_path / "pool")


def test_files_of_a_priority_directory(tmp_path: Path, files: Cached) -> None:
    runner = Streams(tmp_path, {})
    with Pool(tmp_path / "pool") as pool:
        found = measure.measure(case("pool.directory"), cache_context(runner, tmp_path), cases.PRIORITY_BYTES)
        deadline = time.monotonic() + 5
        while len(pool.events) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert pool.events == ["held priority", "released priority"]
    shown = figures(found)
    assert (shown["kept"].value, shown["kept"].target, shown["kept"].must) == (100.0, 99.0, True)
    assert (shown["kept-without"].value, shown["kept-without"].target) == (12.35, None)
    assert [shown[name].value for name in ("p50", "p99", "p50-without", "p99-without")] == [20.0] * 4
    assert shown["target"].value == pytest.approx(67.1)
    assert found.written == cases.PRIORITY_BYTES
    assert found.curve
    # First the memory is filled and the files are measured without the pool. With it, the files enter the cache again.
    assert files.calls == ["load", "count", "drop", "load", "load", "count"]
    assert runner.windows == [90, 20, 90, 20]
    reader, stream = runner.started[0]
    assert (reader.name, stream.name, reader.weight) == ("reader", "stream", 100)
    assert all("invalidate=0" in text for text in runner.texts)
    assert not reader.moves, "its files are in the cache, so it may never read the device"
    assert reader.arguments[-priority.COUNT :] == [
        str(tmp_path / "priority" / str(n)) for n in range(priority.COUNT)
    ]


def test_a_window_is_as_long_as_a_pass_over_the_file(tmp_path: Path, files: Cached) -> None:
    runner = Streams(tmp_path, {}, took_s=35)
    with Pool(tmp_path / "pool"):
        measure.measure(case("pool.directory"), cache_context(runner, tmp_path), cases.PRIORITY_BYTES)
    assert runner.windows == [90, 35, 90, 35]


def test_the_pool_grows_before_the_files_are_measured(tmp_path: Path, files: Cached) -> None:
    runner = Streams(tmp_path, {})
    small = Cache("on", size_bytes=MB, cost_bytes=MB)
    with Pool(tmp_path / "pool", small, growth=4 * MB):
        found = measure.measure(case("pool.directory"), cache_context(runner, tmp_path), cases.PRIORITY_BYTES)
    assert figures(found)["kept"].must
    # The pool grows only with misses, so the files are read again before the second pass.
    assert files.calls == ["load", "count", "drop", "load", "load", "load", "count"]
    # the hold, six questions after the first pass, and then the first one after the second pass
    assert (runner.windows, len(runner.pauses)) == ([90, 20, 90, 90, 20], 6)


@pytest.mark.parametrize(
    "state",
    [
        Cache("on", target_bytes=20 * MB, size_bytes=20 * MB, cost_bytes=20 * MB),
        Cache("on", target_bytes=64 * MB, size_bytes=80 * MB, cost_bytes=64 * MB),
    ],
)
def test_a_pool_that_is_too_small_promises_nothing(tmp_path: Path, files: Cached, state: Cache) -> None:
    runner = Streams(tmp_path, {})
    with Pool(tmp_path / "pool", state):
        found = measure.measure(case("pool.directory"), cache_context(runner, tmp_path), cases.PRIORITY_BYTES)
    kept = figures(found)["kept"]
    assert (kept.value, kept.target, kept.must) == (100.0, None, False)
    assert runner.windows == [90, 20, *[90] * cases.GROWTH_PASSES, 20]


def test_a_pool_that_shrinks_meanwhile_promises_nothing(tmp_path: Path, files: Cached) -> None:
    with Pool(tmp_path / "pool") as pool:

        def count() -> float:
            if "drop" in files.calls:  # the files are held
                pool.state = replace_struct(pool.state, target_bytes=MB)
            return Cached.cached(files)

        files.cached = count  # type: ignore[method-assign]
        found = measure.measure(
            case("pool.directory"), cache_context(Streams(tmp_path, {}), tmp_path), cases.PRIORITY_BYTES
        )
    assert (figures(found)["kept"].value, figures(found)["kept"].must) == (100.0, False)


def test_a_device_that_is_too_slow_for_the_file(tmp_path: Path, files: Cached) -> None:
    runner = Streams(tmp_path, {}, took_s=100)
    with Pool(tmp_path / "pool") as pool:
        with pytest.raises(ValidateError, match=r"read only 0 of 1074 MB of the test file in 90 s"):
            measure.measure(case("pool.directory"), cache_context(runner, tmp_path), cases.PRIORITY_BYTES)
        assert pool.events == []


def test_a_pool_that_was_restarted_meanwhile_is_no_result(tmp_path: Path, files: Cached) -> None:
    with Pool(tmp_path / "pool", lost=True), pytest.raises(ValidateError, match="was restarted meanwhile"):
        measure.measure(
            case("pool.directory"), cache_context(Streams(tmp_path, {}), tmp_path), cases.PRIORITY_BYTES
        )


def test_files_are_not_made_with_half_of_their_bytes(tmp_path: Path, files: Cached) -> None:
    with pytest.raises(ValidateError, match="it writes 34 MB, and the budget has 20 MB left"):
        measure.measure(case("pool.directory"), cache_context(Streams(tmp_path, {}), tmp_path), 20 * 10**6)
    assert files.calls == []


def test_a_full_file_system_leaves_out_the_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "0"))

    monkeypatch.setattr(priority, "made", full)
    with pytest.raises(ValidateError, match=r"pool.directory: .*/priority/0: No space left on device"):
        measure.measure(
            case("pool.directory"), cache_context(Streams(tmp_path, {}), tmp_path), cases.PRIORITY_BYTES
        )
