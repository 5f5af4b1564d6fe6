# SPDX-License-Identifier: Apache-2.0
"""fio's job files and reports. Two tests run the real fio on a file."""

import json
import math
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


def test_planned_reads_are_shared_among_readers() -> None:
    text = fio.job_file(
        Job("r", "randread", "4k", per_second=100), AREA, seconds=1, limit=0, seed=5, log=Path("/run/r")
    )
    assert text.count("\n[r") == fio.READERS
    assert len({line for line in text.splitlines() if line.startswith("randseed")}) == fio.READERS
    assert options(text)["write_lat_log"] == "/run/r"


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


@given(st.dictionaries(st.integers(1, 10**10), st.integers(1, 1000), min_size=1))
def test_percentiles_and_curves_agree_with_sorted_samples(bins: dict[int, int]) -> None:
    samples = sorted(ns for ns, count in bins.items() for _ in range(count))
    for share in (0.5, 0.9, 0.99, 1.0):
        index = max(math.ceil(share * len(samples)) - 1, 0)
        assert fio.percentile(bins, share) == samples[index] / 1000
    curve = fio.curve(bins)
    assert curve == sorted(curve)
    assert curve[-1] == (samples[-1] / 1000, 1.0)
    assert len(curve) <= fio.POINTS + 1
    for us, share in curve:
        assert share == pytest.approx(sum(s / 1000 <= us for s in samples) / len(samples))


def test_without_samples_there_is_no_percentile() -> None:
    assert math.isnan(fio.percentile({}, 0.5))
    assert fio.curve({}) == []


def lines(*ns: int, every_s: float = 0) -> str:
    """The log of a reader whose reads took NS. One completed EVERY_S. The first one never counts."""
    return "".join(f"{round(1000 * every_s * i)}, {n}, 0, 4096\n" for i, n in enumerate((0, *ns)))


def test_a_late_read_delays_the_planned_reads_behind_it() -> None:
    """The first reader plans a read each 0.5 s: the first takes 1.2 s, the others none. They waited 0.7 and 0.2 s."""
    job = Job("r", "randread", "4k", per_second=round(2 * fio.READERS / 0.75))
    interval = 4096e9 / fio.rates(4096 * job.per_second / fio.READERS, fio.READERS)[0]
    late = round(2.4 * interval)
    others = [lines(*[0] * 20)] * (fio.READERS - 1)
    bins = fio.logged([lines(late, 0, 0, 0), *others], job, 2.0)
    assert [ns / interval for ns in sorted(bins) if ns] == pytest.approx([0.4, 1.4, 2.4], abs=0.01)


def test_reads_that_never_started_count() -> None:
    """The first reader plans a read each 4/3 s. In 6 s, it starts two of five."""
    job = Job("r", "randread", "4k", per_second=fio.READERS)
    others = [lines(*[0] * 9)] * (fio.READERS - 1)
    found = sorted(ns for ns in fio.logged([lines(100), *others], job, 6.0) if ns)
    assert found == pytest.approx([100, 2e9, 2e9 + 4e9 / 3], abs=1e7)


@pytest.mark.parametrize("stop_s", [0.0, 0.09, 0.15])
def test_reads_that_fio_did_not_begin_do_not_count(stop_s: float) -> None:
    """fio is stopped after 10 s, and ends STOP_S later, because a reader sleeps until its next read."""
    job = Job("r", "randread", "4k", per_second=100)
    every = [4096 / rate for rate in fio.rates(4096 * job.per_second / fio.READERS, fio.READERS)]
    logs = [lines(*[2000] * int(10 / each), every_s=each) for each in every]
    bins = fio.logged(logs, job, 10 + stop_s)
    assert set(bins) == {2000}
    assert sum(bins.values()) == pytest.approx(1000, abs=fio.READERS)


def test_a_stall_until_the_end_counts() -> None:
    """After 9 s, no read completes. All reads that were planned for the last second have waited."""
    job = Job("r", "randread", "4k", per_second=100)
    every = [4096 / rate for rate in fio.rates(4096 * job.per_second / fio.READERS, fio.READERS)]
    logs = [lines(*[2000] * (int(9 / each) - 1), every_s=each) for each in every]
    waited = sorted(
        ns for ns, count in fio.logged(logs, job, 10.0).items() if ns > 2000 for _ in range(count)
    )
    assert len(waited) == pytest.approx(100, abs=2 * fio.READERS)
    assert waited[-1] / 1e9 == pytest.approx(1, abs=max(every))


def test_reads_before_the_window_do_not_count() -> None:
    """In the first second, reads take 50 ms, longer than planned, so that they delay others until 1.5 s."""
    job = Job("r", "randread", "4k", per_second=fio.READERS * 20)
    every = [4096 / rate for rate in fio.rates(4096 * job.per_second / fio.READERS, fio.READERS)]
    logs = [lines(*[50_000_000] * 20, *[2000] * (int(10 / each) - 20), every_s=each) for each in every]
    assert max(fio.logged(logs, job, 10.0)) > 2000
    assert set(fio.logged(logs, job, 10.0, settle=3.0)) == {2000}
    # without the reads of the first 3 of 10 s
    whole, later = (sum(fio.logged(logs, job, 10.0, settle=s).values()) for s in (0.0, 3.0))
    assert whole - later == pytest.approx(3 * job.per_second, abs=fio.READERS)


def test_the_log_of_each_reader_is_needed() -> None:
    with pytest.raises(ValueError, match="the logs of 1 of 8 readers"):
        fio.logged([lines(100)], Job("r", "randread", "4k", per_second=fio.READERS), 1.0)


def test_readers_do_not_read_in_step() -> None:
    text = fio.job_file(Job("r", "randread", "4k", per_second=100), AREA, seconds=1, limit=0, seed=5)
    found = [int(line.partition("=")[2]) for line in text.splitlines() if line.startswith("rate=")]
    assert len(set(found)) == fio.READERS
    assert sum(found) == pytest.approx(100 * 4096, rel=0.001)


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
        "r": (Job("r", "randread", "4k", per_second=80), 0),
    }
    for name, (job, limit) in jobs.items():
        text = fio.job_file(
            job, area, seconds=1, limit=limit, seed=1, log=tmp_path / "r" if name == "r" else None
        )
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
    logs = [p.read_text() for p in sorted(tmp_path.glob("r_lat.*.log"))]
    assert len(logs) == fio.READERS
    assert sum(fio.logged(logs, jobs["r"][0], 1.0).values()) == pytest.approx(80, abs=16)
