# SPDX-License-Identifier: Apache-2.0
"""Evenkeel's figures in the README's picture and table are those of the quick bench.

The part of it that `make test` ran is checked. A figure may differ by 3 %, and a ratio near zero by 0.02. If a test here fails,
run `make bench`, then `make docs` and `make pictures`.
"""

from __future__ import annotations

from bench_run import TOP, Quick
from lab.report import headline, markdown, picture

PICTURE = TOP / "docs/images/ratio.svg"


def outdated(differences: list[str]) -> list[str]:
    """The differences that concern Evenkeel. A small change of an experiment hardly changes Evenkeel's figures.

    It may change a baseline's figures a lot: one more word in a guest's script shifts all its times, and BFQ gave
    1.43 or 1.96 for the same ratio. So baselines are not checked, and the quick bench here does not run BFQ.
    """
    return [line for line in differences if ", evenkeel: " in line]


def test_the_picture_shows_the_measured_ratios(quick: Quick) -> None:
    found = picture.check(PICTURE.read_text(), quick.rows)
    assert outdated(found.differences) == [], "outdated: 'make pictures' draws the picture again"
    # the check must not become empty when rows or series are renamed
    compared = {f.what for f in found.compared if f.scheduler == "evenkeel"}
    assert compared == {r.id for r in quick.rows if picture.shows(r.id)} != set()


def test_the_table_shows_the_measured_figures(quick: Quick) -> None:
    blocks = markdown.blocks((TOP / "README.md").read_text())
    found = headline.check(blocks["headline"], quick.rows)
    assert outdated(found.differences) == [], "outdated: 'make docs' renews it"
    compared = {f.what for f in found.compared if f.scheduler == "evenkeel"}
    assert compared
    if set(quick.experiments) >= headline.EXPERIMENTS:
        assert compared == {line.text for line in headline.LINES}


def test_the_picture_is_small() -> None:
    assert PICTURE.stat().st_size <= 200_000
