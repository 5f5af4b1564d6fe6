# SPDX-License-Identifier: Apache-2.0
"""ek-writer and ek-disturb as processes, on a real file system."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from harness import DISTURB, WRITER, in_order, refused, run, running, stopped, summary, wait_for


@pytest.mark.parametrize("allocate", ["append", "preallocate"])
@pytest.mark.parametrize("sync", ["none", "fdatasync", "range"])
@pytest.mark.parametrize("thread", [False, True])
def test_every_way_to_record(disk: Path, allocate: str, sync: str, thread: bool) -> None:
    if thread and sync == "none":
        pytest.skip("a sync thread needs a sync")
    file = disk / "record"
    row = summary(
        *(WRITER, "--record", "16k", "--every", "1ms", "--total", "1000000", "--writes", "200"),
        *("--allocate", allocate, "--sync", sync, "--sync-every", "100kB", "--buckets", str(file)),
        *(["--sync-thread"] if thread else []),
    )
    # A recording has room for 61 records. 200 writes are three full recordings, and 17 records of a fourth.
    assert (row["writes"], row["recordings"], row["bytes"]) == (200, 4, 200 * 16384)
    assert file.stat().st_size == 17 * 16384
    # blocks that were allocated but not used have been freed
    assert file.stat().st_blocks * 512 <= 17 * 16384 + 65536
    assert row["seconds"] >= 0.19
    if sync == "none":
        assert row["syncs"] == 0
    elif thread:
        assert 1 <= row["syncs"] <= 200 * 16384 // 100_000
    else:
        # one sync after each seventh write: 8 in a recording of 61 records, 2 in one of 17
        assert row["syncs"] == 3 * 8 + 2
    in_order(row, "write")
    in_order(row, "sync")
    assert sum(count for _, count in row["write_us"]) == 200


def test_preallocated_blocks_exist_during_the_recording(disk: Path) -> None:
    file = disk / "record"
    with running(WRITER, "--allocate", "preallocate", "--total", "20MB", "--json", str(file)) as proc:
        # Waiting for the size is enough: fallocate() allocates the blocks before it sets the size.
        wait_for(lambda: file.exists() and file.stat().st_size == 20_000_000)
        assert file.stat().st_blocks * 512 >= 20_000_000
        row = stopped(proc)
    assert row["writes"] < 20_000_000 // 16384
    assert file.stat().st_size == row["writes"] * 16384


def test_writes_keep_their_period(disk: Path) -> None:
    began = time.monotonic()
    row = summary(WRITER, "--every", "2ms", "--total", "1M", "--record", "4K", str(disk / "record"))
    assert time.monotonic() - began > 0.5
    assert row["writes"] == 256


def test_late_writes_are_counted_and_follow_at_once(disk: Path) -> None:
    # no machine writes 8 MiB in 10 us
    row = summary(
        *(WRITER, "--record", "8M", "--every", "10us", "--total", "64M", "--sync", "none"),
        str(disk / "record"),
    )
    assert row["writes"] == 8
    # the first write may be in time
    assert row["late"] in (7, 8)
    assert row["worst_delay_us"] > 10


def test_a_failed_write_is_reported_in_one_line(disk: Path) -> None:
    refused(
        run("sh", "-c", f'ulimit -f 8; trap "" XFSZ; exec {WRITER} --every 1ms {disk}/record'),
        1,
        "File too large",
    )


def test_an_existing_file_is_replaced_only_with_replace(disk: Path) -> None:
    file = disk / "record"
    file.write_text("precious")
    for program in ([WRITER], [DISTURB, "truncate"], [DISTURB, "allocate"]):
        refused(run(*program, str(file)), 1, "exists already. --replace removes it first")
    assert file.read_text() == "precious"
    row = summary(WRITER, "--replace", "--total", "64K", str(file))
    assert row["writes"] == 4
    refused(run(WRITER, "--replace", str(disk)), 1, "is not a regular file, so it is not replaced")


def test_truncate_removes_one_step_each_period(disk: Path) -> None:
    file = disk / "victim"
    with running(DISTURB, "truncate", "--total", "2M", "--every", "20ms", "--json", str(file)) as proc:
        sizes = set()
        until = time.monotonic() + 1
        while time.monotonic() < until:
            sizes.add(file.stat().st_size if file.exists() else 0)
            time.sleep(0.005)
        row = stopped(proc)
    assert sizes <= {n * 262144 for n in range(9)}
    assert len(sizes) >= 3
    assert row["passes"] == -(-row["calls"] // 8)
    assert row["bytes"] == row["calls"] * 262144
    assert not file.exists()
    in_order(row, "call")


def test_allocate_allocates_new_blocks_each_period(disk: Path) -> None:
    file = disk / "taken"
    with running(DISTURB, "allocate", "--size", "8M", "--every", "10ms", "--json", str(file)) as proc:
        wait_for(lambda: file.exists() and file.stat().st_blocks * 512 >= 8 << 20)
        first = file.stat().st_ctime_ns
        # the change time of the file moves on when its blocks are freed and allocated again
        wait_for(lambda: file.stat().st_ctime_ns > first + 20_000_000)
        row = stopped(proc)
    assert row["calls"] == row["passes"] >= 2
    assert row["bytes"] == row["calls"] * (8 << 20)
    assert not file.exists()


@pytest.mark.parametrize("direct", [[], ["--direct"]])
def test_read_goes_on_at_the_end_of_the_file(disk: Path, direct: list[str]) -> None:
    file = disk / "data"
    file.write_bytes(bytes(5_000_001))
    row = summary(DISTURB, *direct, "--duration", "1", "read", "--size", "1M", str(file))
    assert row["passes"] >= 1
    assert row["bytes"] >= row["passes"] * 5_000_001
    assert row["mbps"] > 0
    assert file.stat().st_size == 5_000_001


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        ([WRITER], 2, "expected one file to write, but got 0"),
        ([WRITER, "--record", "0", "F"], 2, "--record: '0' is not between 1 and"),
        ([WRITER, "--every", "5msec", "F"], 2, "--every: '5msec' is not a time"),
        ([WRITER, "--every", "0", "F"], 2, "--every: '0' is not between 1000 and"),
        ([WRITER, "--total", "1K", "F"], 2, "--total: must hold at least one record"),
        ([WRITER, "--writes", "0", "F"], 2, "--writes"),
        ([WRITER, "--allocate", "some", "F"], 2, "--allocate: 'some' is not one of: append, preallocate"),
        ([WRITER, "--sync", "none", "--sync-thread", "F"], 2, "--sync-thread is for"),
        ([WRITER, "/nonexistent/f"], 1, "cannot create /nonexistent/f: No such file"),
        ([WRITER, "--allocate", "preallocate", "--total", "1000000G", "F"], 1, "cannot allocate"),
        ([DISTURB, "truncate"], 2, "and one file, but got 1"),
        ([DISTURB, "shout", "F"], 2, "'shout' is not one of: truncate, allocate, read"),
        ([DISTURB, "--every", "0", "truncate", "F"], 2, "--every: must be greater than 0"),
        ([DISTURB, "--direct", "allocate", "F"], 2, "--direct is for read only"),
        ([DISTURB, "--replace", "read", "F"], 2, "--replace is for"),
        ([DISTURB, "--size", "5000", "read", "F"], 2, "--size: must be a multiple of 4096"),
        ([DISTURB, "read", "F"], 1, "No such file"),
        ([DISTURB, "read", "/dev/null"], 1, "/dev/null"),
        ([DISTURB, "allocate", "--size", "1000000G", "F"], 1, "cannot allocate"),
    ],
)
def test_bad_input_is_refused_clearly(disk: Path, args: list[str], status: int, message: str) -> None:
    refused(run(*[str(disk / "f") if a == "F" else a for a in args]), status, message)
