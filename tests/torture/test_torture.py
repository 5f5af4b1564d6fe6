# SPDX-License-Identifier: GPL-2.0-only
"""evenkeel under KASAN and lockdep (or KCSAN) on two CPUs: load, changes of settings and hot unplug at once.

EVENKEEL_TORTURE_SECONDS: how long the mixed load runs (default 60).
EVENKEEL_TORTURE_VARIANT=kcsan: run on the kernel that finds data races.
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
# KCSAN watches one of `skip_watch` accesses in our modules: it delays the CPU there, so that another CPU can
# race with it. Its default delay in interrupts, 20 us, is too short for an emulated machine. With these values
# it reported a deliberate race, `ek->nr_starved++` in ek_completed_request() without the lock, 17 times in a
# minute.
RACES = "kcsan.skip_watch=100 kcsan.udelay_task=100 kcsan.udelay_interrupt=100"
SLOWER = 4 if VARIANT == "kcsan" else 1


def test_no_hang_no_leak_and_no_kernel_warning() -> None:
    script = (Path(__file__).parent / "torture.sh").read_text()
    experiment = Experiment(
        "torture", "load, changes of settings and hot unplug at once", f"SECONDS_TO_RUN={SECONDS}\n{script}", lambda _: [],
        modules=("null_blk", "mq-deadline"), memory=2048, cpus=2, clock="host",
        append=RACES if VARIANT == "kcsan" else "",
        limit=SLOWER * (400 + 4 * SECONDS), timeout=SLOWER * (500 + 5 * SECONDS),
    )  # fmt: skip
    lab = Lab(workdir=TOP / "build/torture", variant=VARIANT, fresh=True)
    out = run(lab, Job(experiment, KERNEL, "evenkeel")).output
    done = dict(line.split() for line in out.results["done"].splitlines())
    assert int(done["rounds"]) > 0
    assert int(done["switches"]) >= 3
    assert int(done["ios"]) > 100, "there was no load; output of fio: " + out.results["fio"]
    # The module is unloaded, so kmemleak shows its functions as plain addresses of module space.
    leaks = [
        block
        for block in out.results["kmemleak"].split("unreferenced object ")[1:]
        if "0xffffffffa" in block or "ek_" in block or "blkcg_" in block
    ]
    assert leaks == [], f"{len(leaks)} objects leaked; see {lab.workdir}/torture-{KERNEL}-evenkeel.report"
    print(
        f"{done['rounds']} rounds, {done['switches']} scheduler switches, {done['ios']} I/Os in {SECONDS} s"
    )
