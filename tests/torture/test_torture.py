# SPDX-License-Identifier: GPL-2.0-only
"""evenkeel under KASAN and lockdep on two CPUs, with everything that can happen to it at once.

EVENKEEL_TORTURE_SECONDS (default 60) is how long the mixed load runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/lab"))

from lab import initramfs, qemu  # noqa: E402
from lab.runner import Bench  # noqa: E402

SECONDS = int(os.environ.get("EVENKEEL_TORTURE_SECONDS", "60"))


def test_nothing_hangs_leaks_or_splats() -> None:
    bench = Bench(TOP / "build/6.12", TOP / "build/torture", "debug")
    assert bench.kernel.exists(), "no debug kernel; 'make test' builds it"
    bench.workdir.mkdir(parents=True, exist_ok=True)
    image = bench.workdir / "torture.cpio"
    script = Path(__file__).parent / "torture.sh"
    initramfs.build(
        image,
        programs=("fio",),
        modules=[bench.module(m) for m in ("null_blk", "mq-deadline", "evenkeel")],
        files={
            "/init": (TOP / "tests/lab/lab/guest.sh").read_text(),
            "/experiment.sh": f"SECONDS_TO_RUN={SECONDS}\n{script.read_text()}",
        },
    )
    machine = qemu.Machine(bench.kernel, memory=2048, cpus=2, icount_shift=None, timeout=300 + 4 * SECONDS)
    out = qemu.run(machine, image, bench.workdir, "torture")
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
    assert leaks == [], f"{len(leaks)} objects leaked; see {bench.workdir}/torture.report"
    print(
        f"{done['rounds']} rounds, {done['switches']} scheduler switches, {done['ios']} I/Os in {SECONDS} s"
    )
