# SPDX-License-Identifier: Apache-2.0
"""Weights above stacks: encryption, signed data, mirrors, delays, and other file systems.

Between a group and the scheduler there may be layers with threads of their own. A layer may lose
the group of an I/O. And the scheduler lets submitters wait (the gate): if the submitter is a
thread that all groups share, one group's wait is everybody's.

- `app.stack.*`: three groups above one layer: `reads` (weight 100), `heavy` and `light` that
  write (300 and 100). The layers are dm-crypt as cryptsetup sets it up, dm-crypt without its
  work queues (`crypt-inline`), dm-delay, and an md RAID1 of two eMMCs. `none` is the same
  without a layer, to compare with.
- `app.verity`: a group reads a signed device (weight 300), another one the raw device (100).
- `app.zoned`: two writers of a zoned device. The block layer keeps writes of a zone in order, and sends
  the waiting ones from a thread of its own.
- `app.files.*`: the same three groups on files of ext4, f2fs and btrfs. The writers write
  through the page cache.

Each group is measured alone first, in the same guest and above the same stack, without a
scheduler. `least` is the smallest part, divided by its share, as in promise.*; `part-NAME` the
part of each group, divided by its share, too. On a device the model counts by slices. On files
the kernel counts by group, at submission. `charged` is what it counted in percent of what the
device served: what the file system wrote in no group's name is missing.

The device is `emmc51` in long use, where promise.* of this mix holds without a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab import onfs, scripts
from lab.competing import need_any
from lab.kernels import COMPARISONS
from lab.model import Device, Experiment, Figure, Output, flashsim, null_blk

PRESET = "emmc51"
# pages that the device collects at once: a device in long use
GC = {"gc_after_kb": 1}
DEVICE = flashsim(PRESET, **GC)
STORED = onfs.backed(PRESET, **GC)
BASELINES = ("none", "bfq")
# the full bench runs one of these experiments
POOL = ("app.stack", 1)
TOP = "/dev/mapper/top"
# seconds before counting, alone, together
SETTLE, ALONE, WINDOW = 2, 5, 9
# blocks of 4 KiB that dm-verity covers
SIGNED = 32768
# A shorter delay keeps a thread busy all the time (delay_is_fast() of dm-delay).
DELAY_MS = 60
PROGRAMS = ("fio",)
# number of the line that has the device's own count, where groups are counted
WHOLE = 99


@dataclass(frozen=True)
class Rival:
    """A fio job in a group of its own."""

    name: str
    weight: int
    options: str

    def line(self) -> str:
        return f"{self.name} {self.weight} {self.options}"


def _raw(
    name: str, weight: int, slice_: int, options: str, where: str = TOP, size_mb: int = 0, device: Device = DEVICE
) -> Rival:  # fmt: skip
    """A rival with a slice of the device to itself."""
    part = device.capacity_mb // device.slices
    return Rival(
        name, weight, f"--filename={where} --direct=1 --ioengine=libaio --offset={part * slice_}m"
        f" --size={size_mb or part}m {options}",
    )  # fmt: skip


ABOVE = (
    _raw("reads", 100, 0, "--rw=randread --bs=64k --iodepth=8"),
    _raw("heavy", 300, 1, "--rw=write --bs=256k --iodepth=8"),
    _raw("light", 100, 2, "--rw=write --bs=256k --iodepth=8"),
)
# enough I/Os outstanding to use the device all the same
DELAYED = (
    _raw("reads", 100, 0, "--rw=randread --bs=64k --iodepth=128"),
    _raw("heavy", 300, 1, "--rw=write --bs=256k --iodepth=64"),
    _raw("light", 100, 2, "--rw=write --bs=256k --iodepth=64"),
)
FILES = (
    Rival("reads", 100, "--filename=/m/reads --direct=1 --ioengine=libaio --rw=randread --bs=64k --iodepth=8 --size=400m"),
    Rival("heavy", 300, "--filename=/m/heavy --direct=0 --ioengine=psync --rw=write --bs=1m --size=256m"),
    Rival("light", 100, "--filename=/m/light --direct=0 --ioengine=psync --rw=write --bs=1m --size=256m"),
)  # fmt: skip
VERITY = (
    _raw("signed", 300, 0, "--rw=randread --bs=64k --iodepth=8", size_mb=SIGNED * 4096 >> 20, device=STORED),
    _raw("raw", 100, 1, "--readonly --rw=read --bs=512k --iodepth=4", where="/dev/$DEV", device=STORED),
)

# 100 MB/s, 64 commands at once
ZONES = null_blk(gb=16, zoned=1, zone_size=64, mbps=100, irqmode=2, hw_queue_depth=64)
ZONED = tuple(
    Rival(
        name, weight, f"--filename={TOP} --direct=1 --ioengine=libaio --offset={8192 * i}m --size=8192m --zonemode=zbd"
        " --rw=write --bs=256k --iodepth=8",
    )
    for i, (name, weight) in enumerate((("heavy", 300), ("light", 100)))
)  # fmt: skip


def _counts(text: str) -> tuple[float, dict[int, int]]:
    """Seconds and the bytes that each slice or group has read and written. Two devices add up."""
    first, *lines = text.strip().splitlines()
    found: dict[int, int] = {}
    for line in lines:
        words = line.split()
        if words and words[0].isdigit():
            found[int(words[0])] = found.get(int(words[0]), 0) + int(words[2]) + int(words[5])
    return float(first), found


def _rates(out: Output, begin: str, end: str) -> dict[int, float]:
    """MB/s by slice or group."""
    (t0, before), (t1, after) = _counts(out.results[begin]), _counts(out.results[end])
    return {i: (n - before[i]) / (t1 - t0) / 1e6 for i, n in after.items()}


def figures(rivals: Sequence[Rival], out: Output) -> list[Figure]:
    together = _rates(out, "begin", "end_")
    total = sum(together[i] for i in range(len(rivals)))
    need_any(total, WINDOW)
    weights = sum(r.weight for r in rivals)
    part: dict[str, float] = {}
    fair: dict[str, float] = {}
    for i, r in enumerate(rivals):
        alone = _rates(out, f"alone.{r.name}.begin", f"alone.{r.name}.end")[i]
        if not alone:
            raise ValueError(f"{r.name} alone was not served")
        part[r.name] = together[i] / alone
        fair[r.name] = part[r.name] * weights / r.weight
    rows = [
        Figure("least", round(min(fair.values()), 3), "", "higher"),
        Figure("sum", round(100 * sum(part.values()), 1), "%", "higher", share_of=("best",)),
        Figure("total", round(total, 2), "MB/s", "higher"),
        *(Figure(f"part-{name}", round(value, 3), "", "higher") for name, value in fair.items()),
    ]
    if WHOLE in together:
        rows.append(Figure("charged", round(100 * total / together[WHOLE], 1), "%"))
    return rows


def rivals(
    name: str, about: str, stack: str, competitors: Sequence[Rival], *, device: Device = DEVICE, count: str = "slices",
    programs: tuple[str, ...] = PROGRAMS, modules: tuple[str, ...] = (), memory: int = 1024, deep: bool = False,
    board: bool = False, alone: int = ALONE, window: int = WINDOW, **values: str | int,
) -> Experiment:  # fmt: skip
    """Rivals above a stack. `board`: the board's kernel has what it needs. `alone`, `window`: seconds that count."""
    weights = ":".join(str(r.weight) for r in competitors)
    text = scripts.script(
        "rivals", STACK=stack, COUNT=count, RIVALS="\n".join(r.line() for r in competitors), SETTLE=SETTLE, ALONE=alone,
        WINDOW=window, **values,
    )  # fmt: skip
    return Experiment(
        name, f"{about}, weights {weights}", text, lambda out: figures(competitors, out), device=device, memory=memory,
        variant=None if board else COMPARISONS, programs=programs, modules=modules, files=scripts.files("rivals", "stack"),
        baselines=BASELINES, deep=deep, timeout=900, pool=None if deep else POOL,
    )  # fmt: skip


def above(layer: str, about: str, **more: object) -> Experiment:
    return rivals(
        f"app.stack.{layer}", f"random reads 64 KiB QD8 : writes 256 KiB QD8 : the same, {about}", layer, ABOVE,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def on_files(kind: str, modules: tuple[str, ...] = (), **more: object) -> Experiment:
    mkfs = {"ext4": "mkfs.ext4", "f2fs": "mkfs.f2fs", "btrfs": "mkfs.btrfs"}[kind]
    return rivals(
        f"app.files.{kind}", f"direct random reads 64 KiB QD8 : buffered writes 1 MiB : the same, on files of {kind}", kind,
        FILES, device=STORED, count="groups", programs=("fio", mkfs), modules=modules, memory=2048,
        LAID="reads:400m heavy:256m light:256m", **more,  # type: ignore[arg-type]
    )  # fmt: skip


# why rows miss their targets, by the pattern of their ids
NOTES = {
    "app.stack.crypt.least": "One thread of dm-crypt submits the writes of all groups. While it waits at the gate for one"
    " group, the writes of the others wait, too.",
    "app.files.*.least": "Both writers get nothing next to the reader, and the reader half of what it gets alone: the other half"
    " goes to a group that sends nothing. A flusher waits at the gate meanwhile and is not admitted, on f2fs with the lock of"
    " all writeback. The cause is not known yet.",
    "app.stack.raid1.least": "The cause is not known yet. md chooses the device of each read, and each device has a scheduler"
    " of its own.",
}

CRYPT = ("aesni-intel", "xts", "dm-crypt")
# of AES-256 in XTS mode, which has two keys
KEY = "00112233445566778899aabbccddeeff" * 2 + "0f1e2d3c4b5a69788796a5b4c3d2e1f0" * 2
# of the second eMMC of the mirror: the same as of the first one
SECOND = " ".join(f"{k}={v}" for k, v in {"regions": 8, "capacity_mb": DEVICE.capacity_mb, **GC}.items())

EXPERIMENTS = [
    above("none", "no layer", board=True),
    above(
        "crypt", "above dm-crypt", programs=("fio", "dmsetup"), modules=CRYPT, KEY=KEY,
    ),
    above(
        "crypt-inline", "above dm-crypt without its work queues", programs=("fio", "dmsetup"), modules=CRYPT,
        KEY=KEY,
    ),
    rivals(
        "app.stack.delay", f"random reads 64 KiB QD128 : writes 256 KiB QD64 : the same, above dm-delay of {DELAY_MS} ms",
        "delay", DELAYED, programs=("fio", "dmsetup"), modules=("dm-delay",), board=True, DELAY_MS=DELAY_MS,
    ),
    above(
        "raid1", "above an md RAID1 of two devices", programs=("fio", "mdadm"), modules=("raid1",), PRESET=PRESET,
        SECOND_SETTINGS=f"{SECOND} seed=$SEED",
    ),
    rivals(
        "app.verity", "random reads 64 KiB QD8 above dm-verity : raw reads 512 KiB QD4", "verity", VERITY, device=STORED,
        programs=("fio", "veritysetup", "dmsetup"), board=True, alone=4, window=6, BLOCKS=SIGNED,
    ),
    rivals(
        "app.zoned", "zoned device of 100 MB/s: writes 256 KiB QD8 : the same", "none", ZONED, device=ZONES, count="groups",
        deep=True,
    ),
    on_files("ext4", board=True),
    on_files("f2fs", ("crc32_generic", "f2fs")),
    on_files("btrfs", ("btrfs",)),
]  # fmt: skip
