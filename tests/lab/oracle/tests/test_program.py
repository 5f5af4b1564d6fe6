# SPDX-License-Identifier: Apache-2.0
"""ek-oracle: its options, and the figures that it prints."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(os.environ["EK_BUILD"]) / "ek-oracle"
SHORT = ("--ramp-ms", "10", "--run-ms", "40", "--lists", "2", "--rounds", "2", "--horizon-us", "200")


def oracle(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *options], capture_output=True, text=True, check=False)


def figures(*options: str) -> dict[str, Any]:
    done = oracle(*options)
    assert (done.returncode, done.stderr) == (0, "")
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.mark.parametrize("pct", ["100", "50", "0"])
def test_figures_are_in_order_and_repeat(pct: str) -> None:
    got = figures(*SHORT, "--read-pct", pct, "--set", "map=ranges")
    assert got["fifo"]["mbps"] <= got["oracle"]["mbps"]
    assert got["fifo"]["mean_us"] >= got["oracle"]["mean_us"]
    assert sum(got["found_by"].values()) == 2
    assert got == figures(*SHORT, "--read-pct", pct, "--set", "map=ranges")


def test_the_mean_follows_from_little_s_law() -> None:
    got = figures(*SHORT, "--tag-ns", "2000", "--turn-ns", "5000", "--outstanding", "64")
    for one in got.values():
        if "iops" in one:
            assert one["mean_us"] == pytest.approx(64 / one["iops"] * 1e6 - 3, abs=0.1)
            assert one["mbps"] == pytest.approx(one["iops"] * 16384 / 1e6, rel=1e-4)


def test_sequential_reads_of_one_range_use_one_channel() -> None:
    got = figures(*SHORT, "--set", "map=ranges", "--sequential", "--bytes", "131072", "--outstanding", "32")
    assert got["fifo"]["mbps"] == pytest.approx(149, rel=0.05)
    assert got["oracle"]["mbps"] == pytest.approx(149, rel=0.05)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--read-pct", "101"), "read-pct: '101' is not a number from 0 to 100"),
        (("--bytes", "1000"), "bytes: not a multiple of 512"),
        (("--outstanding", "0"), "outstanding: '0' is not a number from 1 to 128"),
        (("--tag-ns", "1"), "tag-ns: more than turn-ns"),
        (("--preset", "hdd-5400"), "preset: not a flash device: there is nothing to choose"),
        (("--set", "map=spiral"), "set: "),
        (("extra",), "extra: not an option; --help lists them"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options: tuple[str, ...], why: str) -> None:
    done = oracle(*options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ek-oracle: {why}")
    assert done.stderr.count("\n") == 1


def test_help_names_every_option() -> None:
    text = oracle("--help").stdout
    for option in ("preset", "set", "bytes", "outstanding", "lists", "horizon-us", "sequential"):
        assert f"--{option} " in text
