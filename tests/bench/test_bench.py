# SPDX-License-Identifier: Apache-2.0
"""The quick bench from end to end."""

from __future__ import annotations

import json
import math
import os
import re
from fnmatch import fnmatch

import pytest
from bench_run import TOP, Quick, parts
from known_misses import KNOWN_MISSES
from lab import experiments
from lab.report import headline, misses, picture
from quick_rows import QUICK

KNOWN = experiments.load()


# --- inputs ---------------------------------------------------------------


@pytest.mark.parametrize("module", ["evenkeel", "flashsim"])
def test_a_module_is_the_same_wherever_it_is_built(module: str) -> None:
    """Cached reports are found by a hash of the guest's inputs. A module with a path in it would differ from clone to clone."""
    built = TOP / "build/6.12" / f"{module}.ko"
    assert str(TOP).encode() not in built.read_bytes()


# --- the quick bench ----------------------------------------------------------


def test_the_parts_are_the_whole_quick_bench() -> None:
    """Each part has a figure of the README's table and of its picture, so that no run of these checks is empty."""
    assert sorted(name for part in parts() for name in part) == sorted(QUICK)
    for part in parts():
        assert headline.EXPERIMENTS & set(part), part
        assert any(picture.shows(f"{name}.ratio") for name in part), part


@pytest.mark.parametrize("row_id", sorted(KNOWN_MISSES))
def test_a_known_miss_is_explained(row_id: str) -> None:
    assert any(fnmatch(row_id, pattern) for pattern in experiments.notes()), "results.md would show no cause"
    assert row_id in misses.WORDS, "the README would show the row's id instead of what users see"


def test_the_quick_bench_misses_only_what_is_known(quick: Quick) -> None:
    missed = set(re.findall(r"^MISSED: (\S+) ", quick.done.stderr, re.MULTILINE))
    assert missed <= KNOWN_MISSES, quick.done.stderr
    assert quick.done.returncode == (1 if missed else 0), quick.done.stderr
    assert re.search(r" 0 of \d+ guests failed, 0 of \d+ shapes not judged;", quick.done.stdout)
    assert quick.rows


def test_it_writes_every_row_with_its_baselines(quick: Quick) -> None:
    rows = quick.rows
    declared = {f"{name}.{metric}" for name in quick.experiments for metric in QUICK[name]}
    written = [r.id for r in rows]
    assert len(written) == len(set(written)), "a row twice"
    assert declared - set(written) == set(), "missing"
    assert set(written) - declared == set(), "not declared in tests/bench/quick_rows.py"
    for r in rows:
        owner = KNOWN[experiments.owner(KNOWN, r.id) or ""]
        assert math.isfinite(r.value), r.id
        assert all(math.isfinite(v) for v in r.baselines.values()), r.id
        assert {"none"} & set(owner.quick_baselines) - {r.subject} <= set(r.baselines), (
            f"{r.id} lacks a baseline"
        )


def test_the_page_needs_no_other_file(quick: Quick) -> None:
    page = (quick.out / "index.html").read_text()
    assert "<svg" in page
    assert "src=" not in page
    assert "<link" not in page


def test_results_have_the_fields_of_the_contract(quick: Quick) -> None:
    listed = json.loads((quick.out / "results.json").read_text())
    for r in listed:
        assert {"id", "value", "unit", "better", "target", "paper", "peers", "clock", "kernel"} <= set(r)
        assert r["clock"] in ("virtual", "host")
        assert r["release"].startswith(r["kernel"])
        for moment in ("made", "measured"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", r[moment])
        assert r["measured"] <= r["made"]
        assert r["revision"]
        assert r["qemu"][0].isdigit()
    assert os.environ.get("EVENKEEL_INSIDE"), "the lab runs in the build root"
