# SPDX-License-Identifier: Apache-2.0
"""Helpers for experiments on a file system: ext4 on a device that stores data, and loads on files."""

from __future__ import annotations

import json
from typing import Any

from lab.model import Device, Output, flashsim

PROGRAMS = ("fio", "mkfs.ext4")


def player(seconds: int) -> str:
    """The command of the player (recipes/loads): it plays `seconds` of a movie and reads 300 ms ahead.

    The movie is that of Hasegawa et al., "Improving responsiveness by guaranteeing
    storage I/O bandwidth": 41.9 MB in 60 s.
    """
    return (
        f"ek-player --movie {41.9 * seconds / 60:.2f}MB --movie-seconds {seconds} --movies 1 --buffered"
        " --cold --advise player --chunk 32K --buffer-ms 300 --index 16K --index-every 5 --json"
    )


def backed(preset: str, *, capacity_mb: int = 4096, **override: int) -> Device:
    """A flash model that stores data. Pages of zeros take no memory."""
    return flashsim(preset, capacity_mb=capacity_mb, memory_backed=1, **override)


def mounted(options: str = "noatime", *, files: str = "") -> str:
    """Guest commands that create an ext4 at /m with `files` (NAME:SIZE …), filled with zeros.

    The page cache is empty afterwards, and the device has no scheduler yet. `lay NAME SIZE`
    creates further files. mkfs.ext4 itself initialises the inode tables, so that no
    background thread of the kernel writes them during the measurement.
    """
    return "\n".join(
        [
            "device",
            'echo none > "/sys/block/$DEV/queue/scheduler"',
            'mkfs.ext4 -q -F -N 32768 -E lazy_itable_init=0,lazy_journal_init=1,nodiscard "/dev/$DEV"'
            ' > /tmp/mkfs 2>&1 || fail "mkfs.ext4: $(tail -n 1 /tmp/mkfs)"',
            "mkdir -p /m",
            f'mount -t ext4 -o {options} "/dev/$DEV" /m || fail "cannot mount ext4"',
            # Direct writes, not preallocation: so the extents are marked as written, as in a file that is in use.
            'lay() { fio --name=lay --filename="/m/$1" --size="$2" --bs=4m --rw=write --direct=1'
            ' --ioengine=libaio --iodepth=4 --zero_buffers --fallocate=none --output=/tmp/lay || fail "cannot write $1"; }',
            *(f"lay {name} {size}" for name, size in (f.split(":") for f in files.split())),
            "sync; echo 3 > /proc/sys/vm/drop_caches",
        ]
    )


def fio_on(
    path: str, name: str, *, rw: str, bs: str, size: str, qd: int = 1, direct: bool = True, extra: str = ""
) -> str:
    """A fio job on one file; /tmp/NAME.json is its report. Without a runtime in `extra` it runs until the guest ends."""
    runtime = "" if "--runtime" in extra else " --runtime=36000"
    return (
        f"fio --name={name} --filename={path} --size={size} --direct={int(direct)} --ioengine=libaio"
        f" --rw={rw} --bs={bs} --iodepth={qd} --time_based{runtime} --output-format=json"
        f" --output=/tmp/{name}.json --eta=never --zero_buffers"
        f" --fallocate=none --random_generator=tausworthe64 --randseed=$SEED {extra}"
    ).rstrip()


def last_json(out: Output, section: str) -> dict[str, Any]:
    """The JSON object that a program of this project printed as its last line."""
    parsed: dict[str, Any] = json.loads(out.results[section].strip().splitlines()[-1])
    return parsed
