# SPDX-License-Identifier: Apache-2.0
"""The schedulers that an experiment may run on: known ones by name, others from a source file."""

from __future__ import annotations

import fcntl
import hashlib
import re
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab import sight
from lab.kernels import COMPARISONS, TOP, Kernel, digest
from lab.model import LabError

# how error lines of the compiler, modpost and make look
_CAUSE = re.compile(r"\berror:|\bERROR:|undefined!|No space left")
# file names that make and the module loader accept
_FILE = re.compile(r"[\w-]+\.c", re.ASCII)
_ELEVATOR = re.compile(r'\.elevator_name\s*=\s*"([\w-]+)"')
# Two guests on one kernel may need the same module at the same time: only one of them builds it.
_building = threading.Lock()


@dataclass(frozen=True)
class Controller:
    """A controller of I/O that works on cgroups, above the elevator.

    - `script`: controllers/SCRIPT.sh sets it up in the guest. It may define control_device()
      and control_group(), and use the figures of lab.coefficients as shell variables.
    - `variables`: further shell variables for it.
    - `variant`: the kernel variant that has it; None if the board's kernel does.
    """

    script: str
    variables: Mapping[str, str] = field(default_factory=dict)
    variant: str | None = None

    @property
    def file(self) -> Path:
        return Path(__file__).parent / "controllers" / f"{self.script}.sh"


@dataclass(frozen=True)
class Scheduler:
    """A scheduler: `elevator` is its name in queue/scheduler.

    `module` is the file name of its kernel module without the suffix; None if it needs
    none. With `source`, the module is built from that file for each kernel. Otherwise
    the lab looks it up among the kernel's modules. The guest writes `settings` to
    queue/iosched/. `controller` acts above the elevator.
    """

    name: str
    elevator: str
    module: str | None = None
    settings: Mapping[str, int] = field(default_factory=dict)
    source: Path | None = None
    controller: Controller | None = None


def _bfq(name: str, **settings: int) -> Scheduler:
    return Scheduler(name, "bfq", "bfq", settings)


def _controlled(name: str, controller: Controller) -> Scheduler:
    """A controller above mq-deadline, the kernel's default for a device with one hardware queue (block/elevator.c)."""
    return Scheduler(name, "mq-deadline", "mq-deadline", controller=controller)


def _iocost(name: str, qos: str) -> Scheduler:
    return _controlled(name, Controller("iocost", {"qos": qos}, COMPARISONS))


KNOWN = {
    s.name: s
    for s in (
        Scheduler("none", "none"),
        # mq-deadline, kyber and BFQ run with their defaults. The kernel's documentation (Documentation/block) names other
        # values where latency matters most: a smaller fifo_batch for mq-deadline, and strict_guarantees for BFQ under a
        # video player. bfq-strict measures the latter for weights only; the former is not measured.
        Scheduler("mq-deadline", "mq-deadline", "mq-deadline"),
        Scheduler("kyber", "kyber", "kyber-iosched"),
        _bfq("bfq"),
        # bfq-iosched.rst, low_latency: "DISABLE this mode if you need full control on bandwidth distribution". It warns
        # against slice_idle=0: idling is necessary for weights.
        _bfq("bfq-nolowlat", low_latency=0),
        # The settings that Hasegawa et al. ("Improving responsiveness by guaranteeing storage
        # I/O bandwidth") tried: an expiry of 1 s (the unit is ms), a budget of 1024 sectors,
        # one request at a time.
        _bfq("bfq-expire1s", fifo_expire_sync=1000, fifo_expire_async=1000),
        _bfq("bfq-budget1024", max_budget=1024),
        _bfq("bfq-strict", strict_guarantees=1),
        # cgroup-v2.rst, io.cost.qos: the example for "when a better control quality is needed" (times in us)
        _iocost(
            "iocost", "enable=1 ctrl=user rpct=95.00 rlat=75000 wpct=95.00 wlat=150000 min=50.00 max=150.00"
        ),
        # iocost without latency targets: the kernel itself judges when the device is saturated, and adjusts the rate
        _iocost("iocost-auto", "enable=1 ctrl=auto"),
        _controlled("iolatency", Controller("iolatency", variant=COMPARISONS)),
        _controlled("iomax", Controller("iomax")),
        Scheduler("evenkeel", "evenkeel", "evenkeel"),
    )
}


def find(name: str, extra: Mapping[str, Scheduler] | None = None) -> Scheduler:
    """The scheduler of that name. The LabError for an unknown one lists the known ones."""
    everything = {**KNOWN, **(extra or {})}
    if name not in everything:
        raise LabError(f"no scheduler {name!r}; there are {', '.join(everything)}")
    return everything[name]


def from_source(source: Path) -> Scheduler:
    """The scheduler that a source file defines. Raises LabError."""
    if not source.is_file():
        raise LabError(f"no scheduler source {source}{sight.hint(source)}")
    if not _FILE.fullmatch(source.name):
        raise LabError(
            f"{source.name!r} cannot name a module: use letters, digits, _ and -, with the suffix .c"
        )
    names = _ELEVATOR.findall(source.read_text(errors="replace"))
    if len(names) != 1:
        raise LabError(f"{source} must set .elevator_name once, as a string; it sets it {len(names)} times")
    return Scheduler(names[0], names[0], source.stem, source=source)


def build(source: Path, kernel: Kernel) -> Path:
    """Build the module of a source file for a kernel that was built here, and return its path. Raises LabError."""
    objects = kernel.build / kernel.variant
    if kernel.is_binary:
        raise LabError(
            f"kernel {kernel.version} is a binary kernel of Debian: {source.name} cannot be built for it"
        )
    if not objects.is_dir():
        raise LabError(f"kernel {kernel.version} has no objects to build {source.name} against")
    # the name of the folder with the objects contains a hash of the kernel's inputs
    made_from = hashlib.sha256(f"{objects.resolve().name} {digest(source)}".encode()).hexdigest()[:12]
    out = kernel.build / "baselines" / f"{kernel.variant}-{source.stem}-{made_from}"
    # kbuild keeps a `-` in the file name; the name of the loaded module has `_` instead
    module = out / f"{source.stem}.ko"
    out.mkdir(parents=True, exist_ok=True)
    with _building, (out / "lock").open("w") as lock:
        # another lab in this clone may build the same module
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not module.is_file():
            tool = TOP / "recipes/kernel/src/build-module"
            done = subprocess.run(
                [tool, source.resolve(), objects.resolve(), out], capture_output=True, text=True, check=False
            )
            if done.returncode or not module.is_file():
                # the first error is the cause; errors of make itself follow it
                printed = [x.strip() for x in (done.stderr + done.stdout).splitlines() if x.strip()]
                last = printed[-1] if printed else "the build printed nothing"
                cause = next((x for x in printed if _CAUSE.search(x)), last)
                raise LabError(f"{source} does not build against {kernel.version}: {cause}")
    return module
