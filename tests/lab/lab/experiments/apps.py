# SPDX-License-Identifier: Apache-2.0
"""Applications as users run them, each together with another group: what users notice, and how much is written to flash.

The device is `emmc51` in long use: it collects garbage all the time. Its file system is ext4 with
the mount options of a board's /data, and the guest has a board's sysctls. The scripts are in lab/guest.

- `app.sqlite`, `app.sqlite.wal`: an application commits rows of 1,000 bytes to SQLite, one row per
  commit, while another group writes to another partition. Both have weight 100. In each guest, the
  application first commits without a pause. `per-second` is its rate; `least` is this rate divided by
  the rate alone, divided by the share. Then it commits at planned moments, from which the time of
  each commit counts.
- `app.sqlite.same-fs`: the other group writes to a file on the same ext4, through the page cache.
  ext4 writes the new data of all files before it commits its journal (ordered mode). So each
  fsync waits for up to `vm.dirty_bytes` of the other group's data, with any scheduler. `WRITER`
  is such a load.
- `app.unpack`: a container image is unpacked while a player plays, weights 100:300.
- `app.update`: a system update is written to a spare partition while a player plays, weights 100:300.
- `app.journal`: the real journald, with the board's settings, while another group writes as in
  `app.sqlite.same-fs`. `sync` is the duration of `journalctl --sync` after ten lines.
- `app.swap`: a group whose memory limit is a third of its memory swaps, first while a player plays, then
  while another group reads the raw device (weights 100:300 both times). A swapping group never pauses,
  and its requests are urgent. The reader must get its share nevertheless.

`wear` is the amount that the kernel writes to the device, divided by the amount that the application
writes (MB per MB). The device counts its writes, so `wear` includes journal, metadata and padding. It
does not include what the device copies when it collects garbage. For SQLite and journald, the device
counts while the application is alone.
"""

from __future__ import annotations

import re

from lab import onfs, scripts
from lab.competing import Served
from lab.kernels import COMPARISONS, TOP
from lab.model import Experiment, Figure, Output

DEVICE = onfs.backed("emmc51", gc_after_kb=1)
BASELINES = ("none", "bfq")
# the full bench runs one of these experiments
POOL = ("app", 1)
# size in MiB of the first partition, which has the file system, in experiments with two partitions
FIRST = 2048
# A load like a copy or a download: it writes 1 MiB at a time through the page cache. Its file is larger than what any
# guest can write. So each write needs new blocks, and the journal's commits wait for the data in them.
WRITER = onfs.fio_on("/m/load", "writer", rw="write", bs="1m", size="2500m", direct=False)
# a load like WRITER on the second partition, with direct I/O
OTHER = onfs.fio_on("/dev/${DEV}p2", "writer", rw="write", bs="1m", size="2000m", qd=4)
# the fewest samples that must lie beyond a percentile
BEYOND = 5
# the text of each line that the application logs
LINE = "the pump runs at 1450 rpm, the valve is open, the tank has 63.2 % and 18.4 degrees"


def _written_mb(out: Output, begin: str = "begin", end: str = "end_") -> float:
    return sum(Served.between(out.results[begin], out.results[end]).written) / 1e6


def _player(out: Output) -> list[Figure]:
    p = onfs.last_json(out, "player")
    if not p["bytes"]:
        raise ValueError("the player read nothing")
    return [
        Figure("stalls", p["stalls"], "", "lower"),
        Figure("worst_ms", p["worst_stall_ms"], "ms", "lower"),
        # It shows how close the player came to a stall: the buffer lasts 300 ms.
        Figure("read_max_ms", round(p["read_max_us"] / 1000, 1), "ms", "lower"),
    ]


def sqlite(
    name: str, about: str, *, journal: str, every: str, planned: int, load: str = "", first: int = FIRST
) -> Experiment:
    def figures(out: Output) -> list[Figure]:
        alone, loop, plan = (onfs.last_json(out, s) for s in ("alone", "loop", "planned"))
        if not alone["commits"] or not loop["commits"]:
            raise ValueError("no commit")
        # p99 is a figure only if at least BEYOND samples lie beyond it
        shown = ("p50", "p99", "max") if plan["commits"] >= 100 * BEYOND else ("p50", "max")
        return [
            *(Figure(p, round(plan[f"commit_{p}_us"] / 1000, 2), "ms", "lower") for p in shown),
            Figure("n", plan["commits"], "commits"),
            Figure("per-second", loop["per_second"], "/s", "higher", share_of=("none",)),
            Figure("loop-max", round(loop["commit_max_us"] / 1000, 2), "ms", "lower"),
            Figure("alone-per-second", alone["per_second"], "/s"),
            Figure("alone-p50", round(alone["commit_p50_us"] / 1000, 2), "ms"),
            Figure("least", round(loop["per_second"] / alone["per_second"] / 0.5, 3), "", "higher"),
            Figure("wear", round(_written_mb(out) / (alone["bytes"] / 1e6), 1), "MB/MB", "lower"),
        ]  # fmt: skip

    return Experiment(
        f"app.sqlite{name}", f"SQLite commits {about}, weights 100:100",
        scripts.script("sqlite", JOURNAL=journal, LOAD=load or OTHER, EVERY=every, LOOP=8, PLANNED=planned, FIRST=first),
        figures,
        device=DEVICE, memory=2048, programs=(*scripts.PROGRAMS, "ek-commits", "sfdisk"), files=scripts.files("sqlite"),
        baselines=BASELINES, pool=POOL, timeout=900,
    )  # fmt: skip


def _with_player(out: Output, mb: float) -> list[Figure]:
    """Figures of an application that wrote `mb` MB: first alone, then while the player played."""
    alone, together = (float(out.results[s]) / 1000 for s in ("alone", "together"))
    return [
        *_player(out),
        Figure("mbps", round(mb / together, 2), "MB/s", "higher", share_of=("best",)),
        Figure("seconds", round(together, 2), "s", "lower"),
        Figure("alone-seconds", round(alone, 2), "s"),
        Figure("wear", round(_written_mb(out) / mb, 3), "MB/MB", "lower"),
    ]


def unpack(files: int = 1200, mb: int = 48, rounds: int = 6) -> Experiment:
    return Experiment(
        "app.unpack", f"a container image of {files} files and {mb} MB is unpacked {rounds} times while a player"
        " plays, weights 100:300",
        scripts.script("unpack", FILES=files, MB=mb, ROUNDS=rounds), lambda out: _with_player(out, rounds * mb),
        device=DEVICE, memory=3072, programs=(*scripts.PROGRAMS, "ek-appstart", "tar", "zstd"),
        files=scripts.files("unpack"), baselines=BASELINES, pool=POOL, timeout=900,
    )  # fmt: skip


def update(mb: int = 800) -> Experiment:
    return Experiment(
        "app.update", f"an update of {mb} MiB is written to a spare partition while a player plays, weights 100:300",
        scripts.script("update", MB=mb, FIRST=FIRST), lambda out: _with_player(out, mb * 1.048576),
        device=DEVICE, memory=2048, programs=(*scripts.PROGRAMS, "sfdisk"), files=scripts.files("update"),
        baselines=BASELINES, pool=POOL, timeout=900,
    )  # fmt: skip


def journal(lines: int = 10, syncs: int = 20) -> Experiment:
    def figures(out: Output) -> list[Figure]:
        alone, loaded = (sorted(map(int, out.results[s].split())) for s in ("alone", "loaded"))
        logged = len(alone) * sum(len(f"{n}: {LINE}\n") for n in range(lines)) / 1e6
        return [
            Figure("sync-p50", loaded[len(loaded) // 2], "ms", "lower"),
            Figure("sync-max", loaded[-1], "ms", "lower"),
            Figure("alone-sync-p50", alone[len(alone) // 2], "ms"),
            Figure("wear", round(_written_mb(out) / logged, 1), "MB/MB", "lower"),
        ]

    conf = next((TOP / "conf/systemd/journald.conf.d").glob("*.conf")).read_text()
    return Experiment(
        "app.journal", f"journald makes {lines} lines durable while another group writes to the same file system,"
        " weights 100:100",
        scripts.script("journal", LOAD=WRITER, LINE=LINE, LINES=lines, SYNCS=syncs), figures, device=DEVICE, memory=2048,
        programs=(*scripts.PROGRAMS, "/usr/lib/systemd/systemd-journald", "journalctl", "systemd-cat"),
        files={**scripts.files("journal"), "/guest/journald.conf": f"{conf}ReadKMsg=no\nAudit=no\n"},
        baselines=BASELINES, pool=POOL, timeout=900,
    )  # fmt: skip


def swap(mb: int = 192, limit: str = "64M", played: int = 10, window: int = 8) -> Experiment:
    part = DEVICE.capacity_mb // DEVICE.slices
    slice_ = FIRST // part + 1
    reader = (
        f"fio --name=reader --filename=/dev/$DEV --readonly --direct=1 --ioengine=libaio --rw=randread --bs=64k --iodepth=8"
        f" --offset={slice_ * part}m --size={part}m --norandommap --time_based --runtime=36000 --randseed=$SEED"
        " --output=/tmp/reader.out"
    )

    def figures(out: Output) -> list[Figure]:
        def rate(section: str) -> float:
            return Served.between(out.results[section], out.results[f"{section}-end"]).mbps(slice_)

        def pages(begin: str, end: str) -> float:
            """MB/s that were swapped, in and out."""
            count = [
                sum(map(int, re.findall(r"\d+$", out.results[f"{s}-pages"], re.M))) for s in (begin, end)
            ]
            return (
                4096
                * (count[1] - count[0])
                / Served.between(out.results[begin], out.results[end]).seconds
                / 1e6
            )

        alone, together = rate("reader"), rate("together")
        if not alone:
            raise ValueError("the reader alone was not served")
        big = pages("big", "big-end")
        if not big:
            raise ValueError("the group did not swap")
        return [
            *_player(out),
            Figure("swapped", round(pages("begin", "end_"), 2), "MB/s", "higher"),
            Figure("alone-swapped", round(big, 2), "MB/s"),
            Figure("reader-least", round(together / alone / 0.75, 3), "", "higher"),
            Figure("swap-least", round(pages("together", "together-end") / big / 0.25, 3), "", "higher"),
            Figure("reader", round(together, 2), "MB/s", "higher"),
        ]

    return Experiment(
        "app.swap", f"a group with {mb} MiB of memory and a limit of {limit} swaps, with a player and then with a reader of"
        " the raw device, weights 100:300",
        scripts.script("swap", MB=mb, LIMIT=limit, READER=reader, FIRST=FIRST, PLAYED=played, WINDOW=window), figures,
        device=DEVICE, memory=1536, variant=COMPARISONS, programs=(*scripts.PROGRAMS, "sfdisk"), files=scripts.files("swap"),
        baselines=BASELINES, pool=POOL, timeout=900,
    )  # fmt: skip


# why rows miss their targets, by the pattern of their ids
NOTES = {
    "app.sqlite*.least": "A commit is a series of short writes and flushes. During a flush, the device also programs the data"
    " that the other group has written into its buffer, and collects garbage for them. evenkeel dispatches requests of the"
    " other group while a commit waits for its flush.",
    "app.journal.sync-max": "ext4 writes the new data of all files before it commits its journal. So a sync waits for up to"
    " `vm.dirty_bytes` of the other group's data.",
}

EXPERIMENTS = [
    sqlite(
        "", "with a rollback journal while another group writes to another partition", journal="delete", every="400ms",
        planned=24,
    ),
    sqlite(
        ".wal", "with a write-ahead log while another group writes to another partition", journal="wal", every="100ms",
        planned=20,
    ),
    sqlite(
        ".same-fs", "with a rollback journal while another group writes to the same file system", journal="delete", every="2s",
        planned=16, load=WRITER, first=0,
    ),
    unpack(), update(), journal(), swap(),
]  # fmt: skip
