# SPDX-License-Identifier: Apache-2.0
"""What is possible with a load on a flash model: runs tests/lab/oracle, and caches its results.

The oracle serves the load in user space, on the same timing model as the guest. Its
figures depend on the program and its arguments only, so they are cached under a hash of
both, next to the reports of guests.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from lab.kernels import TOP, digest
from lab.model import Device, LabError
from lab.runner import Lab

PROGRAM = TOP / "build/oracle/ek-oracle"
CACHE = Lab().cache
# The guest's CPU time per request, in ns: 8,550 instructions with `none` (cost.read on null_blk), and 2,600 more on
# flashsim (its README). TAG_NS is about a third of HOST_NS: the time from the device's completion until the interrupt
# handler has freed the request's tag.
HOST_NS = 11150
TAG_NS = 4000

_SETUP = re.compile(r"preset=(?P<preset>[\w-]+) set=(?P<set>\S+)")
_UNITS = {"": 1, "k": 1024, "m": 1024**2}


@dataclass(frozen=True)
class Load:
    """A closed loop: all jobs of one fio command together, on one flash model.

    Requests that complete in the first `ramp_ms` do not count. `bytes` is the size of each request.
    """

    preset: str
    settings: str
    bytes: int
    outstanding: int
    read_pct: int
    sequential: bool
    ramp_ms: int

    def arguments(self) -> list[str]:
        """The arguments of ek-oracle."""
        numbers = {
            "bytes": self.bytes, "outstanding": self.outstanding, "read-pct": self.read_pct, "ramp-ms": self.ramp_ms,
            "tag-ns": TAG_NS, "turn-ns": HOST_NS,
        }  # fmt: skip
        listed = [word for name, n in numbers.items() for word in (f"--{name}", str(n))]
        order = ["--sequential"] if self.sequential else []
        return ["--preset", self.preset, "--set", self.settings, *listed, *order]


def load(fio: str, device: Device) -> Load:
    """The load of these options of fio on that device. Raises ValueError for options that it does not know."""
    option = dict(word.removeprefix("--").split("=", 1) for word in shlex.split(fio))
    setup = _SETUP.search(device.setup)
    if not setup:
        raise ValueError(f"no flash model: {device.setup}")
    mixes = {"read": 100, "write": 0, "rw": int(option.get("rwmixread", 50))}
    rw, ramp = option["rw"], option["ramp_time"]
    size = re.fullmatch(r"(\d+)([km]?)", option["bs"])
    if rw.removeprefix("rand") not in mixes or not size or not ramp.endswith("ms"):
        raise ValueError(f"not a load for the oracle: {fio}")
    return Load(
        # In a guest, the shell replaces $SEED by the guest's seed. The oracle always uses seed 1.
        preset=setup["preset"], settings=setup["set"].replace("$SEED", "1"), bytes=int(size[1]) * _UNITS[size[2]],
        outstanding=int(option["iodepth"]) * int(option.get("numjobs", 1)),
        read_pct=mixes[rw.removeprefix("rand")], sequential=not rw.startswith("rand"), ramp_ms=int(ramp[:-2]),
    )  # fmt: skip


@dataclass(frozen=True)
class Reached:
    """Bandwidth in MB/s, and the mean latency of all requests in us."""

    mbps: float
    mean_us: float


@dataclass(frozen=True)
class Found:
    """What the load reaches in order of arrival (fifo), in the best order found (oracle), and at most in any order (bound)."""

    fifo: Reached
    oracle: Reached
    bound: Reached

    @property
    def gain_pct(self) -> float:
        """The bandwidth that the best order gains over the order of arrival."""
        return 100 * (self.oracle.mbps / self.fifo.mbps - 1)

    @property
    def latency_pct(self) -> float:
        """By how much the best order changes the mean latency."""
        return 100 * (self.oracle.mean_us / self.fifo.mean_us - 1)


def _parse(text: str) -> Found:
    read = json.loads(text)
    return Found(
        *(Reached(float(read[n]["mbps"]), float(read[n]["mean_us"])) for n in ("fifo", "oracle", "bound"))
    )


_guard = threading.Lock()
_locks: dict[Load, threading.Lock] = {}


def find(of: Load) -> Found:
    """What is possible with this load. Raises LabError. Threads that ask for the same load run the search once."""
    with _guard:
        lock = _locks.setdefault(of, threading.Lock())
    with lock:
        return _find(of)


@functools.cache
def _find(of: Load) -> Found:
    try:
        program = digest(PROGRAM)
    except OSError as error:
        raise LabError(f"no program {PROGRAM.name} in {PROGRAM.parent}; 'make loads' builds it") from error
    arguments = of.arguments()
    key = hashlib.sha256("\0".join([program, *arguments]).encode()).hexdigest()[:32]
    kept = CACHE / f"oracle-{key}.json"
    try:
        return _parse(kept.read_text())
    except (OSError, ValueError, LookupError, TypeError):
        # not there, or damaged: replaced below
        pass
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(done.stderr.strip() or f"{PROGRAM.name} ended with status {done.returncode}")
    found = _parse(done.stdout)
    _keep(kept, done.stdout)
    return found


def _keep(kept: Path, text: str) -> None:
    part = kept.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text)
        part.replace(kept)
    except OSError as error:
        raise LabError(f"cannot write to {kept.parent}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
