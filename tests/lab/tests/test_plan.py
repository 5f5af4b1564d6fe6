# SPDX-License-Identifier: Apache-2.0
"""The plan of the bench. The full bench must take at most 90 minutes on two idle CPUs with an empty cache."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import bench, experiments, targets
from lab.report import headline
from lab.runner import Job


@pytest.fixture(scope="module")
def full() -> list[Job]:
    return bench.plan(experiments.load().values(), quick=False)


# The most guests of the full bench. A guest takes 39 s of one CPU on average, and two run at a time. In addition, one guest
# measures each device on which a controller runs. An experiment that joins a pool adds no guest: the bench draws as many
# experiments of the pool as before. The number differs by a few from seed to seed. The pools `app` and `app.stack` need up to
# 8 guests, 3 min; `fair.buffered.read` needs 3, 2 min.
GUESTS = 335
# The most guests of the quick bench, so that it ends in 10 minutes. The tests limit the number of guests and not the time,
# because the time depends on the host. The bench prints its time.
QUICK = 40
# The most guests on the host's clock. They run one at a time and take 20 to 50 s each on any machine, 12 min in total.
ON_HOST = 16


def test_each_bench_keeps_its_limit_of_guests(full: list[Job]) -> None:
    on_host = [j for j in full if j.experiment.clock == "host"]
    deep = bench.plan(experiments.load().values(), quick=False, deep=True)
    assert len(full) <= GUESTS, (
        "too many guests: drop a baseline or a size, or raise GUESTS in tests/test_plan.py and say what pays for it"
    )
    assert {j.name for j in full} < {j.name for j in deep}
    assert len(on_host) <= ON_HOST
    assert len(bench.plan(experiments.load().values(), quick=True)) <= QUICK


def test_the_deep_bench_runs_five_seeds_of_each_promise(full: list[Job]) -> None:
    known = experiments.load()
    wanted = targets.load()
    deep = bench.plan(known.values(), quick=False, deep=True)
    seeds: dict[str, set[int | None]] = {}
    for j in deep:
        if j.scheduler == j.experiment.subject and j.kernel == j.experiment.kernels[0]:
            seeds.setdefault(j.experiment.name, set()).add(j.seed)
    for name, found in seeds.items():
        promised = wanted.promised(name) and known[name].clock == "virtual"
        assert found == ({1, 2, 3, 4, 5} if promised else {None}), name
    assert set(seeds) == set(known)
    # The full bench runs one of the seeds, or two if a figure is a maximum. Its baselines run with the first of them.
    first: dict[str, int | None] = {}
    for j in full:
        if j.scheduler == j.experiment.subject:
            first.setdefault(j.experiment.name, j.seed)
        else:
            assert j.seed == first[j.experiment.name]
    count = Counter(
        j.experiment.name for j in full if j.scheduler == j.experiment.subject and j.kernel == "6.12"
    )
    assert {count["promise.three.emmc51"], count["rec.ek.quiet"]} == {1, 2}


def test_the_seed_draws_the_samples() -> None:
    known = experiments.load().values()

    def names(seed: int) -> set[str]:
        return {e.name for e in bench.sampled(known, seed)}

    assert names(1) == names(1)
    # each experiment is drawn by one of some seeds
    assert set().union(*(names(seed) for seed in range(200))) == {e.name for e in known}
    assert {len([n for n in names(s) if n.startswith("promise.random.")]) for s in range(9)} == {1}


def test_the_full_bench_measures_the_tables_of_the_papers(full: list[Job]) -> None:
    """The full bench has every figure that a paper reports, even if guests are dropped to save time."""
    names = {(j.experiment.name, j.scheduler) for j in full}
    wanted = {
        *((f"fair.read.{mb}m.qd1.depth64", s) for mb in (1, 30, 35, 40, 45, 50, 100) for s in ("none", "bfq", "evenkeel")),
        *((f"fair.write.{mb}m.qd1.depth64", s) for mb in (8, 10, 15, 20, 100) for s in ("none", "bfq", "evenkeel")),
        *(
            (f"fair.{case}.qd1.depth64", s)
            for case in ("read.1m", "read.100m", "write.8m", "write.100m") for s in ("mq-deadline", "kyber")
        ),
        *(
            ("fair.read.100m.qd1.depth64", s)
            for s in ("bfq-expire1s", "bfq-budget1024", "bfq-strict", "bfq-nolowlat")
        ),
        *((f"fair.shares.{case}", s) for case in ("3-2", "3-2-2-1") for s in ("bfq", "evenkeel")),
        *(
            (f"stall.{how}.{direction}.{mb}m", s)
            for how in ("direct", "buffered") for direction in ("read", "write") for mb in (1, 100)
            for s in ("bfq", "evenkeel")
        ),
        *((f"fair.host.{direction}m", "bfq") for direction in ("read.1", "read.35", "read.100", "write.8", "write.15")),
    }  # fmt: skip
    assert wanted <= names
    assert (
        sum(
            j.experiment.name.startswith("rec.base.") and j.scheduler == "none" and j.kernel == "6.12"
            for j in full
        )
        == 14
    )
    channel = {j.experiment.name for j in full if j.experiment.name.startswith("channel.")}
    assert len([name for name in channel if not name.startswith("channel.probe.")]) == 11


def test_the_table_of_the_readme_can_have_all_its_baselines() -> None:
    known = experiments.load()
    narrow = {(j.experiment.name, j.scheduler) for j in bench.plan(known.values(), quick=True)}
    wide = {(j.experiment.name, j.scheduler) for j in bench.plan(known.values(), quick=True, wide=True)}
    assert {scheduler for _, scheduler in narrow} == {"none", "evenkeel"}
    more = {e.name for e in known.values() if e.quick and set(e.quick_baselines) - {"none"}}
    assert {name for name, _ in wide - narrow} <= headline.EXPERIMENTS | more
    assert narrow < wide
    for name in headline.EXPERIMENTS:
        assert (name, "iocost") in wide, f"{name} has no iocost in the README"
