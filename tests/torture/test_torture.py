# SPDX-License-Identifier: GPL-2.0-only
"""evenkeel under KASAN and lockdep (or KCSAN) on two CPUs, with everything that can happen to it at once.

EVENKEEL_TORTURE_SECONDS (default 60) is how long the mixed load runs;
EVENKEEL_TORTURE_VARIANT=kcsan runs it on the kernel that finds data races.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/lab"))

from lab.model import Experiment  # noqa: E402
from lab.runner import Job, Lab, run  # noqa: E402

SECONDS = int(os.environ.get("EVENKEEL_TORTURE_SECONDS", "60"))
KERNEL = os.environ.get("EVENKEEL_KERNEL", "6.12")
VARIANT = os.environ.get("EVENKEEL_TORTURE_VARIANT", "debug")
# KCSAN lets a CPU wait on purpose, at an access in `skip_watch` of our modules, for another to race with it. The
# time (us) that it has by itself for interrupts is for machines that are not emulated: one takes longer than 20 us.
# `ek->nr_starved++` in ek_completed_request(), without the lock, is found 17 times in a minute.
RACES = "kcsan.skip_watch=100 kcsan.udelay_task=100 kcsan.udelay_interrupt=100"
SLOWER = 4 if VARIANT == "kcsan" else 1


def test_nothing_hangs_leaks_or_splats() -> None:
    script = (Path(__file__).parent / "torture.sh").read_text()
    experiment = Experiment(
        "torture", "everything at once", f"SECONDS_TO_RUN={SECONDS}\n{script}", lambda _: [],
        modules=("null_blk", "mq-deadline"), memory=2048, cpus=2, clock="host",
        append=RACES if VARIANT == "kcsan" else "",
        limit=SLOWER * (400 + 4 * SECONDS), timeout=SLOWER * (500 + 5 * SECONDS),
    )  # fmt: skip
    lab = Lab(workdir=TOP / "build/torture", variant=VARIANT, fresh=True)
    out = run(lab, Job(experiment, KERNEL, "evenkeel")).output
    done = dict(line.split() for line in out.results["done"].splitlines())
    assert int(done["rounds"]) > 0
    assert int(done["switches"]) >= 3
    assert int(done["ios"]) > 100, "there was no load; fio said: " + out.results["fio"]
    assert int(done["backstops"]) == 0, "a waiter at the gate was not woken"
    # the module is gone, so its functions show as bare addresses of module space
    leaks = [
        block
        for block in out.results["kmemleak"].split("unreferenced object ")[1:]
        if "0xffffffffa" in block or "ek_" in block or "blkcg_" in block
    ]
    assert leaks == [], f"{len(leaks)} objects leaked; see {lab.workdir}/torture-{KERNEL}-evenkeel.report"
    print(
        f"{done['rounds']} rounds, {done['switches']} scheduler switches, {done['ios']} I/Os in {SECONDS} s"
    )
