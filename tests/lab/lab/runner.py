# SPDX-License-Identifier: Apache-2.0
"""Put kernel, modules and an experiment together, run it, read its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from lab import initramfs, qemu
from lab.model import Experiment, Row

TOP = Path(__file__).resolve().parents[3]

# name on the command line -> module file; `none` is built in
SCHEDULERS = {
    "none": None,
    "mq-deadline": "mq-deadline",
    "kyber": "kyber-iosched",
    "bfq": "bfq",
    "evenkeel": "evenkeel",
}


class LabError(RuntimeError):
    """What was asked for cannot be run; the message says what and why."""


@dataclass(frozen=True)
class Bench:
    """Where things are: `build` is build/VERSION with the kernel objects of `variant` and the modules."""

    build: Path
    workdir: Path
    variant: str = "board"

    @property
    def kernel(self) -> Path:
        return self.build / self.variant / "arch/x86/boot/bzImage"

    def module(self, name: str) -> Path:
        """Path of a kernel module by name: ours first, then the kernel's own."""
        own = self.build / ("module" if self.variant == "board" else f"module-{self.variant}") / f"{name}.ko"
        if own.is_file():
            return own
        found = sorted((self.build / self.variant).glob(f"**/{name}.ko"))
        if not found:
            raise LabError(f"no module {name}.ko in {self.build / self.variant}; 'make module' builds ours")
        return found[0]


def run(bench: Bench, experiment: Experiment, scheduler: str) -> list[Row]:
    """Run one experiment on one scheduler."""
    if scheduler not in SCHEDULERS:
        raise LabError(f"no scheduler {scheduler!r}; there are {', '.join(SCHEDULERS)}")
    if not bench.kernel.is_file():
        raise LabError(f"no kernel at {bench.kernel}; 'make kernel' builds it")
    modules = list(experiment.modules)
    if sched_module := SCHEDULERS[scheduler]:
        modules.append(sched_module)
    name = f"{experiment.name}-{scheduler}-{bench.variant}"
    bench.workdir.mkdir(parents=True, exist_ok=True)
    image = bench.workdir / f"{name}.cpio"
    initramfs.build(
        image,
        programs=experiment.programs,
        modules=[bench.module(m) for m in modules],
        files={
            "/init": (Path(__file__).parent / "guest.sh").read_text(),
            "/experiment.sh": f"SCHEDULER={sched_module or 'none'}\n{experiment.script}",
        },
    )
    machine = qemu.Machine(
        bench.kernel, experiment.memory, experiment.cpus, experiment.icount_shift, experiment.timeout
    )
    out = qemu.run(machine, image, bench.workdir, name, experiment.append)
    image.unlink()
    kernel = out.results.get("kernel", "").strip()
    clock: Literal["virtual", "host"] = "host" if experiment.icount_shift is None else "virtual"
    return [replace(r, kernel=kernel, scheduler=scheduler, clock=clock) for r in experiment.rows(out)]
