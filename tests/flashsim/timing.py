# SPDX-License-Identifier: Apache-2.0
"""flashsim's timing model in user space: compiles it, and runs streams of requests."""

from __future__ import annotations

import ctypes
import random
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SRC = HERE / "src"
READ, WRITE, FLUSH, DISCARD = range(4)
PARTS = (
    "queue", "link_wait", "cmd", "link", "die_wait", "cell", "channel", "buffer_wait", "gc", "seek",
    "rotate", "map", "retry", "erase", "background", "throttle",
)  # fmt: skip
KB, MB = 1 << 10, 1 << 20
US, MS = 1000, 1000_000
FIGURES: dict[str, Any] = tomllib.loads((HERE / "figures.toml").read_text())


class CIo(ctypes.Structure):
    _fields_ = (
        ("arrive", ctypes.c_uint64), ("begin", ctypes.c_uint64), ("done", ctypes.c_uint64), ("sector", ctypes.c_uint64),
        ("bytes", ctypes.c_uint32), ("op", ctypes.c_uint32), ("fua", ctypes.c_uint32),
        ("channel", ctypes.c_uint32), ("order", ctypes.c_uint32), ("part", ctypes.c_uint64 * len(PARTS)),
    )  # fmt: skip


class Totals(ctypes.Structure):
    _fields_ = (
        *((n, ctypes.c_uint64) for n in (
            "gc_pauses", "gc_ns", "flushes", "buffer_stalls", "buffer_stall_ns", "suspends", "map_misses",
            "reserve_left", "slc_left", "retries", "discards", "erase_ns", "background_ns", "throttles",
        )),
        ("max_queue", ctypes.c_uint32),
    )  # fmt: skip


@dataclass
class Io:
    """A request and its result.

    Times are in ns, `pos` and `bytes` in bytes. `begin` is when the request left the queue; `part` has the parts of
    the time from `arrive` to `done`.
    """

    op: int
    pos: int
    bytes: int
    arrive: int = 0
    fua: bool = False
    begin: int = 0
    done: int = 0
    channel: int = 0
    order: int = 0
    part: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.done - self.arrive


@dataclass
class Run:
    io: list[Io]
    totals: Totals

    @property
    def end(self) -> int:
        return max(i.done for i in self.io)

    @property
    def mbps(self) -> float:
        return sum(i.bytes for i in self.io) * 1000 / self.end

    @property
    def iops(self) -> float:
        return len(self.io) * 1e9 / self.end


class Model:
    """The compiled model.

    `run` submits each request at its time `arrive`. If `qd` is given, it ignores these times and keeps `qd` requests
    outstanding: a closed loop. `think`: ns from a completion to the next request. `late`: ns by which the host reaps late.
    `planned`: further requests, which it submits at their times meanwhile. The run ends with the closed loop; a planned
    request whose time comes later keeps `done` 0.
    """

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        for of in ("preset", "param", "part"):
            getattr(self.lib, f"shim_{of}_name").restype = ctypes.c_char_p

    def error(self, preset: str, pairs: str) -> str:
        why = ctypes.create_string_buffer(1024)
        bad = self.lib.shim_check(preset.encode(), pairs.encode(), why, ctypes.c_uint32(1024))
        return why.value.decode() if bad else ""

    def names(self, of: str) -> list[str]:
        names: list[str] = []
        while name := getattr(self.lib, f"shim_{of}_name")(ctypes.c_uint32(len(names))):
            names.append(name.decode())
        return names

    def value(self, preset: str, pairs: str, name: str, aged: bool = False) -> str:
        """The value of a parameter; `aged`: with the effects of wear_pct and full_pct."""
        text = ctypes.create_string_buffer(1024)
        show = self.lib.shim_show_aged if aged else self.lib.shim_show
        n = show(preset.encode(), pairs.encode(), name.encode(), text, ctypes.c_uint32(1024))
        assert n >= 0, text.value.decode()
        return text.value.decode().strip()

    def waits(self, preset: str, pairs: str, op: int) -> tuple[bool, bool]:
        """Does the host wait before it sends `op`, and does it wait until `op` is done?"""
        waits = self.lib.shim_waits(preset.encode(), pairs.encode(), ctypes.c_uint32(op))
        return bool(waits & 1), bool(waits & 2)

    def numbers(self, pairs: str) -> Callable[[str], int]:
        """A function that returns a parameter's value as a number. Its argument is the parameter's name."""
        return lambda name: int(self.value("", pairs, name))

    def run(
        self, preset: str, pairs: str, ios: list[Io], qd: int = 0, think: int = 0, late: int = 0,
        planned: Sequence[Io] = (),
    ) -> Run:  # fmt: skip
        every = [*ios, *planned]
        c = (CIo * len(every))()
        for to, io in zip(c, every, strict=True):
            to.arrive, to.sector, to.bytes = io.arrive, io.pos // 512, io.bytes
            to.op, to.fua = io.op, io.fua
        why, totals = ctypes.create_string_buffer(1024), Totals()
        n = self.lib.shim_run(
            preset.encode(), pairs.encode(), c, ctypes.c_uint32(len(every)),
            ctypes.c_uint32(len(planned) if qd else len(every)), ctypes.c_uint32(qd),
            ctypes.c_uint64(think), ctypes.c_uint64(late), ctypes.byref(totals), why, ctypes.c_uint32(1024),
        )  # fmt: skip
        assert n >= len(ios), why.value.decode()
        for to, io in zip(c, every, strict=True):
            io.begin, io.done = to.begin, to.done
            if not io.done:
                continue
            io.arrive, io.channel, io.order = to.arrive, to.channel, to.order
            io.part = {name: value for name, value in zip(PARTS, to.part, strict=True) if value}
            # this checks every request of each caller of run()
            assert sum(io.part.values()) == io.total, io
        return Run(ios, totals)


def compiled(out: Path, *options: str) -> Model:
    """The model, compiled into the folder `out` with further options of gcc."""
    library = out / "libtiming.so"
    sources = [
        HERE / "tests/timing_shim.c",
        *(SRC / f"flashsim_{n}.c" for n in ("timing", "params", "presets")),
    ]
    subprocess.run(
        ["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{HERE / 'tests'}", *options,
         "-o", str(library), *map(str, sources)],
        check=True,
    )  # fmt: skip
    return Model(library)


def sequential(op: int, n: int, size: int, start: int = 0) -> list[Io]:
    return [Io(op, start + i * size, size) for i in range(n)]


def scattered(op: int, n: int, size: int, span: int, seed: int = 1) -> list[Io]:
    pick = random.Random(seed)  # noqa: S311
    return [Io(op, pick.randrange(span // size) * size, size) for _ in range(n)]


def figure(model: Model, preset: str, metric: str) -> float:
    """The value of a metric that the model reaches without a guest. At depth 1, the host takes 10 us per request."""
    want = FIGURES[preset][metric]
    size = want["kb"] * KB
    op = WRITE if "write" in metric else READ
    if metric.startswith("seq"):
        ios = sequential(op, want.get("mb", 256) * MB // size, size)
    else:
        n = want.get("ios", 3000 if preset == "hdd-5400" else 20000)
        ios = scattered(op, n, size, want["span_mb"] * MB)
    think = 10 * US if want["depth"] == 1 else 0
    run = model.run(preset, want.get("set", ""), ios, qd=want["depth"], think=think)
    if not metric.startswith("seq"):
        return run.iops
    # only the second half: at first the buffer, or the fast cache, takes the writes
    first, second = run.io[: len(ios) // 2], run.io[len(ios) // 2 :]
    return sum(io.bytes for io in second) * 1000 / (run.end - max(io.done for io in first))
