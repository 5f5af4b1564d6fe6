# SPDX-License-Identifier: Apache-2.0
"""ek-light-reader as a process: reads start at their planned moments, and late reads count from then."""

from __future__ import annotations

import itertools
import math
import os
import signal
import time
from pathlib import Path

import pytest
from harness import MIB, READER, in_order, refused, run, running, stopped, summary, wait_for

# buffered reads: a file system in RAM has no direct I/O
THROUGH = "--buffered"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MIB))
    return path


def logged(path: Path) -> list[tuple[float, float]]:
    """The reads of a log: planned moment and time, in s."""
    return [(int(a) / 1e9, int(b) / 1e9) for a, b in (line.split() for line in path.read_text().splitlines())]


def test_reads_are_planned_at_fixed_intervals(file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    begin = time.monotonic()
    row = summary(READER, THROUGH, "--readers=1", "--rate=200", "--duration=1s", f"--log={log}", str(file))
    found = logged(log)
    assert 1 < row["reads"] == len(found) <= 201
    in_order(row, "read")
    assert begin <= found[0][0] <= begin + 1
    assert [b[0] - a[0] for a, b in itertools.pairwise(found)] == pytest.approx([1 / 200] * (len(found) - 1))


def test_each_thread_has_an_interval_of_its_own(file: Path, tmp_path: Path) -> None:
    """The intervals are those of reader.py of recipes/validate, which plans the same reads on a model.

    On a busy host, the last planned reads do not begin. So the plan is compared until a second before the end.
    """
    log = tmp_path / "log"
    summary(READER, THROUGH, "--rate=400", "--duration=3s", f"--log={log}", str(file))
    moments = sorted(planned * 1e6 for planned, _ in logged(log))
    left = {round(at) for at in moments if at < moments[0] + 2e6}
    assert len(left) == pytest.approx(800, abs=16)
    parts = [0.75 + 0.5 * (math.sqrt(prime) % 1) for prime in (2, 3, 5, 7, 11, 13, 17, 19)]
    begin, end = min(left), max(left)
    for part in parts:
        interval = 1e6 * sum(parts) / (400 * part)
        rows = (
            [first + n * interval for n in range(int((end + 2 - first) / interval) + 1)]
            for first in sorted(at for at in left if at < begin + interval)
        )
        own = next(row for row in rows if all({round(at) + d for d in (-1, 0, 1)} & left for at in row))
        left -= {round(at) + d for at in own for d in (-1, 0, 1)}
    assert not left


def test_late_reads_count_from_their_planned_moment(file: Path, tmp_path: Path) -> None:
    """A read of 1 MiB takes longer than 1 us. So the reads are ever later, and those that never began count, too."""
    log = tmp_path / "log"
    row = summary(
        *(READER, THROUGH, "--readers=1", "--rate=100000", "--size=1M", "--duration=200ms"),
        *(f"--log={log}", str(file)),
    )
    found = logged(log)
    # A read that has not begun counts, unless only the processor kept it from beginning.
    assert 10_000 < row["reads"] == len(found) <= 20_001
    ends = [planned + took for planned, took in found]
    assert all(later > earlier - 1e-6 for earlier, later in itertools.pairwise(ends))
    # the last ones have waited for most of the time
    assert 0.1 < max(took for _, took in found) < 60


def test_a_wait_for_the_processor_is_no_wait_for_the_device(file: Path, tmp_path: Path) -> None:
    """The program stands still for a second. The reads that it makes up for afterwards waited for no other read."""
    log = tmp_path / "log"
    with running(READER, THROUGH, "--readers=1", "--rate=100", "--json", f"--log={log}", str(file)) as proc:
        time.sleep(0.3)
        proc.send_signal(signal.SIGSTOP)
        time.sleep(1)
        proc.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        row = stopped(proc)
    assert row["reads"] > 10
    assert sorted(took for _, took in logged(log))[len(logged(log)) * 9 // 10] < 0.1


def test_reads_that_settle_do_not_count(file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    begin = time.monotonic()
    row = summary(READER, THROUGH, "--rate=200", "--settle=500ms", "--duration=1s", f"--log={log}", str(file))
    assert 0 < row["reads"] <= 108
    assert min(planned for planned, _ in logged(log)) >= begin + 0.5


def test_a_signal_ends_it_with_all_its_reads(file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    begin = time.monotonic()
    with running(READER, THROUGH, "--rate=200", "--json", f"--log={log}", str(file)) as proc:
        wait_for(lambda: time.monotonic() > begin + 0.5)
        row = stopped(proc)
    assert row["reads"] == len(logged(log)) > 0
    assert not any(planned > time.monotonic() for planned, _ in logged(log))


def test_the_area_of_several_files(tmp_path: Path) -> None:
    """The area is the last third of each file. A read behind it would get no data, which is an error."""
    files = [tmp_path / str(n) for n in range(4)]
    for path in files:
        path.write_bytes(bytes(3 * MIB))
    row = summary(
        *(READER, THROUGH, "--rate=1000", "--duration=500ms", "--size=64K", "--offset=2M", "--length=1M"),
        *map(str, files),
    )
    assert 0 < row["reads"] <= 508


def test_errors(file: Path, tmp_path: Path) -> None:
    refused(run(READER, str(tmp_path / "missing")), 1, "No such file or directory")
    refused(run(READER, THROUGH, "--offset=1M", "--length=4K", str(file)), 1, "has only 1048576 bytes")
    refused(run(READER, THROUGH, "--size=2M", str(file)), 1, "smaller than one read of 2097152 bytes")
    refused(run(READER), 2, "expected one file to read, or more")
    refused(run(READER, "--size=1K", str(file)), 2, "must be multiples of 4096 bytes without --buffered")
    refused(
        run(READER, "--settle=1s", "--duration=1s", str(file)), 2, "--settle must be shorter than --duration"
    )
    refused(run(READER, "--rate=0", str(file)), 2, "--rate")
    refused(
        run(READER, THROUGH, "--duration=100ms", f"--log={tmp_path}/no/log", str(file)), 1, "cannot create"
    )


def test_a_file_that_becomes_shorter_is_an_error(file: Path) -> None:
    with running(READER, THROUGH, "--rate=100", str(file)) as proc:
        time.sleep(0.2)
        os.truncate(file, 0)
        _, err = proc.communicate(timeout=10)
    assert (proc.returncode, err.count("\n")) == (1, 1)
    assert "it has become shorter" in err
