# SPDX-License-Identifier: Apache-2.0
"""The schedulers that an experiment may run on, by the name that the lab gives them, or from a source file."""

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
from lab.kernels import TOP, Kernel, digest
from lab.model import LabError

_CAUSE = re.compile(r"\berror:|\bERROR:|undefined!|No space left")
# make's and the module's
_FILE = re.compile(r"[\w-]+\.c", re.ASCII)
_ELEVATOR = re.compile(r'\.elevator_name\s*=\s*"([\w-]+)"')
# two guests on one kernel may ask at the same time
_building = threading.Lock()


@dataclass(frozen=True)
class Scheduler:
    """`module`, by its file's name, is loaded first when there is one; `settings` go to queue/iosched/.

    With `source`, a file that the caller named, the module is built from it for
    each kernel; else it is looked up with the kernel's.
    """

    name: str
    elevator: str
    module: str | None = None
    settings: Mapping[str, int] = field(default_factory=dict)
    source: Path | None = None


def _bfq(name: str, **settings: int) -> Scheduler:
    return Scheduler(name, "bfq", "bfq", settings)


KNOWN = {
    s.name: s
    for s in (
        Scheduler("none", "none"),
        Scheduler("mq-deadline", "mq-deadline", "mq-deadline"),
        Scheduler("kyber", "kyber", "kyber-iosched"),
        _bfq("bfq"),
        # what the first paper tried: expiry of 1 s (here ms), a budget of 1024
        # sectors, one request at a time
        _bfq("bfq-expire1s", fifo_expire_sync=1000, fifo_expire_async=1000),
        _bfq("bfq-budget1024", max_budget=1024),
        _bfq("bfq-strict", strict_guarantees=1),
        _bfq("bfq-nolowlat", low_latency=0),
        Scheduler("evenkeel", "evenkeel", "evenkeel"),
    )
}


def find(name: str, extra: Mapping[str, Scheduler] | None = None) -> Scheduler:
    """By name. Raises LabError that lists what there is."""
    everything = {**KNOWN, **(extra or {})}
    if name not in everything:
        raise LabError(f"no scheduler {name!r}; there are {', '.join(everything)}")
    return everything[name]


def from_source(source: Path) -> Scheduler:
    """What is in a scheduler's source file. Raises LabError."""
    if not source.is_file():
        raise LabError(f"no scheduler source {source}{sight.hint(source)}")
    if not _FILE.fullmatch(source.name):
        raise LabError(f"{source.name!r} cannot name a module; letters, digits, _ and - can, and .c")
    names = _ELEVATOR.findall(source.read_text(errors="replace"))
    if len(names) != 1:
        raise LabError(f"{source} must set .elevator_name once, as a string; it does {len(names)} times")
    return Scheduler(names[0], names[0], source.stem, source=source)


def build(source: Path, kernel: Kernel) -> Path:
    """The module of a source file for a kernel that was built here. Raises LabError."""
    objects = kernel.build / kernel.variant
    if kernel.is_binary:
        raise LabError(f"kernel {kernel.version} is Debian's binary: {source.name} cannot be built for it")
    if not objects.is_dir():
        raise LabError(f"kernel {kernel.version} has no objects to build {source.name} against")
    # the name of the objects' folder has what the kernel was made from
    made_from = hashlib.sha256(f"{objects.resolve().name} {digest(source)}".encode()).hexdigest()[:12]
    out = kernel.build / "peers" / f"{kernel.variant}-{source.stem}-{made_from}"
    # the file keeps a `-`, which is `_` in the module's name once it is loaded
    module = out / f"{source.stem}.ko"
    out.mkdir(parents=True, exist_ok=True)
    with _building, (out / "lock").open("w") as lock:
        # of another lab in this clone
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not module.is_file():
            tool = TOP / "recipes/kernel/build-module"
            done = subprocess.run(
                [tool, source.resolve(), objects.resolve(), out], capture_output=True, text=True, check=False
            )
            if done.returncode or not module.is_file():
                # the first error is the cause; make's own come last
                said = [x.strip() for x in (done.stderr + done.stdout).splitlines() if x.strip()]
                cause = next((x for x in said if _CAUSE.search(x)), said[-1] if said else "without a word")
                raise LabError(f"{source} does not build against {kernel.version}: {cause}")
    return module
