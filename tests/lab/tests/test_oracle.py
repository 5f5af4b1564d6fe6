# SPDX-License-Identifier: Apache-2.0
"""The lab's side of the oracle: the load that the oracle gets, the cache of its results, and the rows made from its figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import oracle
from lab.experiments import channel
from lab.model import Figure, LabError, flashsim, null_blk
from lab.oracle import Found, Reached

DEVICE = flashsim("sata-mlc-8ch", map="ranges")
MIX = "--rw=randrw --rwmixread=90 --bs=16k --iodepth=32 --numjobs=4 --ramp_time=250ms --runtime=500ms"


def test_the_oracle_gets_the_load_of_the_guest() -> None:
    load = oracle.load(MIX, DEVICE)
    assert "$" not in load.settings, "no shell reads it"
    assert (load.bytes, load.outstanding, load.read_pct, load.sequential) == (16384, 128, 90, False)
    assert load.preset == "sata-mlc-8ch"
    assert "map=ranges" in load.settings.split(",")
    assert load.ramp_ms == 250
    stream = oracle.load("--rw=write --bs=128k --iodepth=32 --ramp_time=500ms --runtime=1", DEVICE)
    assert (stream.bytes, stream.outstanding, stream.read_pct, stream.sequential) == (131072, 32, 0, True)
    half = oracle.load(MIX.replace("--rwmixread=90 ", ""), DEVICE)
    assert half.read_pct == 50


@pytest.mark.parametrize(
    ("fio", "device"),
    [
        (MIX.replace("randrw", "trim"), DEVICE),
        (MIX.replace("16k", "16k-64k"), DEVICE),
        (MIX.replace("250ms", "1"), DEVICE),
        (MIX, null_blk()),
    ],
)
def test_a_load_that_it_does_not_know_is_refused(fio: str, device: Any) -> None:
    with pytest.raises(ValueError, match=r"not a load for the oracle|no flash model"):
        oracle.load(fio, device)


PRINTED = {
    "fifo": {"mbps": 500, "mean_us": 4000}, "oracle": {"mbps": 550, "mean_us": 3600},
    "bound": {"mbps": 555, "mean_us": 3500},
}  # fmt: skip


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fake program that counts its runs."""
    path = tmp_path / "ek-oracle"
    path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\necho '{json.dumps(PRINTED)}'\n")
    path.chmod(0o755)
    monkeypatch.setattr(oracle, "PROGRAM", path)
    monkeypatch.setattr(oracle, "CACHE", tmp_path / "cache")
    oracle._find.cache_clear()
    yield path
    oracle._find.cache_clear()


def _runs(program: Path) -> int:
    runs = program.parent / "runs"
    return len(runs.read_text().split()) if runs.exists() else 0


def test_the_search_runs_once_for_a_load_and_a_program(program: Path) -> None:
    load = oracle.load(MIX, DEVICE)
    found = oracle.find(load)
    assert found.gain_pct == pytest.approx(10)
    assert found.latency_pct == pytest.approx(-10)
    # another process
    oracle._find.cache_clear()
    assert oracle.find(load) == found
    assert _runs(program) == 1
    oracle.find(oracle.load(MIX.replace("90", "80"), DEVICE))
    assert _runs(program) == 2
    # another program, another result; a damaged file is replaced
    program.write_text(program.read_text() + "# changed\n")
    oracle._find.cache_clear()
    oracle.find(load)
    assert _runs(program) == 3
    for kept in (program.parent / "cache").iterdir():
        kept.write_text("{}")
    oracle._find.cache_clear()
    assert oracle.find(load) == found
    assert _runs(program) == 4


def test_a_failed_search_says_why(program: Path) -> None:
    load = oracle.load(MIX, DEVICE)
    program.write_text("#!/bin/sh\necho 'ek-oracle: set: no such parameter' >&2\nexit 2\n")
    with pytest.raises(LabError, match=r"^ek-oracle: set: no such parameter$"):
        oracle.find(load)
    program.unlink()
    with pytest.raises(LabError, match=r"^no program ek-oracle in .*; 'make loads' builds it$"):
        oracle.find(load)


def _gap(gain: float, none: float, own: float, replica: float = 500) -> dict[str, Figure]:
    best = replica * (1 + gain / 100)
    found = Found(Reached(replica, 2e6 / replica), Reached(best, 2e6 / best), Reached(600, 3000))
    phases = [channel.Phase(mbps, 2e6 / mbps, 1, 1) for mbps in (none, own)]
    return {f.metric: f for f in channel.gap(found, *phases)}


def test_the_part_of_the_gap_is_relative_to_each_side_s_own_order_of_arrival() -> None:
    got = _gap(10, 490, 490 * 1.08)
    assert got["gap-mbps_pct"].value == pytest.approx(80, abs=0.1)
    assert got["gap-mean_pct"].value == pytest.approx(81.5, abs=0.1)
    assert got["oracle-gain_pct"].value == 10
    assert got["replica_pct"].value == 2.0
    assert _gap(10, 500, 500)["gap-mbps_pct"].value == 0
    assert _gap(10, 500, 475)["gap-mbps_pct"].value == -50


def test_a_small_gap_has_no_parts() -> None:
    assert "gap-mbps_pct" in _gap(2.1, 500, 505)
    small = _gap(1.9, 500, 505)
    assert "gap-mbps_pct" not in small
    assert "gap-mean_pct" not in small
    assert small["oracle-gain_pct"].value == 1.9


@pytest.mark.parametrize(("none", "ok"), [(490.3, True), (510, True), (489, False), (511, False)])
def test_a_replica_that_differs_from_the_guest_is_a_missed_promise(none: float, ok: bool) -> None:
    row = _gap(10, none, none)["replica_pct"]
    assert row.must
    assert row.target == (-2, 2)
    assert (-2 <= row.value <= 2) is ok
