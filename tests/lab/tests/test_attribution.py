# SPDX-License-Identifier: Apache-2.0
"""The truth of the rows attribution.*, and how it is read from a trace."""

from __future__ import annotations

import base64
import gzip
import struct
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import attribution, experiments, trace
from lab.model import Output, flashsim
from lab.promise import Case, Job

CASE = Case("test", flashsim("pipe"), (Job("a", "read", "64k"), Job("b", "read", "64k")))
SLICE = 64 * 1024 * 2048 // 8  # sectors
MS = 1_000_000
NUMBERS = {
    "block_rq_insert": 10,
    "block_rq_issue": 11,
    "block_rq_complete": 12,
    "block_rq_merge": 13,
    "block_rq_requeue": 14,
}
FORMATS = (
    "".join(
        f"name: {name}\nID: {number}\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
        "\tfield:sector_t sector;\toffset:8;\tsize:8;\tsigned:0;\n"
        '\tfield:char rwbs[8];\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: "%u", REC->sector\n'
        for name, number in NUMBERS.items()
    )
    + "name: ek_gate\nID: 20\nformat:\n"
    "\tfield:u64 cgroup;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:u64 waited;\toffset:16;\tsize:8;\tsigned:0;\n"
    "name: print\nID: 5\nformat:\n\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
    "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n"
)
# time in ns, event, sector; a sample's sector is its number
Event = tuple[int, str, int]


def record(name: str, sector: int) -> bytes:
    if name == "sample":
        return struct.pack("<HxxxxxxQ", 5, 0) + f"sample{sector}\n".encode().ljust(16, b"\0")
    return struct.pack("<HxxxxxxQ8s", NUMBERS[name], sector, b"R")


def page(events: Sequence[tuple[int, bytes]], begin: int) -> bytes:
    """A page of the ring buffer. Long differences of times get an event of their own."""
    data, last = b"", begin
    for time, content in events:
        delta = time - last
        if delta >= 1 << 27:
            data += struct.pack("<II", 30 | (delta & 0x7FFFFFF) << 5, delta >> 27)
            delta = 0
        data += struct.pack("<I", len(content) // 4 | delta << 5) + content
        last = time
    return struct.pack("<QQ", begin, len(data)) + data.ljust(trace.PAGE - 16, b"\0")


def output(events: Sequence[Event], **more: str) -> Output:
    made = b"".join(
        page([(time, record(name, sector)) for time, name, sector in events[at : at + 50]], events[at][0])
        for at in range(0, len(events), 50)
    )
    reported = base64.encodebytes(gzip.compress(made)).decode()
    return Output({"trace": reported, "formats": FORMATS, "cgroups": "7\n9", **more})


def requests(start: int, count: int) -> list[Event]:
    """Requests of `a` and `b`, one of each per ms. `a` is served while `b` waits, then `b`."""
    events: list[Event] = []
    for n in range(count):
        now = start + n * MS
        events += [
            (now, "block_rq_insert", n),
            (now + 100, "block_rq_issue", n),
            (now + 100_000, "block_rq_insert", SLICE + n),
            (now + 600_000, "block_rq_complete", n),
            (now + 600_000, "block_rq_issue", SLICE + n),
            (now + 900_000, "block_rq_complete", SLICE + n),
        ]
    return events


def test_each_instant_is_divided_among_the_requests_in_the_device() -> None:
    changes = [
        (0, "victim", 2, 0), (0, "a", 0, 1), (100, "b", 0, 3), (200, "a", 0, -1), (300, "b", 0, -3),
        (400, "victim", -1, 1), (500, "victim", -1, -1),
    ]  # fmt: skip
    waits, parts = attribution.truth(changes, {"victim": (0, 1000)})
    # 100 ns of a alone, 100 of a and three of b, 100 of b alone, 100 of nothing, 100 of the victim itself
    assert waits["victim"] == 900
    assert parts["victim", "a"] == 200 + 50
    assert parts["victim", "b"] == 150 + 200
    assert parts["victim", "victim"] == 200 + 100


def test_only_the_window_counts() -> None:
    changes = [(0, "victim", 1, 0), (0, "a", 0, 1), (700, "a", 0, -1), (800, "victim", -1, 0)]
    waits, parts = attribution.truth(changes, {"victim": (200, 400)})
    assert (waits["victim"], parts["victim", "a"]) == (200, 200)
    waits, parts = attribution.truth(changes, {"victim": (600, 1000)})
    assert (waits["victim"], parts["victim", "a"], parts["victim", "victim"]) == (200, 100, 100)


def test_a_trace_that_begins_too_late_is_refused() -> None:
    with pytest.raises(ValueError, match="only in part"):
        attribution.truth([(0, "a", 0, -1)], {"a": (0, 10)})


def test_an_error_is_relative_to_the_entry_or_to_a_part_of_the_row() -> None:
    waits = {"v": 1e9}
    true = {("v", "a"): 0.6e9, ("v", "b"): 0.01e9, ("v", "v"): 0.39e9}
    assert attribution.error(true, dict(true), waits, {}) == 0
    assert attribution.error(true, true | {("v", "a"): 0.66e9}, waits, {}) == pytest.approx(0.1)
    # a small entry, and one that should not exist
    assert attribution.error(true, true | {("v", "b"): 0.02e9}, waits, {}) == pytest.approx(0.2)
    assert attribution.error(true, true | {("v", "c"): 0.05e9}, waits, {}) == pytest.approx(1)
    # a missing entry
    assert attribution.error(true, {("v", "b"): 0.01e9, ("v", "v"): 0.39e9}, waits, {}) == 1
    # 1 µs for each request
    assert attribution.error(true, true | {("v", "b"): 0.02e9}, waits, {"v": 9000}) == pytest.approx(0.02)


def test_a_trace_is_read_back() -> None:
    events = requests(10**12, 300)
    seen = attribution.recorded(CASE, output(events), {})
    assert len(seen.changes) == len(events)
    waits, parts = attribution.truth(seen.changes, dict.fromkeys("ab", (10**12, 10**12 + 300 * MS)))
    assert waits == {"a": 300 * 100, "b": 300 * 500_000}
    assert parts["b", "a"] == 300 * 500_000
    assert parts["a", "b"] == 0


def test_long_pauses_padding_and_long_events_are_read() -> None:
    first, second = record("block_rq_insert", 1), record("block_rq_issue", 1)
    data = struct.pack("<I", len(first) // 4 | 5 << 5) + first
    data += struct.pack("<II", 29 | 1 << 5, 12) + b"discarded..."[:8]
    data += struct.pack("<II", 31 | 3 << 5, 9)  # an absolute time: 3 + (9 << 27)
    data += struct.pack("<II", 0, len(second) + 4) + second
    data += struct.pack("<I", 29)  # the rest of the page is empty
    content = struct.pack("<QQ", 1000, len(data) + 40) + data.ljust(trace.PAGE - 16, b"\xff")
    assert list(trace.records(content)) == [(1005, first), (3 + (9 << 27), second)]


def test_a_page_that_has_lost_events_is_refused() -> None:
    with pytest.raises(ValueError, match="lost"):
        list(trace.records(struct.pack("<QQ", 0, 8 | 1 << 31).ljust(trace.PAGE, b"\0")))


def test_merged_and_refused_requests_wait_only_once() -> None:
    events = [
        (1, "block_rq_merge", 100),  # before its insertion
        (2, "block_rq_insert", 200),
        (3, "block_rq_insert", 300),
        (4, "block_rq_merge", 300),
        (5, "block_rq_requeue", 200),  # the device had no tag for it
        # a bio was merged at its front
        (6, "block_rq_issue", 190),
        (7, "block_rq_requeue", 190),  # the device gave it back
        (8, "block_rq_issue", 190),
        (9, "block_rq_complete", 190),
        # two requests for the same sector
        (10, "block_rq_insert", 50),
        (11, "block_rq_insert", 50),
        (12, "block_rq_issue", 50),
        (13, "block_rq_requeue", 50),
        (14, "block_rq_issue", 50),
    ]  # fmt: skip
    seen = attribution.recorded(CASE, output(events), {})
    waiting = inside = 0
    states = []
    for _, _, more_waiting, more_inside in seen.changes:
        waiting, inside = waiting + more_waiting, inside + more_inside
        states.append((waiting, inside))
    assert states == [(1, 0), (2, 0), (1, 0), (0, 1), (1, 0), (0, 1), (0, 0), (1, 0), (2, 0), (1, 1), (0, 2)]


def sampled(parts: Mapping[int, int]) -> Output:
    """A run in which `b` waits half of the time for `a`; after second n, its file has n times PARTS, µs."""
    events: list[Event] = []
    samples = {}
    for n in range(attribution.READINGS):
        events += [(n * 10**9, "sample", n), (n * 10**9 + 1, "sample", n)]
        events += requests(n * 10**9 + 2, 10)
        listed = ",".join(f"{cgroup}:{n * us}" for cgroup, us in parts.items()) or "-"
        waits = f"waited_us={n * 5000} waited_for={listed}"
        samples[f"sample{n}"] = f"259:0 rios=1 waited_us={n} waited_for=-\n259:0 rios=1 {waits}"
    return output(events, **samples)


def test_a_right_matrix_has_no_error_and_a_wrong_one_fails() -> None:
    figures = {f.metric: f.value for f in attribution.figures(CASE, sampled({7: 5000}))}
    assert figures == {
        "worst": 0,
        "rows": pytest.approx(0, abs=1e-3),
        "waiting": pytest.approx(0.005, abs=5e-3),
    }
    figures = {f.metric: f.value for f in attribution.figures(CASE, sampled({7: 4400}))}
    assert figures["worst"] > 0.10
    figures = {f.metric: f.value for f in attribution.figures(CASE, sampled({}))}
    assert figures["worst"] > 0.9


def test_the_estimate_sums_the_readings_after_the_second() -> None:
    texts = [
        f"259:0 waited_us={n * 10} waited_for=9:{n * 4}\n259:0 waited_us={n} waited_for=-"
        for n in (100, *range(100, 111))
    ]
    assert len(texts) == attribution.READINGS
    found = attribution.estimate(texts, {7: "a", 9: "b"})
    assert found == {("a", "b"): 40_000, ("a", "a"): 60_000, ("b", "b"): 10_000}


def test_all_cases_have_their_groups_in_different_slices() -> None:
    known = [e for name, e in experiments.load().items() if name.startswith("attribution.")]
    assert len(known) >= 8
    assert sum(e.quick for e in known) == 1
    for e in known:
        assert e.device is not None
        assert e.device.slices > e.script.count("in_group")


def test_shares_of_the_device_are_exact_fractions() -> None:
    """With three requests in the device, no time is lost."""
    changes = [(0, "v", 1, 0), (0, "a", 0, 2), (0, "b", 0, 1)]
    _, parts = attribution.truth(changes, {"v": (0, 9)})
    assert Fraction(parts["v", "a"]) == 6
    assert parts["v", "b"] == 3
