# SPDX-License-Identifier: Apache-2.0
"""Generated documentation: pages, tables between markers and the picture, from a few rows."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes/validate/src"))

import lab.__main__ as cli
from evenkeel_report.papers import PAPERS
from lab import docs, experiments
from lab.experiments import promise
from lab.model import LabError, Row
from lab.report import headline, markdown, misses, picture, stale, tables
from lab.report.source import Source

ORIGIN = {"revision": "abc123", "qemu": "10.0.8", "made": "2026-01-02T03:04:05Z"}
SOURCE = Source("full", 3, 4, *ORIGIN.values(), releases=("5.10.2", "6.12.9-evenkeel"))


def row(id_: str, value: float, **fields: Any) -> Row:
    defaults: dict[str, Any] = {
        "unit": "", "better": None, "target": None, "paper": None,
        "clock": "virtual", "kernel": "6.12", "subject": "evenkeel",
    }  # fmt: skip
    return Row(id_, value, **{**defaults, **fields})


def ratios(bfq: float = 1.5) -> list[Row]:
    return [
        row(f"fair.{d}.{mb}m.qd1.depth64.ratio", 2.0, target=(1.96, 2.04), must=True, paper=1.9,
            baselines={"none": 1.0, "bfq": bfq, "bfq-strict": 1.7})
        for d in ("read", "write") for mb in (8, 100)
    ]  # fmt: skip


QUICK = [
    *ratios(),
    *(row(f"fair.emmc51.{d}.100m.ratio", 2.0, target=(1.96, 2.04), must=True, baselines={"none": 1.0, "bfq": 1.5})
      for d in ("read", "write")),
    *(row(f"fair.emmc51.shares.3-2-2-1.share-{g}", v, unit="%", target=(98, 102), baselines={"none": 60.0})
      for g, v in zip("abcd", (100.0, 99.5, 101.2, 100.0), strict=True)),
    row("stall.emmc51.direct.write.100m.count", 0, better="lower", target=0, must=True, baselines={"bfq": 113.0}),
    row("stall.emmc51.direct.write.100m.read_max_ms", 2.6, unit="ms", better="lower", baselines={"bfq": 113.0}),
    row("latency.beside.read.p99", 4321.0, unit="us", better="lower", target=9000, must=True,
        baselines={"bfq": 34744.0}),
    row("cost.read.g1.added", 1733, unit="instructions", better="lower", target=1850, must=True,
        baselines={"none": 3.0, "bfq": 4450.0}),
    row("tune.noatime.read-1000-files.ms", 220, unit="ms", better="lower"),
    row("tune.noatime.read-1000-files.ms-default", 230, unit="ms", better="lower"),
]  # fmt: skip
FULL = [
    *QUICK,
    row("latency.beside.write.p99", 126513.5, unit="us", better="lower", target=8800),
    row("fair.host.read.8m.ratio", 1.9, kernel="5.10", subject="bfq", clock="host", paper=1.92),
]


def written(folder: Path, rows: list[Row]) -> str:
    file = folder / "results.json"
    file.write_text(json.dumps([{**r.as_json(), "release": f"{r.kernel}.9", **ORIGIN} for r in rows]))
    return str(file)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A source tree with two pages that have markers."""
    (tmp_path / "docs/explanation").mkdir(parents=True)
    (tmp_path / "README.md").write_text("a\n<!-- generated: headline -->\nold\n<!-- end -->\nb\n")
    (tmp_path / "docs/explanation/papers.md").write_text(
        "<!-- generated: ratios -->\n<!-- end -->\n<!-- generated: dbus -->\nmine\n<!-- end -->\n"
    )
    return tmp_path


def page(top: Path, name: str) -> str:
    return (top / name).read_text()


# ---- pages


def test_every_page_is_written_and_a_second_run_changes_nothing(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = written(top, FULL)
    assert docs.write(results, top) == 0
    names = [line.removeprefix("renewed ") for line in capsys.readouterr().out.splitlines()]
    assert sorted(names) == [
        "README.md", "docs/explanation/papers.md", "docs/reference/results.md", "docs/reference/targets.md",
        "docs/reference/tuning.md",
    ]  # fmt: skip
    before = {name: page(top, name) for name in names}
    assert docs.write(results, top) == 0
    assert capsys.readouterr().out == ""
    assert {name: page(top, name) for name in names} == before
    assert not list(top.rglob("*.part"))


def test_results_have_value_target_verdict_and_baselines(top: Path) -> None:
    docs.write(written(top, FULL), top)
    text = page(top, "docs/reference/results.md")
    assert (
        "| experiment | figure | Evenkeel | target | verdict | none | BFQ | other baselines | paper |" in text
    )
    assert (
        "| `fair.read.8m.qd1.depth64` | ratio | 2 | 1.96 … 2.04 | held | 1 | 1.5 | bfq-strict 1.7 | 1.9 |"
        in text
    )
    assert "python3 -m lab run 'fair.*'" in text
    # experiment and figure have columns of their own; long times are in ms
    assert "| `cost.read` | g1.added, instructions | 1,733 | ≤ 1,850 | held | 3 | 4,450 |" in text
    open_ = text.split("## Open targets", 1)[1].split("\n## ", 1)[0]
    assert "| `latency.beside.write.p99` | 6.12 | 126.5 ms | ≤ 8.8 | The device." in open_
    assert open_.count("\n| `") == 1
    # rows of other kernels are not in the tables, but they are counted
    assert "fair.host" not in text.split("## Fairness", 1)[1]
    assert "| Fairness: bandwidth by weight | 10 | 0 | 0 | 11 |" in text
    # tuning has a page of its own
    assert "tune.noatime" not in text


def test_a_promise_that_is_missed_is_listed(top: Path) -> None:
    docs.write(written(top, [row("fair.mine.ratio", 1.5, target=(1.9, 2.1), must=True)]), top)
    text = page(top, "docs/reference/results.md")
    assert "## Promises not met\n\n| row |" in text
    assert "| `fair.mine.ratio` | 6.12 | 1.5 | 1.9 … 2.1 | – |" in text
    assert "| `fair.mine` | ratio | 1.5 | 1.9 … 2.1 | MISSED |" in text


def test_targets_say_promise_or_open_and_name_experiments_that_were_not_measured(top: Path) -> None:
    newer = row("stall.emmc51.direct.write.100m.count", 0, better="lower", target=0, must=True, kernel="7.3")
    docs.write(written(top, [*FULL, newer]), top)
    text = page(top, "docs/reference/targets.md")
    assert (
        "| `latency.beside.read` | p99 | Evenkeel | ≤ 9 ms | promise | Twice the sum of two times: of one request"
        in text
    )
    assert (
        "| `latency.beside.write` | p99 | Evenkeel | ≤ 8.8 ms | aim | No scheduler can meet it on this device"
        in text
    )
    # the same target on two kernels is one line
    (line,) = [
        line for line in text.splitlines() if line.startswith("| `stall.emmc51.direct.write.100m` | count |")
    ]
    assert line.endswith("The player does not stall in any of the eight patterns. | quick | 6.12, 7.3 |")
    # a row that has lost its entry in targets.toml
    docs.write(written(top, [row("fair.mine.ratio", 2.0, target=(1.9, 2.1))]), top)
    assert "| `fair.mine` | ratio | Evenkeel | 1.9 … 2.1 | aim | – | – | 6.12 |" in page(
        top, "docs/reference/targets.md"
    )
    absent = text.split("## Experiments without rows in this bench", 1)[1]
    named = set(re.findall(r"^\| `([^`]+)`", absent, re.M))
    have = {experiments.owner(experiments.load(), r.id) for r in FULL}
    assert named == set(experiments.load()) - have


@pytest.mark.parametrize(
    ("rows", "part"), [(QUICK, "quick bench (`make bench QUICK=1`)"), (FULL, "full bench (`make bench`)")]
)
def test_pages_say_which_bench_they_come_from(top: Path, rows: list[Row], part: str) -> None:
    quick = [r for r in rows if ".8m." not in r.id or ".write." in r.id or r.subject == "bfq"]
    docs.write(written(top, quick), top)
    for name in ("results", "targets", "tuning"):
        text = page(top, f"docs/reference/{name}.md")
        assert part in text, name
        assert "revision abc123, written 2026-01-02T03:04:05Z" in text
    assert part in page(top, "README.md")
    # The page lists what the bench did not measure.
    assert "## `queue/nr_requests`: not set" in page(top, "docs/reference/tuning.md")
    assert markdown.UNMEASURED in page(top, "docs/reference/tuning.md")


def test_a_deep_experiment_makes_it_a_deep_bench(top: Path) -> None:
    docs.write(written(top, [*QUICK, row("rec.ek.hours.late", 0)]), top)
    assert "deep bench (`make bench DEEP=1`)" in page(top, "docs/reference/results.md")


def test_blocks_of_other_generators_stay(top: Path) -> None:
    docs.write(written(top, FULL), top)
    text = page(top, "docs/explanation/papers.md")
    assert "<!-- generated: dbus -->\nmine\n<!-- end -->\n" in text
    assert "| read | 8 | 1.92 | 1.90 | 1.50 | 2.00 |" in text
    assert "| write | 100 | 1.90 | – | 1.50 | 2.00 |" in text


def test_every_block_exists_even_without_rows() -> None:
    blocks = docs._blocks([], SOURCE, [])
    assert {f"shapes-{paper}" for paper in PAPERS} < set(blocks)
    assert all(text.endswith("\n") for text in blocks.values())
    assert blocks["ratios"] == f"{markdown.UNMEASURED}\n"


def test_every_note_is_about_rows_that_an_experiment_writes() -> None:
    names = [*experiments.load()]
    for pattern in experiments.notes():
        head = pattern.split("*", 1)[0].rstrip(".")
        assert any(n.startswith(head) or head.startswith(f"{n}.") for n in names), pattern


@pytest.mark.parametrize(("text", "message"), [("[]", "has no rows"), ("{", "is not JSON")])
def test_without_rows_nothing_is_written(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    file = top / "results.json"
    file.write_text(text)
    for command in (["docs", str(file)], ["picture", str(file), str(top / "x.svg")]):
        monkeypatch.setattr(sys, "argv", ["lab", *command])
        assert cli.main() == 2
        assert message in capsys.readouterr().err
    assert not (top / "x.svg").exists()


# ---- the table of the controllers


def test_controllers_have_a_table_of_the_headline_rows() -> None:
    known = [
        row("fair.emmc51.read.100m.ratio", 2.0, baselines={"iocost": 1.9, "iomax": 2.01}),
        row("fair.emmc51.read.100m.total-of-none", 99.9, baselines={"iomax": 96.04}),
        # no controller was measured here
        row("fair.emmc51.write.100m.ratio", 2.0, baselines={"bfq": 1.5}),
    ]
    head, _, *lines = tables.controllers(known).splitlines()
    assert head.count("|") == 8
    assert lines == [
        "| Bandwidth ratio at weights 2:1, direct reads of 100 MB (ideal: 2.00) | – | 1.90 | – | 2.01 | – | 2.00 |",
        "| Bandwidth of both groups that read 100 MB, % of that without a scheduler | – | – | – | 96.0 | – | 99.9 |",
    ]
    assert tables.controllers(ratios()) == "Not measured in this bench.\n"


# ---- the table of the README


def test_the_table_has_a_dash_where_nothing_was_measured() -> None:
    text = headline.render(QUICK, SOURCE)
    assert text.splitlines()[0] == "|  | none | mq-deadline | BFQ | iocost | Evenkeel |"
    cells = {
        line.split(" | ")[0].strip("| "): line.split(" | ")[1:]
        for line in text.splitlines()
        if line.startswith("|")
    }
    assert [c.strip(" |") for c in cells["CPU cost of a 4 KiB read, instructions more than with none"]] == [
        "–",
        "–",
        "4,450",
        "–",
        "1,733",
    ]
    assert "| – | – | 113 | – | 2.6 |" in text
    assert "| 1.00 | – | 1.50 | – | 2.00 |" in text
    assert "| 40.0 | – | – | – | 1.2 |" in text
    assert "| – | – | 34.7 | – | 4.32 |" in text
    assert text.endswith(
        "Measured by 3 of the 4 experiments of a full bench (`make bench`) on Linux"
        " 6.12.9-evenkeel, revision abc123, 2026-01-02T03:04:05Z.\n"
    )


def test_the_cost_of_mq_deadline_follows_from_the_rows_of_evenkeel() -> None:
    over = row("cost.read.g1.over-mq-deadline", -134, unit="instructions", better="lower")
    assert "| – | 1,867 | 4,450 | – | 1,733 |" in headline.render([*QUICK, over], SOURCE)


def test_the_check_reads_the_figures_back_from_the_table() -> None:
    found = headline.check(headline.render(QUICK, SOURCE), QUICK)
    assert found.differences == []
    assert {(f.scheduler, f.value) for f in found.compared} >= {("bfq", 4450.0), ("evenkeel", 1.2)}
    assert len(found.compared) == 14


@pytest.mark.parametrize(
    ("id_", "value", "differences"),
    [
        ("fair.emmc51.read.100m.ratio", 1.95, 0), ("fair.emmc51.read.100m.ratio", 1.93, 1),
        ("cost.read.g1.added", 1780, 0), ("cost.read.g1.added", 1800, 1),
        ("stall.emmc51.direct.write.100m.read_max_ms", 7.0, 1),
    ],
)  # fmt: skip
def test_a_table_that_is_outdated_by_three_percent_is_found(id_: str, value: float, differences: int) -> None:
    fresh = [row(r.id, value, baselines=r.baselines) if r.id == id_ else r for r in QUICK]
    assert len(headline.check(headline.render(QUICK, SOURCE), fresh).differences) == differences


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("CPU cost", "Cost"), "unknown line 'Cost of a 4 KiB read"),
        (("BFQ", "bfq"), "has other columns"),
        (("1,733", "many"), "'many' is not a figure"),
    ],
)
def test_a_table_that_was_edited_by_hand_is_an_error(change: tuple[str, str], message: str) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        headline.shown(headline.render(QUICK, SOURCE).replace(*change))


# ---- the promises that are not met


def test_the_readme_counts_promises_and_lists_the_missed_ones() -> None:
    promises = sum(r.must and r.target is not None for r in QUICK)
    no_fixed = (
        "It did not check fixed shares (a set percentage of the device for an app, whether the device is busy or not)."
        " Earlier measurements show that their accuracy [misses its target]"
        "(docs/explanation/scheduler.md#a-known-error-the-share-is-not-that-of-the-job-alone).\n"
    )
    assert misses.render(QUICK) == (
        f"The last bench checked {promises} of Evenkeel's promises, and all are met.\n{no_fixed}"
    )
    missed = [
        row("promise.small-medium.sd-uhs3.least", 0.678, better="higher", target=0.95, must=True),
        row("stall.emmc51.buffered.write.100m.count", 2, better="lower", target=0, must=True),
        row("latency.beside.write.clean.p99", 12345.0, unit="us", better="lower", target=9000, must=True),
        # an aim is no promise
        row("latency.beside.write.p99", 126513.5, unit="us", better="lower", target=8800),
    ]
    head, _, *lines = misses.render([*QUICK, *missed]).splitlines()
    assert head.startswith(
        f"The last bench checked {promises + 3} of Evenkeel's promises, and 3 are [not met]("
    )
    assert lines == [
        "- `latency.beside.write.clean.p99` on Linux 6.12 is 12.35 ms; promised is ≤ 9 ms.",
        "- On an SD card, a group that reads 4 KiB at random competes with one that reads 1 MiB at a time."
        " One of them gets only 0.678 of its share.",
        "- On an eMMC that collects garbage, a video player stalls 2 times in 30 s while another group writes"
        " through the page cache.",
        "",
        no_fixed.rstrip(),
    ]


def test_the_promises_of_fixed_shares_are_counted_when_the_bench_has_them() -> None:
    fixed = row("regulate.corners.flushes.accuracy", 1.0, target=(0.99, 1.02), must=True)
    assert "fixed shares" not in misses.render([*QUICK, fixed])


def test_rows_that_check_the_lab_are_no_promises_of_evenkeel() -> None:
    lab = [
        row("calibrate.pipe.seq_read_mbps", 1.0, subject="none", target=(198, 242), must=True),
        row("channel.mixed-90-10.replica_pct", 9.0, target=(-2, 2), must=True),
    ]
    assert misses.render([*QUICK, *lab]) == misses.render(QUICK)


@pytest.mark.parametrize(("small", "medium", "who"), [(64.9, 33.8, "1 MiB"), (33.8, 64.9, "4 KiB")])
def test_the_group_that_gets_least_of_its_share_is_named(small: float, medium: float, who: str) -> None:
    rows = [
        row("promise.small-medium.sd-uhs3.least", 0.675, better="higher", target=0.95, must=True),
        row("promise.small-medium.sd-uhs3.part-small", small, unit="%"),
        row("promise.small-medium.sd-uhs3.part-medium", medium, unit="%"),
    ]
    assert f" The group that reads {who} gets only 0.675 of its share.\n" in misses.render(rows)


@pytest.mark.parametrize("least", misses.GROUPS)
def test_the_groups_of_a_miss_are_those_of_its_experiment(least: str) -> None:
    name = least.removeprefix("promise.").removesuffix(".least")
    (case,) = (case for case in promise.CASES if case.name == name)
    assert {f"promise.{name}.part-{job.name}" for job in case.jobs} == set(misses.GROUPS[least])
    assert len({job.weight for job in case.jobs}) == 1, "the least part is not the least of a share"


@pytest.mark.parametrize("row_id", misses.WORDS)
def test_each_miss_with_words_is_a_row_of_the_bench(row_id: str) -> None:
    assert experiments.owner(experiments.load(), row_id)


# ---- the picture


def drawn(rows: list[Row]) -> str:
    return picture.draw(rows, revision="abc123", release="6.12.9")


def test_the_picture_contains_its_figures() -> None:
    svg = drawn(QUICK)
    embedded = picture.embedded(svg)
    assert (embedded["kernel"], embedded["revision"]) == ("6.12.9", "abc123")
    points: Mapping[str, Any] = embedded["series"]
    assert points["read"] == {
        "none": [[8, 1.0], [100, 1.0]],
        "bfq": [[8, 1.5], [100, 1.5]],
        "evenkeel": [[8, 2.0], [100, 2.0]],
    }
    assert list(points) == ["read", "write"]
    assert drawn(QUICK) == svg
    # the file needs no other file, and has a background of its own
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert 'fill="#fff"' in svg
    assert not re.search(r"url\(|@import|href", svg)
    assert len(svg.encode()) < 200_000
    for text in (
        "Direct reads",
        "Direct writes",
        "block size, MB",
        "bandwidth ratio A:B",
        "ideal 2:1",
        "BFQ",
        "Evenkeel",
    ):
        assert f">{text}" in svg or f"{text}<" in svg, text


def test_a_picture_is_compared_with_the_existing_rows() -> None:
    svg = drawn(QUICK)
    assert picture.check(svg, QUICK) == stale.Check([], picture.shown(svg))
    few = [r for r in QUICK if ".100m." in r.id]
    assert {f.what for f in picture.check(svg, few).compared} == {
        "fair.read.100m.qd1.depth64.ratio", "fair.write.100m.qd1.depth64.ratio",
    }  # fmt: skip


@pytest.mark.parametrize(("bfq", "differences"), [(1.54, 0), (1.55, 4), (1.45, 4)])
def test_a_picture_that_is_outdated_by_three_percent_is_found(bfq: float, differences: int) -> None:
    found = picture.check(drawn(QUICK), ratios(bfq))
    assert len(found.differences) == differences
    if differences:
        assert found.differences[0].startswith("fair.read.8m.qd1.depth64.ratio, bfq: shown 1.5, measured 1.")


@pytest.mark.parametrize(("was", "now", "same"), [(0.0, 0.02, True), (0.0, 0.03, False), (0.1, 0.115, True)])
def test_ratios_near_zero_may_differ_by_two_hundredths(was: float, now: float, same: bool) -> None:
    found = stale.check([stale.Shown("x", "bfq", was, picture.NEAR)], lambda _: now)
    assert (found.differences == []) == same


def test_a_picture_without_rows_or_figures_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"no row fair\.read"):
        drawn(FULL[-2:])
    for svg in ("<svg/>", "no picture"):
        with pytest.raises(LabError, match="has no figures"):
            picture.embedded(svg)
    file = tmp_path / "images/ratio.svg"
    assert docs.draw(written(tmp_path, FULL), file) == 0
    assert picture.embedded(file.read_text())["kernel"] == "6.12.9"
