#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how much each parameter of flashsim's presets matters: tables for README.md.

    tests/flashsim/sensitivity.py [--write | PRESET...]

--write puts the tables into README.md. The model runs in user space, so all presets
take a minute and a half. Each parameter is halved and doubled, and all figures are
measured again. A cell of the first table has the figure that changes most:

    class  c: cited, f: fitted, a: assumed (sources.toml)
    -48 +95 r    at half the parameter, figure r changes by -48 %; at double by +95 %
    on, off      for a parameter that is 0 or 1: the effect of the other value
    n/a          the model refuses this value, or halving does not change it
    .            no figure changes by 5 %

The other two tables are a list of the figures, and the figures of devices that are
worn, full, or both.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from timing import (
    DISCARD,
    FIGURES,
    FLUSH,
    HERE,
    KB,
    MB,
    MS,
    READ,
    WRITE,
    Io,
    Model,
    compiled,
    scattered,
    sequential,
)

README = HERE / "README.md"
SOURCES = tomllib.loads((HERE / "sources.toml").read_text())
FLASH_ONLY = {
    "channels", "dies", "planes", "page_kb", "t_r_us", "t_prog_us", "t_erase_us", "block_pages", "channel_mbps",
    "chunk_kb", "map_miss_us", "map_cache", "map_region_mb", "buffer_kb", "suspend_us", "slc_kb", "t_prog_slc_us",
    "slc_refill_kbps", "gc_after_kb", "gc_valid_pct", "spare_pct", "retry_in", "retry_most", "discard_us",
    "discard_group_kb", "discard_group_us", "discard_exclusive", "bg_after_kb", "bg_ms", "bg_idle_ms", "bg_stop_us",
    "bg_most", "heat_mb", "heat_cool_mbps", "heat_pct", "jitter_pct", "jitter_tail_in", "jitter_tail_x",
}  # fmt: skip
DISK_ONLY = {"rpm", "seek_min_us", "seek_max_us", "track_mbps"}
COMMON = {"active", "link_read_mbps", "link_write_mbps", "link_duplex", "cmd_us", "cmd_write_us", "flush_us"}
SWITCHES = {"link_duplex", "discard_exclusive"}
# The least change of a figure, in percent, for which a parameter gets a row.
LEAST = 5


class Base(NamedTuple):
    """Properties of a preset from which its loads are computed. Measured once, so that all variants get the same loads."""

    write_mbps: float
    read_ns: float
    bg_kb: int
    bg_ns: int


def mean(values: list[int]) -> float:
    return sum(values) / len(values)


def quantile(values: list[int], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def paced(op: int, n: int, size: int, every: float, start: float = 0, span: int = 4096 * MB) -> list[Io]:
    """Requests at regular times: writes and discards in the order of their addresses, reads at random addresses."""
    ios = scattered(op, n, size, span, seed=7) if op == READ else sequential(op, n, size, 2048 * MB)
    for i, io in enumerate(ios):
        io.arrive = int(start + i * every)
    return ios


def merged(*streams: list[Io]) -> list[Io]:
    return sorted((io for stream in streams for io in stream), key=lambda io: io.arrive)


class Device:
    """One preset with changed parameters, and the figures that it reaches."""

    def __init__(self, model: Model, preset: str, pairs: str, base: Base | None = None) -> None:
        self.model, self.preset, self.pairs = model, preset, pairs
        self.base = base or Base(
            self.seq_write(), self.read_alone(), self.number("bg_after_kb"), self.bg_period()
        )

    def number(self, name: str) -> int:
        return int(self.model.value(self.preset, self.pairs, name))

    def bg_period(self) -> int:
        return (self.number("bg_idle_ms") * 2 + self.number("bg_ms")) * MS // 2

    def run(self, ios: list[Io], qd: int = 0, pairs: str = "") -> list[Io]:
        return self.model.run(self.preset, (self.pairs + pairs).strip(","), ios, qd=qd).io

    def stream(self, op: int, mb: int = 160, pairs: str = "") -> float:
        """MB/s of the second half of a sequential stream, because the buffer is full only then."""
        ios = self.run(sequential(op, mb * 2, 512 * KB), 4, pairs)
        first, second = ios[:mb], ios[mb:]
        return (
            sum(io.bytes for io in second)
            * 1000
            / (max(io.done for io in ios) - max(io.done for io in first))
        )

    def iops(self, op: int) -> float:
        n = 600 if self.model.value(self.preset, "", "kind") == "disk" else 4000
        ios = self.run(scattered(op, n, 4 * KB, 4096 * MB), 32)
        return n * 1e9 / max(io.done for io in ios)

    def seq_read(self) -> float:
        return self.stream(READ)

    def seq_write(self) -> float:
        return self.stream(WRITE)

    def rand_read(self) -> float:
        return self.iops(READ)

    def rand_write(self) -> float:
        return self.iops(WRITE)

    def read_alone(self) -> float:
        return mean([io.total for io in self.run(scattered(READ, 1000, 4 * KB, 4096 * MB), 1)])

    def read_tail(self) -> float:
        return quantile([io.total for io in self.run(scattered(READ, 20000, 4 * KB, 4096 * MB), 1)], 0.999)

    def reads_amid(self, other: list[Io]) -> list[int]:
        every = 5 * self.base.read_ns
        end = other[-1].arrive if other else 0
        ios = self.run(merged(paced(READ, max(int(end / every), 1), 4 * KB, every), other))
        return [io.total for io in ios if io.op == READ]

    def amid_writes(self) -> list[int]:
        """The times of reads while a writer writes at 40 % of the preset's rate."""
        every = 512 * KB * 1000 / (0.4 * self.base.write_mbps)
        return self.reads_amid(paced(WRITE, max(150, int(7500 * self.base.read_ns / every)), 512 * KB, every))

    def amid_writes_mean(self) -> float:
        return mean(self.amid_writes())

    def amid_writes_tail(self) -> float:
        return quantile(self.amid_writes(), 0.99)

    def commit(self) -> float:
        ios = [Io(op, i * 4 * KB, size) for i in range(200) for op, size in ((WRITE, 4 * KB), (FLUSH, 0))]
        return max(io.done for io in self.run(ios, 1)) / 200

    def worn(self) -> float:
        return self.stream(WRITE, 320, ",gc_after_kb=1,slc_kb=0")

    def discards(self) -> float:
        """The 99th percentile of the times of reads, with one discard of 8 MiB for each 50 reads."""
        return quantile(self.reads_amid(paced(DISCARD, 40, 8 * MB, 250 * self.base.read_ns)), 0.99)

    def housekeeping(self) -> float:
        """Mean time of reads in the pauses after each burst of writes."""
        n = max(int(1.5 * self.base.bg_kb / 512), 1)
        burst = n * 512 * KB * 1000 / (0.8 * self.base.write_mbps)
        period = burst + 12 * self.base.bg_ns
        ios = []
        for i in range(4):
            ios += paced(WRITE, n, 512 * KB, burst / n, i * period)
            ios += paced(READ, 10, 4 * KB, self.base.bg_ns, i * period + burst + self.base.bg_ns)
        return mean([io.total for io in self.run(ios) if io.op == READ])

    def heat(self) -> float:
        """MB/s of a sequential read of twice the preset's heat_mb."""
        mb = int(self.model.value(self.preset, "", "heat_mb")) * 2
        return self.model.run(self.preset, self.pairs, sequential(READ, max(mb // 8, 1), 8 * MB), qd=4).mbps


# letter of a figure -> what it is, how to measure it, whether it is measured for a given parameter
Measure = Callable[[Device], float]
HEADLINES: dict[str, tuple[str, Measure, Callable[[str], bool]]] = {
    "R": ("sequential read, MB/s", Device.seq_read, lambda _: True),
    "W": ("sequential write, MB/s", Device.seq_write, lambda _: True),
    "r": ("random read of 4 KiB, IOPS at depth 32", Device.rand_read, lambda _: True),
    "w": ("random write of 4 KiB, IOPS at depth 32", Device.rand_write, lambda _: True),
    "l": ("mean time of a read of 4 KiB alone", Device.read_alone, lambda _: True),
    "t": ("p99.9 of that", Device.read_tail, lambda _: True),
    "m": ("mean time of such reads under contention from a writer with 40 % of W", Device.amid_writes_mean, lambda _: True),
    "p": ("p99 of that", Device.amid_writes_tail, lambda _: True),
    "c": ("commit: a write of 4 KiB and a flush", Device.commit, lambda _: True),
    "g": ("sequential write with garbage collection all the time, MB/s", Device.worn, lambda _: True),
    "d": ("p99 of reads during discards of 8 MiB", Device.discards, lambda p: p.startswith("discard")),
    "b": ("mean time of reads in the pauses of a writer", Device.housekeeping, lambda p: p.startswith("bg")),
    "h": ("sequential read for twice heat_mb, MB/s", Device.heat, lambda p: p.startswith("heat")),
}  # fmt: skip


def applies(letter: str, preset: str) -> bool:
    kind = {"hdd-5400": "disk", "pipe": "link"}.get(preset, "flash")
    return kind == "flash" or letter in "RWrwltmpc"


def figures(device: Device, parameter: str | None, only: str = "") -> dict[str, float]:
    return {
        letter: measure(device)
        for letter, (_, measure, suits) in HEADLINES.items()
        if applies(letter, device.preset)
        and (suits(parameter) if parameter else letter not in "dbh")
        and (not only or letter in only)
    }


def variants(model: Model, preset: str, name: str) -> tuple[str, list[str]]:
    """The variants of a parameter: ("", [half, double]), or for a switch ("on" or "off", [the other value]).

    A variant is "" if the model refuses it, or if halving does not change the value.
    """
    value = int(model.value(preset, "", name))
    if name in SWITCHES:
        return ("off" if value else "on"), [f"{name}={1 - value}"]
    pairs = []
    for new in (value // 2, value * 2):
        text = f"{name}={new}"
        if name == "active" and new > int(model.value(preset, "", "depth")):
            text = f"depth={new},{text}"
        pairs.append("" if new == value or model.error(preset, text) else text)
    return "", pairs


def classes(preset: str, name: str) -> str:
    return next((of[0] for of in ("cited", "fitted") if name in SOURCES[preset][of]), "a")


def percent(change: float) -> str:
    """A change as text. Beyond 1000 % the device is overloaded: the figure then depends on how long the load lasts."""
    return f"{change:+.0f}" if change < 1000 else ">1000"


def cell(model: Model, preset: str, name: str, base: Base, known: dict[str, float]) -> tuple[str, float]:
    """One cell of the table, and the largest change in percent."""
    word, pairs = variants(model, preset, name)
    before = known | figures(Device(model, preset, "", base), name, "dbh")
    changes: list[dict[str, float]] = []
    for text in pairs:
        after = figures(Device(model, preset, text, base), name) if text else {}
        changes.append({k: 100 * (after[k] / before[k] - 1) for k in after})
    largest = max(
        (k for c in changes for k in c), key=lambda k: max(abs(c.get(k, 0)) for c in changes), default=""
    )
    size = max((abs(c.get(largest, 0)) for c in changes), default=0)
    letter = classes(preset, name)
    if size < LEAST:
        return f"{letter} .", size
    numbers = " ".join(percent(c[largest]) if c else "n/a" for c in changes)
    return f"{letter} {word + ' ' if word else ''}{numbers} {largest}", size


def names(model: Model, preset: str) -> list[str]:
    """The parameters that have an effect on this kind of device and that the preset does not switch off."""
    kind = model.value(preset, "", "kind")
    some = COMMON | {"flash": FLASH_ONLY, "disk": DISK_ONLY, "link": set()}[kind]
    off = set()
    for switch, prefix in (
        ("bg_after_kb", "bg_"),
        ("heat_mb", "heat_"),
        ("slc_kb", "slc_"),
        ("map_cache", "map_"),
    ):
        if model.value(preset, "", switch) == "0":
            off |= {n for n in some if n.startswith(prefix)} | (
                {"t_prog_slc_us"} if prefix == "slc_" else set()
            )
    if model.value(preset, "", "discard_group_us") == "0":
        off.add("discard_group_kb")
    return [
        n for n in model.names("param")
        if n in some - off and (n in SWITCHES or model.value(preset, "", n) != "0")
    ]  # fmt: skip


def seeds(model: Model, preset: str, base: Base, known: dict[str, float]) -> str:
    """The largest difference that seeds 2 to 5 make, in percent, and the letter of its figure."""
    most: dict[str, float] = {}
    for seed in (2, 3, 4, 5):
        for k, v in figures(Device(model, preset, f"seed={seed}", base), None).items():
            most[k] = max(most.get(k, 0), abs(100 * (v / known[k] - 1)))
    largest = max(most, key=lambda k: most[k])
    return f"±{most[largest]:.0f} {largest}" if most[largest] >= 0.5 else "."


STATES = {"new": "", "worn": "wear_pct=80", "full": "full_pct=95", "both": "wear_pct=80,full_pct=95"}


def cells(model: Model, preset: str) -> dict[str, tuple[str, float]]:
    """One column of the first table: for each parameter its cell, and the largest change in percent."""
    device = Device(model, preset, "")
    known = figures(device, None)
    column = {name: cell(model, preset, name, device.base, known) for name in names(model, preset)}
    return column | {"seed": (seeds(model, preset, device.base, known), 100)}


def parameters_table(model: Model, presets: list[str]) -> str:
    columns = {preset: cells(model, preset) for preset in presets}
    matters = {
        name: max(column[name][1] for column in columns.values() if name in column)
        for name in model.names("param")
        if any(name in column for column in columns.values())
    }
    lines = [
        f"| parameter | {' | '.join(f'`{preset}`' for preset in presets)} |",
        "|---|" + "---|" * len(presets),
        *(
            f"| `{name}` | {' | '.join(columns[preset].get(name, ('', 0))[0] for preset in presets)} |"
            for name, size in matters.items()
            if size >= LEAST
        ),
        "",
        f"Less than {LEAST} % in all figures of all presets: "
        + (", ".join(f"`{name}`" for name, size in matters.items() if size < LEAST) or "none")
        + ".",
    ]
    return "\n".join(lines)


SHOWN = {"W": 1, "g": 1, "r": 1, "l": 1e3, "t": 1e3, "m": 1e3, "p": 1e3}


def states_table(model: Model, presets: list[str]) -> str:
    units = {1: "", 1e3: " (µs)"}
    lines = [
        f"| preset | state | {' | '.join(f'{k}{units[unit]}' for k, unit in SHOWN.items())} |",
        "|---|---|" + "---:|" * len(SHOWN),
    ]
    for preset in presets:
        if model.value(preset, "", "kind") != "flash":
            continue
        for state, pairs in STATES.items():
            # the writer of m and p has 40 % of what a device in this state can write
            got = figures(Device(model, preset, pairs), None, "".join(SHOWN))
            numbers = " | ".join(f"{got[k] / unit:,.0f}" for k, unit in SHOWN.items())
            lines.append(f"| `{preset}` | {state} | {numbers} |")
    return "\n".join(lines)


def with_tables(text: str, tables: dict[str, str]) -> str:
    """The text with the tables in their places."""
    for name, table in tables.items():
        begin, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(begin)
        if not found or end not in rest:
            raise ValueError(f"{README}: there is no place for {name}")
        text = f"{before}{begin}{table}\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    every = [name for name in FIGURES if name != "source"]
    parser = argparse.ArgumentParser(description="how much each parameter of flashsim's presets matters")
    parser.add_argument("--write", action="store_true", help="put the tables of all presets into README.md")
    parser.add_argument("preset", nargs="*", help="default: all")
    options = parser.parse_args()
    presets = options.preset or every
    if not set(presets) <= set(every) or (options.write and options.preset):
        parser.error(f"--write measures all presets; presets are: {' '.join(every)}")
    with tempfile.TemporaryDirectory() as folder:
        model = compiled(Path(folder), "-O2")
        tables = {
            "sensitivity": parameters_table(model, presets),
            "figures": "\n".join(f"- {letter}: {what}" for letter, (what, _, _) in HEADLINES.items()),
            "states": states_table(model, presets),
        }
    print("\n\n".join(tables.values()))
    if options.write:
        README.write_text(with_tables(README.read_text(), tables))


if __name__ == "__main__":
    main()
