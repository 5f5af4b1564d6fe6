# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH110, PTH112, PTH116, PTH119, PTH120, PTH123, PTH208
"""ek-validate channels: measures pairs of reads of a disk, reports its flash channels, and sets the tunables on request.

The probe only reads, so the disk may be mounted. It needs root. channels.py plans the reads and evaluates their
times; ek-pairs measures them. This module runs both for a disk.
"""

import json
import os
import random
import stat
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from evenkeel_agent.health import SCHEDULER, active_scheduler
from evenkeel_common.files import read_line, why

from . import channels
from .channels import BLOCK, Probe, Verdict
from .errors import ValidateError

SECONDS, MAX_SECONDS = 30, 3600  # default and maximum of --seconds
TRIAL = 200  # the number of pairs that are measured first, to estimate the time of one pair
# The probe reports the requests of other programs if there are more than this part of its own requests. Fewer requests
# change no median.
OTHERS = 0.02


@dataclass(frozen=True, slots=True)
class Places:
    """Paths on a board. Tests replace them."""

    sys: str = "/sys"
    tool: str = "/usr/lib/evenkeel/ek-pairs"


@dataclass(frozen=True, slots=True)
class Disk:
    path: str
    directory: str  # the disk's directory in sysfs
    blocks: int  # size of the disk, in blocks of channels.BLOCK bytes
    rotational: bool
    tags: int  # number of requests that the device accepts at once; 0: unknown

    @property
    def scheduler(self) -> str:
        return active_scheduler(read_line(f"{self.directory}/queue/scheduler"))

    def requests(self) -> int:
        """Number of completed reads and writes of all programs."""
        words = read_line(f"{self.directory}/stat").split()
        return int(words[0]) + int(words[4]) if len(words) > 4 else 0


def _number(path: str) -> str:
    """MAJOR:MINOR of the block device PATH. Raises ValidateError."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise ValidateError(f"cannot examine {path}: {why(error)}") from error
    if not stat.S_ISBLK(found.st_mode):
        raise ValidateError(f"{path} is not a disk but {_kind(found.st_mode)}")
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "a file"
    return "a directory" if stat.S_ISDIR(mode) else "something else"


def find_disk(path: str, places: Places) -> Disk:
    """The disk at PATH. A PATH without a slash is a name in /dev. Raises ValidateError if the disk cannot be probed."""
    path = path if "/" in path else f"/dev/{path}"
    directory = os.path.realpath(f"{places.sys}/dev/block/{_number(path)}")
    if os.path.exists(f"{directory}/partition"):
        whole = os.path.basename(os.path.dirname(directory))
        raise ValidateError(f"{path} is a partition; probe the whole disk, {whole}")
    if os.path.isdir(f"{directory}/slaves") and os.listdir(f"{directory}/slaves"):
        names = ", ".join(sorted(os.listdir(f"{directory}/slaves")))
        raise ValidateError(f"{path} consists of other devices; probe one of them: {names}")
    sectors, block = read_line(f"{directory}/size"), read_line(f"{directory}/queue/logical_block_size")
    if not sectors.isdigit():
        raise ValidateError(f"the kernel does not report the size of {path}")
    if block.isdigit() and int(block) > BLOCK:
        raise ValidateError(f"{path} has sectors of {block} bytes; the probe needs reads of {BLOCK} bytes")
    blocks = int(sectors) * 512 // BLOCK
    if blocks < channels.MIN_BLOCKS:
        least = channels.MIN_BLOCKS * BLOCK >> 20
        raise ValidateError(
            f"{path} is too small for a probe: it has {blocks * BLOCK >> 20} MiB, and {least} MiB are needed"
        )
    tags = read_line(f"{directory}/mq/0/nr_tags")
    return Disk(
        path,
        directory,
        blocks,
        read_line(f"{directory}/queue/rotational") == "1",
        int(tags) if tags.isdigit() else 0,
    )


def _measure(disk: Disk, probes: list[Probe], seconds: int, places: Places) -> list[int]:
    """The time of each measurement in ns. Raises ValidateError on failure, or if they take longer than SECONDS."""
    lines = (f"{p.a * BLOCK}\n" if p.b < 0 else f"{p.a * BLOCK} {p.b * BLOCK}\n" for p in probes)
    command = [places.tool, "--bytes", str(BLOCK), "--seconds", str(seconds), disk.path]
    try:
        done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, check=False)
    except OSError as error:
        raise ValidateError(f"cannot run {places.tool}: {why(error)}") from error
    if done.returncode:
        message = done.stderr.strip().removeprefix("ek-pairs: ").partition("\n")[0]
        raise ValidateError(message or f"ek-pairs failed with status {done.returncode}")
    try:
        ns = [int(t) for t in json.loads(done.stdout)["ns"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValidateError(f"ek-pairs printed something other than times: {error!r}") from error
    if len(ns) < len(probes):
        raise ValidateError(
            f"{disk.path} is busy: it completed only {len(ns)} of {len(probes)} measurements in {seconds} s;"
            " stop other load, or allow more --seconds"
        )
    return ns


def _samples(disk: Disk, seconds: int, seed: int, places: Places) -> int:
    """The number of samples per distance that fit in SECONDS. Raises ValidateError if they are too few."""
    pick = random.Random(seed)  # noqa: S311  chooses places to read, not a secret
    pairs = (sorted((pick.randrange(disk.blocks), pick.randrange(disk.blocks))) for _ in range(TRIAL))
    trial = [Probe("far", 0, a, b) for a, b in pairs if b - a > 1]
    each = sum(_measure(disk, trial, seconds, places)) / len(trial)
    # the length of a plan is proportional to the number of samples
    per_sample = len(channels.plan(disk.blocks, 1, seed)) * each / 1e9
    if channels.MIN_SAMPLES * per_sample > seconds:
        raise ValidateError(
            f"a pair of reads of {disk.path} takes {each / 1000:.0f} us; allow at least"
            f" --seconds {channels.MIN_SAMPLES * per_sample + 1:.0f}"
        )
    return min(int(seconds / per_sample), channels.MAX_SAMPLES)


def find_channels(disk: Disk, seconds: int, places: Places, seed: int) -> tuple[Verdict, int]:
    """The channels of the disk, and the number of requests of other programs. Raises ValidateError."""
    # In these two cases the result is known without a measurement.
    if disk.rotational:
        return Verdict("disk"), 0
    if 0 < disk.tags <= 2:
        return Verdict("one"), 0
    probes = channels.plan(disk.blocks, _samples(disk, seconds, seed, places), seed)
    before = disk.requests()
    # The trial may have been faster than the rest, so the plan may take twice as long as planned.
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
        raise ValidateError(f"cannot set {tunable} of {disk.path} to {value}: {why(error)}") from error


def check_applicable(disk: Disk) -> None:
    """Raises ValidateError if the disk's scheduler has no tunables for channels."""
    if disk.scheduler != SCHEDULER:
        raise ValidateError(
            f"--apply needs the scheduler {SCHEDULER} on {disk.path}, which has {disk.scheduler}"
        )
    if not os.path.exists(f"{disk.directory}/queue/iosched/channels"):
        raise ValidateError(f"--apply: this version of {SCHEDULER} on {disk.path} has no tunable 'channels'")


def apply(disk: Disk, found: Verdict) -> None:
    """Set the tunables. They last until the next boot or change of scheduler. Raises ValidateError."""
    # The first step turns channels off. Otherwise the scheduler would place requests with one old and one new value.
    _set(disk, "channels", 1)
    _set(disk, "chunk_kb", found.chunk_kb)
    _set(disk, "channels", found.channels)


def run(
    path: str,
    *,
    seconds: int = SECONDS,
    apply_result: bool = False,
    places: Places | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Probe the disk PATH. With APPLY_RESULT, set the tunables if the result is usable. Returns what --json prints.

    Raises ValidateError if the probe fails. An unsure result, or a disk without channels, is not a failure.
    """
    places = places or Places()
    disk = find_disk(path, places)
    if os.geteuid() != 0:
        raise ValidateError(f"reading {disk.path} needs root; run ek-validate as root")
    if apply_result:
        check_applicable(disk)
    begin = time.monotonic()
    # Each probe has another seed and reads other addresses. The device may still have those of the last probe in its cache.
    found, others = find_channels(disk, seconds, places, time.time_ns() if seed is None else seed)
    applied = apply_result and found.usable
    if applied:
        apply(disk, found)
    finding = found.sentence()
    if others:
        finding += f"; other programs made {others} requests meanwhile"
    return {
        "device": disk.path,
        "finding": finding,
        "kind": found.kind,
        "channels": found.channels,
        "chunk_kb": found.chunk_kb,
        "sure": found.sure,
        "usable": found.usable,
        "applied": applied,
        "single_us": round(found.single_us, 1),
        "apart_us": round(found.apart_us, 1),
        "together_us": round(found.together_us, 1),
        "slow": round(found.slow, 3),
        "others": others,
        "seconds": round(time.monotonic() - begin, 1),
    }
