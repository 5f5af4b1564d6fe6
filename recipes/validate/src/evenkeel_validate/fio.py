# SPDX-License-Identifier: Apache-2.0
"""fio: its job files, and its reports in the format json+. No I/O here."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenkeel_report.latencies import Bins

from .cases import Job


@dataclass(frozen=True)
class Area:
    """The part of a file or device that one job uses, in bytes."""

    path: Path
    offset: int
    size: int


def name(path: Path) -> Path:
    """PATH as fio's option `filename` has it. An unescaped colon would separate two files."""
    return Path(str(path).replace(":", r"\:"))


def areas(path: Path, size: int, count: int, first: int = 0) -> list[Area]:
    """COUNT equal parts of the SIZE bytes at PATH, from the byte FIRST on. Each begins at a multiple of 1 MiB."""
    part = (size // count) & ~((1 << 20) - 1)
    return [Area(path, first + i * part, part) for i in range(count)]


def job_file(job: Job, area: Area, *, seconds: float, limit: int, seed: int) -> str:
    """The job file of one load. LIMIT: the most bytes that it moves; 0: no limit.

    Raises ValueError if the area is too small.
    """
    if job.size > area.size:
        raise ValueError(f"an I/O of {job.bs} does not fit into {area.size >> 20} MiB of the test file")
    lines = {
        "filename": name(area.path),
        "offset": area.offset,
        "size": area.size - area.size % job.size,
        "rw": job.rw,
        "bs": job.bs,
        "iodepth": job.depth,
        "direct": int(not job.buffered),
        "ioengine": "psync" if job.buffered else "libaio",
        "time_based": 1,
        "runtime": math.ceil(seconds),
        "thread": 1,
        "norandommap": 1,
        "random_generator": "tausworthe64",
        "lat_percentiles": 1,
        # fio fills each buffer with random numbers once, so a controller cannot compress the data. To change the data before
        # each write (refill_buffers, scramble_buffers) takes a slow processor up to 0.4 s for an I/O of 100 MB. Meanwhile
        # the load would pause, and a group that pauses gets less than its weight says.
        "scramble_buffers": 0,
        "allow_file_create": 0,
    }
    if job.cached:
        lines["invalidate"] = 0
    if limit:
        # a load that writes ends after its bytes, whatever time it takes
        del lines["time_based"]
        lines["io_size"] = max(limit - limit % job.size, job.size)
    if job.sync:
        lines[job.sync] = 1
    lines["randseed"] = seed
    return f"[{job.name}]\n" + "".join(f"{key}={value}\n" for key, value in lines.items())


@dataclass(frozen=True)
class Result:
    """What fio reports of one load, all its jobs together. `bins`: the latency of each I/O from its submission."""

    seconds: float
    read: int
    written: int
    ios: int
    bins: Bins = field(default_factory=dict)

    @property
    def mbps(self) -> float:
        return (self.read + self.written) / self.seconds / 1e6 if self.seconds else 0.0

    @property
    def iops(self) -> float:
        return self.ios / self.seconds if self.seconds else 0.0


def parse(text: str) -> Result:
    """fio's report. fio may print warnings before it. Raises ValueError if it is damaged or reports an error."""
    try:
        jobs: list[dict[str, Any]] = json.loads(text[text.index("{") :])["jobs"]
        errors = {int(job["error"]) for job in jobs} - {0}
        sides = [(job[side], side) for job in jobs for side in ("read", "write", "trim")]
        bins: dict[int, int] = {}
        for found, _ in sides:
            for ns, count in (found.get("lat_ns", {}).get("bins") or {}).items():
                bins[int(ns)] = bins.get(int(ns), 0) + int(count)
        seconds = max((found["runtime"] for found, _ in sides), default=0) / 1000
        moved = {
            side: sum(int(f["io_bytes"]) for f, s in sides if s == side) for side in ("read", "write", "trim")
        }
        ios = sum(int(f["total_ios"]) for f, _ in sides)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"fio printed no report: {text.strip()[-200:] or 'nothing'}") from error
    if errors:
        raise ValueError(f"fio ended with error {errors.pop()}")
    # a discard moves no data; its bytes are shown as read so that they are not counted as wear
    return Result(seconds, moved["read"] + moved["trim"], moved["write"], ios, bins)


def io_stat(text: str, number: str) -> tuple[int, int]:
    """(bytes read, bytes written) of the device NUMBER ("MAJ:MIN") in the text of io.stat or io.evenkeel.stat."""
    for line in text.splitlines():
        name, *pairs = line.split()
        if name == number:
            values = dict(pair.partition("=")[::2] for pair in pairs)
            return int(values.get("rbytes", 0)), int(values.get("wbytes", 0))
    return 0, 0


def slowest(results: Sequence[Result]) -> float:
    """The longest latency of all loads, in s."""
    return max((max(r.bins, default=0) for r in results), default=0) / 1e9
