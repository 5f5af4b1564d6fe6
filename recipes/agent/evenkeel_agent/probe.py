# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH110, PTH112, PTH116, PTH119, PTH120, PTH123, PTH208
"""ekctl probe: time pairs of reads of a disk, say what channels it has, and tell the scheduler if asked to.

It only reads, so a disk may be mounted. It needs root, but not the agent. What the times mean is for
channels.py to say, and how they are taken for ek-pairs; this is what stands between them and a disk.
"""

import json
import os
import random
import stat
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from . import channels
from .channels import BLOCK, Probe, Verdict
from .files import read_line, why
from .health import SCHEDULER, active_scheduler

SECONDS, MOST_SECONDS = 30, 3600
TRIAL = 200  # pairs to learn how long one takes
# of all requests meanwhile: fewer of others change no median
OTHERS = 0.02


class ProbeError(Exception):
    """The disk cannot be probed, or not be told the outcome; one line that says what and why."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are on a board; a test has its own."""

    sys: str = "/sys"
    tool: str = "/usr/lib/evenkeel/ek-pairs"


@dataclass(frozen=True, slots=True)
class Disk:
    path: str
    directory: str  # in sysfs
    blocks: int  # of channels.BLOCK bytes
    rotational: bool
    tags: int  # requests that it takes at once, 0 if the kernel does not say

    @property
    def scheduler(self) -> str:
        return active_scheduler(read_line(f"{self.directory}/queue/scheduler"))

    def requests(self) -> int:
        """Reads and writes of everybody so far."""
        words = read_line(f"{self.directory}/stat").split()
        return int(words[0]) + int(words[4]) if len(words) > 4 else 0


def _number(path: str) -> str:
    """MAJOR:MINOR of the block device PATH. Raises ProbeError."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise ProbeError(f"cannot look at {path}: {why(error)}") from error
    if not stat.S_ISBLK(found.st_mode):
        raise ProbeError(f"{path} is not a disk but {_kind(found.st_mode)}")
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "a file"
    return "a directory" if stat.S_ISDIR(mode) else "something else"


def look(path: str, places: Places) -> Disk:
    """The disk at PATH (a name without a slash is one in /dev). Raises ProbeError if it is none to probe."""
    path = path if "/" in path else f"/dev/{path}"
    directory = os.path.realpath(f"{places.sys}/dev/block/{_number(path)}")
    if os.path.exists(f"{directory}/partition"):
        raise ProbeError(
            f"{path} is a partition of {os.path.basename(os.path.dirname(directory))}: give that"
        )
    if os.path.isdir(f"{directory}/slaves") and os.listdir(f"{directory}/slaves"):
        names = ", ".join(sorted(os.listdir(f"{directory}/slaves")))
        raise ProbeError(f"{path} is made of other devices ({names}): give one of them")
    sectors, block = read_line(f"{directory}/size"), read_line(f"{directory}/queue/logical_block_size")
    if not sectors.isdigit():
        raise ProbeError(f"the kernel does not say how large {path} is")
    if block.isdigit() and int(block) > BLOCK:
        raise ProbeError(f"{path} has sectors of {block} bytes; reads of {BLOCK} are what is timed")
    blocks = int(sectors) * 512 // BLOCK
    if blocks < channels.LEAST_BLOCKS:
        least = channels.LEAST_BLOCKS * BLOCK >> 20
        raise ProbeError(f"{path} is too small: {blocks * BLOCK >> 20} MiB, {least} are needed")
    tags = read_line(f"{directory}/mq/0/nr_tags")
    return Disk(
        path,
        directory,
        blocks,
        read_line(f"{directory}/queue/rotational") == "1",
        int(tags) if tags.isdigit() else 0,
    )


def _measure(disk: Disk, probes: list[Probe], seconds: int, places: Places) -> list[int]:
    """The time of each, ns. Raises ProbeError if it cannot be taken, or not within SECONDS."""
    lines = (f"{p.a * BLOCK}\n" if p.b < 0 else f"{p.a * BLOCK} {p.b * BLOCK}\n" for p in probes)
    command = [places.tool, "--bytes", str(BLOCK), "--seconds", str(seconds), disk.path]
    try:
        done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=False)
    except OSError as error:
        raise ProbeError(f"cannot run {places.tool}: {why(error)}") from error
    if done.returncode:
        said = done.stderr.strip().removeprefix("ek-pairs: ").partition("\n")[0]
        raise ProbeError(said or f"ek-pairs ended with status {done.returncode}")
    try:
        ns = [int(t) for t in json.loads(done.stdout)["ns"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ProbeError(f"ek-pairs did not print times: {error!r}") from error
    if len(ns) < len(probes):
        raise ProbeError(
            f"only {len(ns)} of {len(probes)} reads of {disk.path} within {seconds} s: it is busy"
        )
    return ns


def _samples(disk: Disk, seconds: int, seed: int, places: Places) -> int:
    """How many samples a distance there is time for. Raises ProbeError if too few."""
    pick = random.Random(seed)  # noqa: S311  places to read, no secret
    pairs = (sorted((pick.randrange(disk.blocks), pick.randrange(disk.blocks))) for _ in range(TRIAL))
    trial = [Probe("far", 0, a, b) for a, b in pairs if b - a > 1]
    each = sum(_measure(disk, trial, seconds, places)) / len(trial)
    # the plan grows in proportion
    per_sample = len(channels.plan(disk.blocks, 1, seed)) * each / 1e9
    if channels.LEAST_SAMPLES * per_sample > seconds:
        raise ProbeError(
            f"a pair of reads of {disk.path} takes {each / 1000:.0f} us: about"
            f" {channels.LEAST_SAMPLES * per_sample + 1:.0f} s are needed (--seconds)"
        )
    return min(int(seconds / per_sample), channels.MOST_SAMPLES)


def find(disk: Disk, seconds: int, places: Places, seed: int) -> tuple[Verdict, int]:
    """What channels the disk has, and how many requests others made meanwhile. Raises ProbeError."""
    # both without a look: nothing that is timed could change it
    if disk.rotational:
        return Verdict("disk"), 0
    if 0 < disk.tags <= 2:
        return Verdict("one"), 0
    probes = channels.plan(disk.blocks, _samples(disk, seconds, seed, places), seed)
    before = disk.requests()
    # the trial may have been lucky; twice the time is the end
    ns = _measure(disk, probes, 2 * seconds, places)
    own = sum(1 if p.b < 0 else 2 for p in probes)
    others = max(disk.requests() - before - own, 0)
    found = channels.verdict(probes, ns, disk.blocks, rotational=disk.rotational, tags=disk.tags)
    return found, others if others > OTHERS * own else 0


def _set(disk: Disk, tunable: str, value: int) -> None:
    path = f"{disk.directory}/queue/iosched/{tunable}"
    try:
        with open(path, "w") as file:
            file.write(f"{value}\n")
    except OSError as error:
        raise ProbeError(f"cannot set {tunable} of {disk.path} to {value}: {why(error)}") from error


def applicable(disk: Disk) -> None:
    """Raises ProbeError if there is no scheduler on the disk that could be told."""
    if disk.scheduler != SCHEDULER:
        raise ProbeError(
            f"--apply: {SCHEDULER} does not serve {disk.path}, its scheduler is {disk.scheduler}"
        )
    if not os.path.exists(f"{disk.directory}/queue/iosched/channels"):
        raise ProbeError(f"--apply: the {SCHEDULER} that serves {disk.path} knows nothing of channels")


def apply(disk: Disk, found: Verdict) -> None:
    """Tell the scheduler, until it is changed or the board restarts. Raises ProbeError."""
    # off until both are set: no request is placed by one new and one old value
    _set(disk, "channels", 1)
    _set(disk, "chunk_kb", found.chunk_kb)
    _set(disk, "channels", found.channels)


def run(
    path: str,
    *,
    seconds: int = SECONDS,
    told: bool = False,
    places: Places | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Probe the disk; with `told`, tell the scheduler what is sure. The answer is what --json prints.

    Raises ProbeError; when nothing is sure, or there is nothing to tell, that is an answer and no error.
    """
    places = places or Places()
    disk = look(path, places)
    if os.geteuid() != 0:
        raise ProbeError(f"reading {disk.path} needs root")
    if told:
        applicable(disk)
    begin = time.monotonic()
    # other places each time: what a device has kept in its memory from the last time is not what is asked for
    found, others = find(disk, seconds, places, time.time_ns() if seed is None else seed)
    if told and found.usable:
        apply(disk, found)
    finding = found.sentence()
    if others:
        finding += f"; others made {others} requests meanwhile"
    return {
        "device": disk.path,
        "finding": finding,
        "kind": found.kind,
        "channels": found.channels,
        "chunk_kb": found.chunk_kb,
        "sure": found.sure,
        "usable": found.usable,
        "applied": told and found.usable,
        "single_us": round(found.single_us, 1),
        "apart_us": round(found.apart_us, 1),
        "together_us": round(found.together_us, 1),
        "slow": round(found.slow, 3),
        "others": others,
        "seconds": round(time.monotonic() - begin, 1),
    }
