# SPDX-License-Identifier: Apache-2.0
"""fio's job files and reports. Two tests run the real fio on a file."""

import json
import shutil
import subprocess
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from evenkeel_validate import fio
from evenkeel_validate.cases import MB, Job
from hypothesis import given
from hypothesis import strategies as st

AREA = fio.Area(Path("/data/x"), 64 * MB, 32 * MB)


def options(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)


def test_a_load_that_writes_ends_after_its_bytes() -> None:
    found = options(fio.job_file(Job("a", "write", "1m", 4), AREA, seconds=9.5, limit=10 * MB + 5, seed=7))
    assert found["io_size"] == str(10 * MB)
    assert "time_based" not in found
    assert (found["offset"], found["size"], found["iodepth"], found["direct"]) == (
        str(64 * MB),
        str(32 * MB),
        "4",
        "1",
    )
    assert found["randseed"] == "7"


def test_a_load_that_reads_ends_after_its_time() -> None:
    found = options(fio.job_file(Job("a", "read", "30m"), AREA, seconds=9.5, limit=0, seed=7))
    assert (found["time_based"], found["runtime"]) == ("1", "10")
    assert "io_size" not in found
    # fio would access the part of the next group
    assert found["size"] == str(30 * MB)


def test_a_controller_cannot_compress_what_is_written(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(bytes(4 * MB))
    job = Job("w", "write", "1m", buffered=True)
    (tmp_path / "job").write_text(
        fio.job_file(job, fio.Area(file, 0, 4 * MB), seconds=60, limit=4 * MB, seed=3)
    )
    subprocess.run(["fio", "--output=/dev/null", tmp_path / "job"], check=True)
    content = file.read_bytes()
    for at in range(0, len(content), MB):
        assert len(zlib.compress(content[at : at + MB])) > MB


def test_a_load_that_writes_does_not_pause_to_make_data(tmp_path: Path) -> None:
    """Between two I/Os of 100 MB, that takes a slow processor longer than it may."""
    found = options(
        fio.job_file(Job("w", "write", "100m"), replace(AREA, size=1 << 30), seconds=9, limit=0, seed=7)
    )
    assert found["scramble_buffers"] == "0"  # fio's default is 1
    assert "refill_buffers" not in found


def test_a_colon_in_the_path_separates_no_files(tmp_path: Path) -> None:
    """fio would empty the file x."""
    other, folder = tmp_path / "x", tmp_path / "x:y"
    other.write_bytes(b"kept")
    folder.mkdir()
    (folder / "data").write_bytes(bytes(MB))
    area = fio.areas(folder / "data", MB, 1)[0]
    job = fio.job_file(Job("w", "write", "64k", buffered=True), area, seconds=9, limit=MB, seed=3)
    (tmp_path / "job").write_text(job)
    subprocess.run(["fio", "--output=/dev/null", tmp_path / "job"], check=True)
    assert other.read_bytes() == b"kept"
    assert (folder / "data").read_bytes() != bytes(MB)


def test_an_io_that_is_larger_than_its_area_is_refused() -> None:
    with pytest.raises(ValueError, match="an I/O of 100m does not fit into 32 MiB"):
        fio.job_file(Job("a", "read", "100m"), AREA, seconds=1, limit=0, seed=1)


def test_buffered_loads_use_the_page_cache() -> None:
    found = options(fio.job_file(Job("a", "write", "1m", buffered=True), AREA, seconds=1, limit=MB, seed=1))
    assert (found["direct"], found["ioengine"]) == ("0", "psync")


@given(st.integers(1, 1 << 40), st.integers(1, 8), st.integers(0, 1 << 20))
def test_areas_do_not_overlap(size: int, count: int, first: int) -> None:
    found = fio.areas(Path("x"), size, count, first * 512)
    assert len(found) == count
    for a, b in pairwise(found):
        assert a.offset + a.size == b.offset
    assert found[0].offset == first * 512
    assert found[-1].offset + found[-1].size <= first * 512 + size


def report(**more: Any) -> str:
    side = {"io_bytes": 0, "total_ios": 0, "runtime": 0, "lat_ns": {}}
    read = {"io_bytes": 8192, "total_ios": 2, "runtime": 2000, "lat_ns": {"bins": {"1000": 1, "3000": 1}}}
    return "fio: warning\n" + json.dumps(
        {"jobs": [{"jobname": "a", "error": 0, "read": read, "write": side, "trim": side, **more}]}
    )


def test_a_report_is_read_behind_warnings() -> None:
    found = fio.parse(report())
    assert (found.seconds, found.read, found.written, found.ios, found.bins) == (
        2.0,
        8192,
        0,
        2,
        {1000: 1, 3000: 1},
    )
    assert (found.iops, found.mbps) == (1.0, 8192 / 2e6)


@pytest.mark.parametrize("text", ["", "fio: no such file", "{}", '{"jobs": [{}]}', '{"jobs": 3}', "{"])
def test_what_is_no_report_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="fio printed no report"):
        fio.parse(text)


def test_an_error_of_fio_is_an_error() -> None:
    with pytest.raises(ValueError, match="fio ended with error 5"):
        fio.parse(report(error=5))


def test_counters_of_a_group() -> None:
    text = "8:0 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n179:0 rbytes=30 wbytes=40 rios=3 wios=4 dbytes=0 dios=0\n"
    assert fio.io_stat(text, "179:0") == (30, 40)
    assert fio.io_stat(text, "179:8") == (0, 0)
    assert fio.io_stat("", "179:0") == (0, 0)


def test_the_real_fio_accepts_the_job_files(tmp_path: Path) -> None:
    if not shutil.which("fio"):
        pytest.skip("fio is not installed")
    (tmp_path / "data").write_bytes(bytes(4 * MB))
    area = fio.Area(tmp_path / "data", MB, 2 * MB)
    jobs = {
        "w": (Job("w", "write", "64k", 4), 3 * MB),
        "f": (Job("f", "randwrite", "4k", sync="fsync", buffered=True), 64 << 10),
    }
    for name, (job, limit) in jobs.items():
        text = fio.job_file(job, area, seconds=1, limit=limit, seed=1)
        # a file system in RAM has no direct I/O
        (tmp_path / "job").write_text(text.replace("direct=1", "direct=0"))
        out = tmp_path / f"{name}.json"
        subprocess.run(
            ["fio", "--eta=never", "--output-format=json+", f"--output={out}", str(tmp_path / "job")],
            check=True,
        )
        found = fio.parse(out.read_text())
        assert found.written == limit
        assert sum(found.bins.values()) == found.ios > 0
