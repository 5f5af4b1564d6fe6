# SPDX-License-Identifier: Apache-2.0
"""Weights above layers: encryption, signed data, mirrors, delays, other file systems, and zoned devices.

Between the groups and the scheduler there may be layers with threads of their own. Two things can go
wrong. A layer may lose the group of an I/O. And the gate lets submitters wait: if all groups share one
submitting thread, a wait for one group delays all groups.

- `app.stack.*`: three groups above one layer: `reads` (weight 100) reads, `heavy` and `light` write
  (300 and 100). The layers are dm-crypt as cryptsetup sets it up, dm-crypt without its work queues
  (`crypt-inline`), dm-delay, and an md RAID1 of two eMMCs. `none` is the load without a layer, for
  comparison.
- `app.verity`: a group reads a signed device through dm-verity (weight 300), another group reads the raw
  device (100).
- `app.zoned`: two groups write to a zoned device. The block layer keeps the writes to a zone in order. A
  thread of the block layer submits the writes that had to wait.
- `app.files.*`: the three groups of `app.stack.*` on files of ext4, f2fs and btrfs. `heavy` and `light`
  write through the page cache.

Each group first runs alone, in the same guest, above the same layer, and without a scheduler. A group's
part is its throughput together with the others, divided by its throughput alone. `part-NAME` is the part
divided by the share, and `least` is the smallest of these (in promise.*, `part-NAME` is not divided).

On a device, the flash model counts by slice. On files and on the zoned device, the kernel counts by group,
at submission. `charged` compares the two: what the kernel counted for the groups, in percent of what the
device served. The rest is what a file system wrote without charging it to one of the groups.

The device is `emmc51` in long use; for `app.zoned` it is a null_blk. Without a layer, evenkeel keeps its promise
on `emmc51`: `app.stack.none`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab import onfs, scripts
from lab.competing import need_any
from lab.kernels import COMPARISONS
from lab.model import Device, Experiment, Figure, Output, flashsim, null_blk

PRESET = "emmc51"
# the device collects garbage from the start, as in long use
GC = {"gc_after_kb": 1}
DEVICE = flashsim(PRESET, **GC)
STORED = onfs.backed(PRESET, **GC)
BASELINES = ("none", "bfq")
# the full bench runs one of these experiments
POOL = ("app.stack", 1)
TOP = "/dev/mapper/top"
# seconds before a count begins; seconds of the count of a group alone, and of all groups together
SETTLE, ALONE, WINDOW = 2, 5, 9
# number of blocks of 4 KiB that dm-verity covers
SIGNED = 32768
# With a delay below 50 ms, a thread of dm-delay would poll all the time (delay_is_fast()).
DELAY_MS = 60
PROGRAMS = ("fio",)
# If the kernel counts by group, the line with this number has the device's own count.
WHOLE = 99


@dataclass(frozen=True)
class Rival:
    """One of the competing groups, with its fio job."""

    name: str
    weight: int
    options: str

    def line(self) -> str:
        return f"{self.name} {self.weight} {self.options}"


def _raw(
    name: str, weight: int, slice_: int, options: str, where: str = TOP, size_mb: int = 0, device: Device = DEVICE
) -> Rival:  # fmt: skip
    """A rival whose I/O goes to one slice of the device, through `where`."""
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
# so many I/Os outstanding that the device is fully used in spite of the delay
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

# a zoned device with 100 MB/s that takes 64 commands at once
ZONES = null_blk(gb=16, zoned=1, zone_size=64, mbps=100, irqmode=2, hw_queue_depth=64)
ZONED = tuple(
    Rival(
        name, weight, f"--filename={TOP} --direct=1 --ioengine=libaio --offset={8192 * i}m --size=8192m --zonemode=zbd"
        " --rw=write --bs=256k --iodepth=8",
    )
    for i, (name, weight) in enumerate((("heavy", 300), ("light", 100)))
)  # fmt: skip


def _counts(text: str) -> tuple[float, dict[int, int]]:
    """The time in s, and the bytes that each slice or group has read and written. The counts of two devices are added."""
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
    """Rivals above the layer `stack`, or on a file system of this type.

    - `count`: what counts, as COUNT of guest/rivals.sh.
    - `board`: the board's kernel has all that the layer needs.
    - `alone`, `window`: seconds of the count of each rival alone, and of all together.
    - `values`: further variables of the guest's scripts.
    """
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
    "app.files.*.least": "While the reader reads, both writers get nothing, and the reader gets only half of its throughput"
    " alone. The other half of the device goes to a group that sends no requests. A flusher waits at the gate and is not"
    " admitted. On f2fs, it holds the lock that all writeback needs. The cause is not known yet.",
    "app.stack.raid1.least": "The cause is not known yet. md chooses the device of each read, and each device has a scheduler"
    " of its own.",
}

CRYPT = ("aesni-intel", "xts", "dm-crypt")
# the key of AES-256 in XTS mode: two keys of 256 bits
KEY = "00112233445566778899aabbccddeeff" * 2 + "0f1e2d3c4b5a69788796a5b4c3d2e1f0" * 2
# settings of the mirror's second eMMC, the same as those of the first one
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
