# SPDX-License-Identifier: Apache-2.0
"""The flashsim driver in booted guests. driver.sh checks in the guest; the tests here check its report.

EVENKEEL_KERNEL (default 6.12) and EVENKEEL_VARIANT (default board) choose the kernel below build/.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/lab")]

from lab import runner  # noqa: E402
from lab.experiments.calibrate import PARTS  # noqa: E402
from lab.model import Experiment, Output  # noqa: E402
from sample import sample  # noqa: E402

KERNEL = os.environ.get("EVENKEEL_KERNEL", "6.12")
VARIANT = os.environ.get("EVENKEEL_VARIANT", "board")
SECTOR, AREA = 512, 16 * 4096


@pytest.fixture(scope="module", params=sample("CPUs of the guest", [1, 2]), ids=lambda n: f"{n}cpu")
def out(request: pytest.FixtureRequest) -> Output:
    debug = VARIANT == "debug"
    experiment = Experiment(
        f"flashsim.driver.{request.param}cpu", "driver of the flash model",
        f"parts() {{{PARTS}}}\n{(HERE / 'driver.sh').read_text()}", lambda _: [], modules=("flashsim",),
        programs=("fio", "mkfs.ext4"), cpus=request.param,
        clock="host" if debug else "virtual", memory=2048 if debug else 1024, subject="none", timeout=500,
    )  # fmt: skip
    lab = runner.Lab(workdir=TOP / "build/lab/flashsim", variant=VARIANT, fresh=True)
    return runner.run(lab, runner.Job(experiment, KERNEL, "none")).output


def test_the_traced_parts_of_each_request_sum_up_to_its_time(out: Output) -> None:
    traced, unexplained = map(int, out.results["parts"].split())
    assert traced > 150
    assert unexplained == 0


def test_a_power_cut_affects_only_unflushed_data(out: Output) -> None:
    cuts = {line.split()[0]: [int(n) for n in line.split()[1:]] for line in out.results["cut"].splitlines()}
    # Each line has four numbers of bytes. In the first area, A was flushed, and then B was written over it without a flush:
    # bytes that differ from A, that differ from B, that differ from both. In the second area, C was flushed: bytes that
    # differ from C.
    assert cuts["drop"] == [0, AREA, 0, 0]
    assert cuts["keep"] == [AREA, 0, 0, 0]
    fresh, stable, neither, elsewhere = cuts["tear"]
    assert neither == elsewhere == 0
    assert fresh + stable == AREA
    assert fresh % SECTOR == 0
    assert 0.2 * AREA < fresh < 0.8 * AREA
