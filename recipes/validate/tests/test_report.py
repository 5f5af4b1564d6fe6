# SPDX-License-Identifier: Apache-2.0
"""The report: its file, its verdicts, its sentences and its page."""

import contextlib
import html as html_
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from evenkeel_report import compare
from evenkeel_report.row import Better, Figure, Row
from evenkeel_validate import __main__ as cli
from evenkeel_validate import measure, promises, report, report_page, summary
from evenkeel_validate.cases import Job
from evenkeel_validate.errors import ValidateError
from evenkeel_validate.measure import Outcome
from evenkeel_validate.report import Report
from hypothesis import given
from hypothesis import strategies as st


def empty(**more: Any) -> Report:
    return Report(
        "20260131-120000",
        "1.0",
        "full",
        "2026-01-31T12:00:00Z",
        subject="evenkeel",
        kernel="6.12",
        device="cid",
        **more,
    )


def row(id_: str, value: float, target: Any = None, better: Better | None = None, must: bool = True) -> Row:
    return Row(id_, value, "", better, target, None, "host", "6.12", "evenkeel", must)


def judged(*rows: Row, subject: str = "evenkeel") -> dict[str, promises.Promise]:
    """The promises by the first two words of their titles."""
    return {" ".join(p.title.split()[:2]): p for p in promises.judge(rows, subject)}


def test_figures_of_other_schedulers_join_the_rows_of_the_subject() -> None:
    found = empty()
    found.add(
        "fair.read.1m",
        Outcome([Figure("ratio", 2.0, target=(1.9, 2.1), must=True)], curve=[(1, 1.0)], written=5),
        "evenkeel",
        "t",
    )
    found.add(
        "fair.read.1m",
        Outcome([Figure("ratio", 1.0), Figure("other", 3.0)], curve=[(2, 1.0)], reads=[(3, 1.0)], written=6),
        "bfq",
        "t",
    )
    assert [(r.id, r.value, r.baselines) for r in found.rows] == [("fair.read.1m.ratio", 2.0, {"bfq": 1.0})]
    assert found.curves == {
        "fair.read.1m": {"evenkeel": [(1, 1.0)], "bfq": [(2, 1.0)]},
        "fair.read.1m.read": {"bfq": [(3, 1.0)]},
    }
    assert found.written == 11


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    found = empty(state="partial", reason="cancelled", skipped={"x": "y"})
    found.add(
        "a.b",
        Outcome([Figure("c", 1.5, "MB/s", "higher", (1.0, 2.0), 1.2)], [(1.0, 0.5)], [(1.0, 9.5)], "note"),
        "evenkeel",
        "t",
    )
    report.save(found, tmp_path)
    assert report.read(tmp_path) == found
    assert report.read(tmp_path / "report.json") == found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not JSON"),
        (b"[]", "format None"),
        (b'{"format": 99}', "the report has the format 99; this version of ek-validate reads the format 1"),
        (b'{"format": 1}', "is damaged"),
        (
            b'{"format": 1, "id": "a", "version": "", "profile": "", "started": "", "rows": [{"id": 3}]}',
            "not a row of results",
        ),
    ],
)
def test_a_damaged_report_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(ValidateError, match=re.escape(words)):
        report.read(tmp_path)
    with pytest.raises(ValidateError, match="No such file"):
        report.read(tmp_path / "absent")


def test_a_promise_is_held_if_all_its_figures_are() -> None:
    found = judged(row("fair.read.1m.ratio", 2.0, (1.9, 2.1)), row("fair.read.1m.total", 9.0))
    assert (found["Bandwidth follows"].held, found["Bandwidth follows"].verdict) == (
        True,
        "Held: 1 of 1 figure is within the bounds.",
    )
    assert found["Bandwidth follows"].evidence == "fair.read.1m.ratio is 2, bound 1.9 … 2.1"


def test_a_broken_promise_shows_what_broke_it_first() -> None:
    rows = [row(f"fair.read.{mb}m.ratio", 2.0, (1.9, 2.1)) for mb in range(1, 7)]
    found = judged(*rows, row("fair.read.100m.ratio", 1.0, (1.9, 2.1)))["Bandwidth follows"]
    assert (found.held, found.verdict) == (False, "Broken: 1 of 7 figures is outside the bounds.")
    assert found.evidence.startswith("fair.read.100m.ratio is 1, bound 1.9 … 2.1; ")
    assert found.evidence.endswith("; and 3 more")


def test_a_board_without_evenkeel_is_told_so() -> None:
    """The weights of a board with the scheduler `none` do not work. The verdict must not read like a defect of evenkeel."""
    found = judged(row("fair.read.1m.ratio", 1.0, (1.9, 2.1), must=False), subject="none")[
        "Bandwidth follows"
    ]
    assert found.held is None
    assert found.verdict == (
        "Not judged: this device has the scheduler none, which promises nothing."
        " 0 of 1 figure is within the bounds of evenkeel."
    )


def test_the_page_pool_promises_its_part_with_any_scheduler() -> None:
    kept = row("pool.directory.kept", 100.0, 99.0)
    found = judged(kept, subject="none")["Files of"]
    assert (found.held, found.verdict) == (True, "Held: 1 of 1 figure is within the bounds.")
    broken = judged(row("pool.directory.kept", 42.0, 99.0))["Files of"]
    assert (broken.held, broken.evidence) == (False, "pool.directory.kept is 42, bound ≥ 99")
    # a pool that is smaller than the files promises nothing, and the verdict says so
    small = judged(row("pool.directory.kept", 42.0))["Files of"]
    assert (small.held, small.verdict) == (
        None,
        "Not judged, because the page pool was smaller than its files.",
    )


def test_the_summary_compares_the_cache_with_and_without_the_pool() -> None:
    found = empty()
    found.rows = [row("pool.directory.kept", 100.0), row("pool.directory.kept-without", 12.3)]
    assert summary.sentences(found) == [
        "While a file larger than the page cache was read, 100 % of the files of a priority directory stayed in the cache."
        " Without the page pool, 12.3 % stayed."
    ]
    found.rows = found.rows[:1]
    assert summary.sentences(found) == ["The figures show what was measured."]


def test_what_was_not_measured_is_not_judged() -> None:
    assert all(p.held is None for p in promises.judge([], "evenkeel"))


def test_the_recorder_is_judged_with_every_scheduler() -> None:
    rows = [row(f"rec.ek.quiet.{what}", 0.0, 0.0, "lower") for what in ("late", "lost")]
    for subject in ("evenkeel", "none"):
        assert (
            judged(*rows, subject=subject)["The recorder"].verdict
            == "Held: 2 of 2 figures are within the bounds."
        )
    rows += [row("rec.ek.allocate.late", 3.0, 0.0, "lower")]
    assert judged(*rows, subject="none")["The recorder"].held is False


def test_the_summary_says_whether_flushes_and_discards_hold_up_others_and_what_the_recorder_lost() -> None:
    found = empty()
    found.rows = [
        row("latency.beside.flushes.p99", 4000.0, 5000.0, "lower"),
        row("latency.beside.discards.p99", 90_000.0, 30_000.0, "lower"),
        *(
            row(f"rec.ek.{name}.{what}", 0.0, 0.0, "lower")
            for name in ("quiet", "read")
            for what in ("late", "lost")
        ),
        row("rec.ek.quiet.durable-max", 130.0, 1000.0, "lower"),
        row("rec.ek.read.durable-max", 250.0, 1000.0, "lower"),
    ]
    assert summary.sentences(found) == [
        "Alongside flushes of an app, 99 of 100 small reads took at most 4 ms, which meets the bound of 5 ms."
        " Alongside discards of an app, 99 of 100 small reads took at most 90 ms, which misses the bound of 30 ms.",
        "The recorder lost no record and was never late: each was on the flash within 250 ms.",
    ]
    found.rows = [*found.rows[2:], row("rec.ek.allocate.late", 3.0, 0.0)]
    assert summary.sentences(found) == ["The recorder lost 0 records, and 3 were late."]


def test_a_promise_without_a_bound_says_so() -> None:
    """Without the case latency.alone, a light reader has no bound. Its cases were measured all the same."""
    rows = [row("latency.beside.flushes.p99", 100.0)]
    found = next(p for p in promises.judge(rows, "evenkeel") if "flushes" in p.title)
    assert (found.held, found.verdict) == (
        None,
        "Not judged. The notes say why.",
    )


def test_each_promise_has_cases_that_judge_it() -> None:
    """A pattern that no case matches would make a promise that can never be broken."""
    ids = (
        "fair.read.1m.ratio",
        "promise.three.least",
        "regulate.30.accuracy",
        "stall.direct.read.100m.count",
        "latency.beside.reads.p99",
        "latency.beside.flushes.p99",
        "latency.beside.discards.p99",
        "rec.ek.allocate.late",
        "pool.directory.kept",
    )
    found = promises.judge([row(i, 5.0, 1.0, "lower") for i in ids], "evenkeel")
    assert [p.held for p in found] == [False] * len(promises.PROMISES)


def test_the_summary_says_what_a_buyer_wants_to_know() -> None:
    found = empty(
        facts=[{"title": "life time, type A", "value": "0 to 10 % used", "source": "", "reason": ""}]
    )
    found.rows = [
        row("device.sequential-read.1m.qd4.mbps", 250), row("device.sequential-write.1m.qd4.mbps", 120),
        row("device.random-read.4k.qd1.iops", 5000), row("fair.read.1m.ratio", 2.0, (1.9, 2.1)),
        row("stall.direct.read.100m.count", 2, 0, "lower"), row("stall.direct.read.100m.worst_ms", 140),
        row("stall.direct.write.100m.count", 0, 0, "lower"), row("device.sustained.first-mbps", 120),
        row("device.sustained.last-mbps", 30), row("device.sustained.fast-cache", 3.5),
        row("latency.beside.writes.max", 140000),
    ]  # fmt: skip
    assert summary.sentences(found) == [
        "At best, this device reads 250 MB/s over 3 s and writes 120 MB/s in a burst of at most 134 MB. It serves 5,000 random"
        " reads of 4 KiB a second, one at a time.",
        "With the scheduler evenkeel, this device holds the ratio 2:1 at every size that was measured.",
        "A video player stopped alongside 1 of 2 kinds of load, for up to 140 ms.",
        "After 3.5 GB of writes, the rate falls from 120 to 30 MB/s.",
        "Alongside a stream of writes, the slowest small read took 140 ms.",
        "The device reports that 0 to 10 % of its life time is used.",
    ]
    found.rows = [
        row("fair.write.100m.ratio", 1.15, (1.9, 2.1)),
        row("stall.direct.read.1m.count", 0, 0, "lower"),
    ]
    assert summary.sentences(found)[:2] == [
        "With the scheduler evenkeel, this device does not hold the ratio 2:1 for writes of 100 MB (1.15:1).",
        "A video player never stopped alongside 1 kind of load.",
    ]
    assert summary.sentences(empty()) == ["Nothing was measured."]


def test_the_summary_says_whether_two_and_four_groups_get_their_shares() -> None:
    rows = [
        row(f"fair.shares.{case}.share-{group}", 100.0, (98, 102))
        for case in ("read.1m.3-2", "3-2", "read.10m.3-2-2-1", "3-2-2-1")
        for group in "ab"
    ]
    said = "Groups with the weights 3:2 and 3:2:2:1 each get their share, for blocks of 1 to 100 MB."
    assert said in summary.sentences(empty(rows=rows))
    rows += [
        row("fair.shares.write.10m.3-2-2-1.share-c", 90.0, (98, 102)),
        row("fair.shares.write.10m.3-2-2-1.share-d", 100.0, (98, 102)),
    ]
    said = "Not all groups get their share with the weights 3:2:2:1 for writes of 10 MB."
    assert said in summary.sentences(empty(rows=rows))
    # a window with too few blocks is not judged
    assert summary.sentences(empty(rows=[row("fair.shares.3-2.share-a", 90.0)]))[0].startswith("The figures")


def test_a_ratio_that_was_not_judged_is_not_called_held() -> None:
    found = empty(rows=[row("fair.read.1m.ratio", 2.0, (1.9, 2.1)), row("fair.read.100m.ratio", 3.0)])
    assert summary.sentences(found) == [
        "With the scheduler evenkeel, this device holds the ratio 2:1 for reads of 1 MB. At the other sizes, the I/Os were too"
        " few to be judged."
    ]
    found.rows = found.rows[1:]
    assert summary.sentences(found) == ["The figures show what was measured."]


def test_a_verdict_says_what_it_does_not_rest_on() -> None:
    rows = [
        row("fair.read.1m.ratio", 2.0, (1.9, 2.1)),
        *(row(f"fair.read.{n}m.ratio", 1.0) for n in (30, 50)),
    ]
    skipped = {"fair.write.8m": "x", "fair.read.100m on bfq": "x", "latency.alone": "x"}
    found = promises.judge([*rows, row("fair.read.1m.total", 9.0)], "evenkeel", skipped)[0]
    assert found.verdict == (
        "Held: 1 of 1 figure is within the bounds. 2 figures could not be judged and 1 case was not measured."
    )


def test_the_summary_tells_the_worst_of_all_turns() -> None:
    """The profile soak measures again after long streams of writes."""
    stream, light = "device.sustained.", "latency.beside.writes."
    found = empty()
    found.rows = [
        row("fair.read.100m.ratio", 2.0, (1.9, 2.1)),
        row("fair.read.100m.turn2.ratio", 9.0),
        row("fair.read.100m.turn3.ratio", 1.0, (1.9, 2.1)),
        row("fair.read.100m.turn4.ratio", 2.2, (1.9, 2.1)),
        *(row(f"{stream}{n}-mbps", v, better="higher") for n, v in (("first", 100.0), ("last", 30.0))),
        row(f"{stream}fast-cache", 3.0),
        row(f"{stream}max", 90_000.0, better="lower"),
        # later turns begin after the fall
        *(row(f"{stream}turn1.{n}-mbps", v, better="higher") for n, v in (("first", 30.0), ("last", 5.0))),
        *(
            row(f"{stream}turn1.{n}", v, better="lower")
            for n, v in (("max", 140_000.0), ("read-max", 90_000.0))
        ),
        *(row(f"{light}turn{n}.max", v, better="lower") for n, v in ((1, 9000.0), (2, 7000.0))),
    ]
    assert summary.sentences(found) == [
        "With the scheduler evenkeel, this device does not hold the ratio 2:1 for reads of 100 MB (1:1).",
        "After 3 GB of writes, the rate falls from 100 to 5 MB/s. Meanwhile, a single write took up to 140 ms and a small read"
        " up to 90 ms.",
        "Alongside a stream of writes, the slowest small read took 9 ms.",
    ]


def test_a_player_that_was_not_judged_is_not_called_without_stalls() -> None:
    found = empty(
        rows=[
            row("stall.direct.write.100m.count", 0.0),
            row("stall.direct.read.100m.count", 0.0, 0.0, "lower"),
        ]
    )
    assert summary.sentences(found) == ["A video player never stopped alongside 1 kind of load."]
    assert summary.sentences(empty(rows=found.rows[:1])) == ["The figures show what was measured."]


def test_a_note_of_another_scheduler_replaces_no_note() -> None:
    found = empty()
    found.add("fair.read.1m", Outcome([], note="first"), "evenkeel", "t")
    found.add("fair.read.1m", Outcome([], note="second"), "bfq", "t")
    assert found.notes == {"fair.read.1m": "first", "fair.read.1m on bfq": "second"}


@given(
    st.dictionaries(
        st.sampled_from(sorted(Report.__dataclass_fields__)),
        st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.just(10**400),
                     lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2)),
    )
)  # fmt: skip
def test_a_report_with_any_content_is_read_or_refused(content: dict[str, Any]) -> None:
    """A report that is read can be shown, too."""
    good = {**empty(rows=[row("fair.read.1m.ratio", 2.0, (1.9, 2.1))]).as_json(), "unknown": 1}
    with contextlib.suppress(ValidateError):
        found = Report.from_json({**good, **content})
        summary.sentences(found)
        found.promises()
        report_page.html(found)
        cli._shown(found)
        assert sum(found.reached.values()) is not None


@pytest.mark.parametrize(
    "part", [{"announced": {"written": "x"}}, {"reached": {"a": "x"}}, {"notes": {"a": 1}}, {"facts": [{}]}]
)
def test_a_report_with_a_part_of_another_type_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(ValidateError, match="the report is damaged"):
        Report.from_json({**empty().as_json(), **part})


def test_a_newer_report_is_read() -> None:
    content = empty(rows=[row("fair.read.1m.ratio", 2.0, (1.9, 2.1))]).as_json()
    newer = {**content, "new": 1, "rows": [{**content["rows"][0], "new": 1}]}
    assert Report.from_json(newer) == Report.from_json(content)


def test_json_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("[" * 100_000)
    with pytest.raises(ValidateError, match="is not JSON"):
        report.read(tmp_path)


def test_validations_are_in_the_order_of_their_numbers() -> None:
    ids = ["20260131-120000-10", "20260131-120000", "20260131-120000-2", "20250131-120000"]
    assert sorted(ids, key=report.order) == [ids[3], ids[1], ids[2], ids[0]]


def test_a_rate_of_a_burst_is_not_the_rate_of_the_device() -> None:
    found = empty()
    found.rows = [
        row("device.sequential-write.1m.qd4.mbps", 120),
        row("device.sequential-write.1m.qd1.mbps", 90),
    ]
    text = (
        "At best, this device writes 120 MB/s in a burst of at most {} MB."
        " A longer stream of writes was not measured, and may be slower."
    )
    assert summary.sentences(found) == [text.format(134)]
    found.profile = "quick"
    assert summary.sentences(found) == [text.format(67)]
    # of another version of ek-validate
    found.profile = "other"
    assert summary.sentences(found) == [text.format("").replace(" in a burst of at most  MB", "")]
    found.rows = [row("device.random-read.4k.qd1.iops", 5000)]
    assert summary.sentences(found) == [
        "This device serves 5,000 random reads of 4 KiB a second, one at a time."
    ]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"life time, type A": "0 to 10 % used", "life time, type B": "90 to 100 % used", "spare blocks": "urgent: 90 % used"},
         "The device reports that 90 to 100 % of its life time is used. Of its spare blocks, the device reports: 90 % used."
         " Replace the device soon."),
        ({"life time, type A": "more than 100 % used", "life time, type B": "90 to 100 % used", "spare blocks": "normal"},
         "The device reports that more than 100 % of its life time is used."),
        ({"life time, type B": "20 to 30 % used"}, "The device reports that 20 to 30 % of its life time is used."),
        ({"life time used, %": "7", "health": "passed"}, "The device reports that 7 % of its life time is used."),
        ({"health": "FAILED"}, "The device reports that it fails. Save its data, and replace it."),
    ],
)  # fmt: skip
def test_the_worst_that_a_device_reports_is_in_the_summary(facts: dict[str, str], words: str) -> None:
    found = empty(facts=[{"title": t, "value": v, "source": "", "reason": ""} for t, v in facts.items()])
    assert summary.sentences(found) == [words]


def test_the_conditions_of_two_validations_that_differ_are_named() -> None:
    before = empty(target={"span": 168_000_000})
    assert report.differences(before, before) == []
    after = empty(target={"span": 1_074_000_000}, exclusive=True)
    after.kernel, after.subject, after.profile = "6.13", "none", "quick"
    assert report.differences(before, after) == [
        "The kernel is 6.12 in the first report, and 6.13 in the second one.",
        "The scheduler is evenkeel in the first report, and none in the second one.",
        "The profile is full in the first report, and quick in the second one.",
        "The size of the test file is 168 MB in the first report, and 1,074 MB in the second one.",
        "Apps were paused during the second validation only.",
    ]
    # a report that ended before its size was known
    assert report.differences(before, empty()) == [
        "The size of the test file is 168 MB in the first report, and not known in the second one."
    ]


def changed(id_: str, was: float, now: float) -> list[str]:
    before, after = row(id_, was, better="lower", must=False), row(id_, now, better="lower", must=False)
    return [c.verdict for c in compare.compare([before], [after], by_kernel=False).changed]


@pytest.mark.parametrize(
    ("metric", "within", "beyond"),
    [("mbps", 104, 106), ("part-small", 96, 94), ("p50", 109, 111), ("p99", 129, 131), ("p99", 71, 69), ("p999", 199, 201),
     ("max", 51, 49), ("max", 199, 201), ("read_max_ms", 199, 201), ("longest", 51, 49), ("p99-without", 129, 131)],
)  # fmt: skip
def test_a_figure_has_changed_if_it_moved_by_more_than_its_noise(
    metric: str, within: float, beyond: float
) -> None:
    """The slowest read of a short window is one read, so it says little about a device."""
    assert changed(f"latency.alone.{metric}", 100, within) == []
    assert changed(f"latency.alone.{metric}", 100, beyond) == ["worse" if beyond > 100 else "better"]


def page(found: Report, *earlier: Report) -> str:
    return html_.unescape(
        re.sub(r"<style>.*?</style>", "", report_page.html(found, earlier), flags=re.DOTALL)
    )


def test_the_page_is_self_contained_and_shows_everything() -> None:
    found = empty(
        state="complete", target={"where": "the file /data/x", "model": "<b>evil"}, announced={"written": 10**9}, written=10**9,
        skipped={"latency.beside.discards": "no discard"},
        facts=[{"title": "firmware", "value": "", "source": "[254]", "reason": "why"}],
    )  # fmt: skip
    found.add(
        "fair.read.1m",
        Outcome([Figure("ratio", 1.0, target=(1.9, 2.1), paper=1.96, must=True)]),
        "evenkeel",
        "t",
    )
    found.add(
        "latency.alone", Outcome([Figure("p99", 5.0, "us")], curve=[(1.0, 0.5), (5.0, 1.0)]), "evenkeel", "t"
    )
    found.add(
        "device.sustained",
        Outcome([Figure("last-mbps", 5.0, "MB/s")], series=[(1.0, 5.0), (2.0, 4.0)]),
        "evenkeel",
        "t",
    )
    raw = report_page.html(found)
    assert raw.startswith("<!doctype html>")
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|src=|@import|url\(", raw)
    assert "<b>evil" not in raw
    text = page(found)
    for words in (
        "✗ Bandwidth follows the weights",
        "fair.read.1m.ratio is 1, bound 1.9 … 2.1", "Throughput over time", "Not known: 1", "firmware: why",
        "latency.beside.discards", "no discard", "1,000 MB of 1,000 MB announced",
        "does not hold the ratio 2:1 for reads of 1 MB",
    ):  # fmt: skip
        assert words in text, words
    assert "This report is partial" not in text


def test_a_long_stream_has_a_line_without_marks_and_few_ticks() -> None:
    found = empty()
    few, many = [(float(at), 30.0) for at in range(1, 9)], [(float(at), 30.0) for at in range(1, 145)]
    drawn = []
    for points in (few, many):
        found.add("device.sustained", Outcome([], series=points), "evenkeel", "t")
        drawn.append(report_page.html(found).count("evenkeel, "))
    assert drawn == [len(few), 0]
    ticks = re.findall(r'text-anchor="middle"[^>]*>(\d+)<', report_page.html(found))
    assert ticks == ["0", "50", "100"]


def test_the_page_shows_earlier_runs_of_the_same_device_only() -> None:
    found = empty(rows=[row("device.a.mbps", 5.0)])
    old = empty(rows=[row("device.a.mbps", 4.25)])
    old.id, old.started = "20250131-120000", "2025-01-31T12:00:00Z"
    other = empty(rows=[row("device.a.mbps", 3.75)])
    other.id, other.device = "20240131-120000", "another"
    later = empty(rows=[row("device.a.mbps", 4.75)])
    later.id, later.started = "20260201-120000", "2026-02-01T12:00:00Z"
    text = page(found, found, later, old, other)
    assert "4.75" not in text
    assert "2025-01-31 12:00" in text
    assert "4.25" in text
    assert "3.75" not in text
    found.device = ""
    # a device without a number of its own is not compared with others that have none
    old.device = ""
    assert "Earlier validations" not in page(found, old)


def test_what_was_not_restored_is_at_the_top() -> None:
    found = empty(state="complete", not_restored=["cannot restore /sys/x: busy"])
    assert "Not restored: cannot restore /sys/x: busy. Run `ek-validate restore` as root." in page(found)


def test_nan_never_gets_into_a_report(tmp_path: Path) -> None:
    found = empty()
    found.add("a.b", Outcome([Figure("c", math.nan)]), "evenkeel", "t")
    with pytest.raises(ValueError):
        report.save(found, tmp_path)
    assert json.loads(json.dumps(empty().as_json()))["rows"] == []


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[tuple[float, float]], float, float, float]:
    """(MB/s by second, rate of the cache, rate after it, GB of the cache). A second in four at most is slow."""
    fast, share = draw(st.floats(1, 500)), draw(st.floats(0.05, 0.6))
    end, seconds = draw(st.floats(2, 60)), draw(st.integers(12, 120))
    end = min(end, seconds - 4.0)
    chance = draw(st.randoms(use_true_random=False))
    slow = draw(st.one_of(st.none(), st.integers(2, 5)))
    rates = []
    for i in range(seconds):
        part = min(max(end - i, 0.0), 1.0)
        rate = fast * (part + share * (1 - part)) * chance.uniform(0.96, 1.04)
        # Flash collects garbage for a second now and then. Just before the end of the cache, nobody could tell it from the end.
        rates.append(rate / 10 if i % 6 == slow and i + 2 < seconds and not end - 3 < i < end else rate)
    return [(float(i + 1), rate) for i, rate in enumerate(rates)], fast, fast * share, fast * end / 1000


@given(streams())
def test_the_end_of_the_fast_cache_is_found(
    stream: tuple[list[tuple[float, float]], float, float, float],
) -> None:
    series, fast, slow, gb = stream
    first, last, found = measure.knee(series)
    assert first == pytest.approx(fast, rel=0.2)
    assert last == pytest.approx(slow, rel=0.1)
    # slow seconds write less than the cache would have taken in this time
    lost = sum(fast - rate for at, rate in series if at <= gb * 1000 / fast and rate < fast / 5)
    assert found == pytest.approx(gb - lost / 1000, abs=1.5 * fast / 1000)


@pytest.mark.parametrize("gb", [0.5, 0.7, 1.0, 1.5, 2.0])
def test_a_cache_may_be_much_smaller_than_the_stream(gb: float) -> None:
    """A stream of 4 GB falls from 200 to 40 MB/s, which takes up to 90 s. Its first second may be slow."""
    fast_s, seconds = gb * 5, int(gb * 5 + (4 - gb) * 25)
    series = [(i + 1.0, 40 + 160 * min(max(fast_s - i, 0.0), 1.0)) for i in range(seconds)]
    first, last, found = measure.knee(series)
    assert (first, last) == (200, 40)
    assert found == pytest.approx(gb, abs=0.02)
    assert measure.knee([(1.0, 30.0), *((at + 1, rate) for at, rate in series)])[0] == 200


def test_the_first_of_two_knees_is_the_end_of_the_fast_cache() -> None:
    """The device writes at three rates: into its cache, while it empties the cache, and then without one."""
    rates = [200.0] * 5 + [80.0] * 50 + [40.0] * 50
    assert measure.knee([(i + 1.0, rate) for i, rate in enumerate(rates)]) == (200, 40, 1.0)


def test_a_pause_is_no_end_of_the_cache() -> None:
    rates = [200.0] * 10 + [20.0] * 6 + [200.0] * 40
    assert math.isnan(measure.knee([(i + 1.0, rate) for i, rate in enumerate(rates)])[2])


@given(st.integers(4, 120), st.floats(1, 500), st.randoms(use_true_random=False))
def test_a_steady_stream_has_no_end_of_the_cache(seconds: int, rate: float, chance: Any) -> None:
    """A single slow second is garbage collection. It is a second in four at most."""
    rates = [
        rate * chance.uniform(0.9, 1.1) / (10 if i % 4 == 3 and chance.random() < 0.6 else 1)
        for i in range(seconds)
    ]
    first, last, gb = measure.knee([(i + 1.0, one) for i, one in enumerate(rates)])
    assert math.isnan(gb)
    if seconds >= 12:
        assert (first, last) == (pytest.approx(rate, rel=0.11), pytest.approx(rate, rel=0.11))


def test_a_short_stream_has_no_trend() -> None:
    assert all(map(math.isnan, measure.knee([(1.0, 9.0), (2.0, 9.0), (3.0, 1.0)])))


def test_the_range_of_a_ratio_is_widened_by_one_block() -> None:
    assert measure.around(2.0, 1, 1000) == (1.96, 2.04)
    assert measure.around(2.0, 50, 500) == (1.8, 2.2)
    # a wider range would say that any ratio holds
    assert measure.around(2.0, 100, 500) is None
    assert measure.around(2.0, 100, 0) is None


def test_parts_of_unequal_competitors() -> None:
    jobs = (Job("a", "read", "1m", weight=300), Job("b", "read", "4k", weight=100))
    least, part_of = measure.parts(jobs, {"a": 100.0, "b": 10.0}, {"a": 75.0, "b": 2.0})
    assert least == pytest.approx(0.8)
    assert part_of == pytest.approx({"a": 75, "b": 20})
    assert measure.parts(jobs, {"a": 100.0, "b": 0.0}, {"a": 75.0, "b": 2.0})[0] == 0


def test_the_bound_of_a_light_reader() -> None:
    known = {
        ("device.sequential-write.1m.qd1", "p50"): 8000.0, ("latency.alone", "p50"): 200.0, ("latency.alone", "p99"): 300.0,
    }  # fmt: skip
    assert measure.light_bound(known, Job("load", "write", "1m")) == 16400.0
    assert measure.light_bound(known, Job("load", "read", "1m")) is None
    assert (
        measure.light_bound({**known, ("latency.alone", "p99"): 90000.0}, Job("load", "write", "1m"))
        == 90000.0
    )
