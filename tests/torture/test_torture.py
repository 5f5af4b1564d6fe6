# SPDX-License-Identifier: GPL-2.0-only
"""Stress test of evenkeel on two CPUs: load, changed settings and removed devices, on a kernel that finds defects.

EVENKEEL_TORTURE_VARIANT: kernel variant. `debug` (default) has KASAN and lockdep, `kcsan` finds data races.
EVENKEEL_TORTURE_SECONDS: how long the mixed load runs, in seconds (default 30, with DEEP=1 120).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/lab"))

from lab.model import Experiment  # noqa: E402
from lab.runner import Job, Lab, run  # noqa: E402

SECONDS = int(os.environ.get("EVENKEEL_TORTURE_SECONDS") or ("120" if os.environ.get("DEEP") else "30"))
KERNEL = os.environ.get("EVENKEEL_KERNEL", "6.12")
VARIANT = os.environ.get("EVENKEEL_TORTURE_VARIANT", "debug")
# Kernel parameters of KCSAN. In our modules it watches one of `skip_watch` memory accesses: it delays the CPU at
# this access by `udelay_*` microseconds, so that another CPU can race with it. The default delay in interrupts,
# 20 us, is too short for an emulated machine. To check these values, a race was added on purpose: `ek->nr_starved++`
# in ek_completed_request() without the lock. KCSAN reported it 17 times in a minute.
RACES = " kcsan.skip_watch=100 kcsan.udelay_task=100 kcsan.udelay_interrupt=100"
SLOWER = 4 if VARIANT == "kcsan" else 1  # factor of the time limits


def test_no_hang_no_leak_and_no_kernel_warning() -> None:
    script = (Path(__file__).parent / "torture.sh").read_text()
    experiment = Experiment(
        "torture", "load, changes of settings and hot unplug at once", f"SECONDS_TO_RUN={SECONDS}\n{script}", lambda _: [],
        modules=("null_blk", "mq-deadline"), memory=2048, cpus=2, clock="host",
        append="softlockup_panic=1" + (RACES if VARIANT == "kcsan" else ""),
        limit=SLOWER * (400 + 4 * SECONDS), timeout=SLOWER * (500 + 5 * SECONDS),
    )  # fmt: skip
    lab = Lab(workdir=TOP / "build/torture", variant=VARIANT, fresh=True)
    out = run(lab, Job(experiment, KERNEL, "evenkeel")).output
    done = dict(line.split() for line in out.results["done"].splitlines())
    assert int(done["rounds"]) > 0
    assert int(done["switches"]) >= 3
    assert int(done["ios"]) > 100, "there was no load; output of fio: " + out.results["fio"]
    # The module has been unloaded, so kmemleak shows its functions as addresses, which begin with 0xffffffffa.
    leaks = [
        block
        for block in out.results["kmemleak"].split("unreferenced object ")[1:]
        if "0xffffffffa" in block or "ek_" in block or "blkcg_" in block
    ]
    assert leaks == [], f"{len(leaks)} objects leaked; see {lab.workdir}/torture-{KERNEL}-evenkeel.report"
    print(
        f"{done['rounds']} rounds, {done['switches']} scheduler switches, {done['ios']} I/Os in {SECONDS} s"
    )
