# SPDX-License-Identifier: Apache-2.0
"""`ek-recorder bench --paper`: its output, its refusals, and its cleanup.

ek-writer and ek-disturb are fakes that log how they were called. The recorder is the real one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src/python"))
from board import BUILD, RECORDER, wait_for
from ek_recorder.bench import board, boxplot, paper, rows
from ek_recorder.bench.__main__ import main
from ek_recorder.bench.table import table

PACKAGES = Path(__file__).resolve().parents[1] / "src/python"
# fake values for /proc/sys/vm, which belongs to the whole machine
SYSCTLS = {
    "dirty_ratio": "20",
    "dirty_bytes": "0",
    "dirty_background_ratio": "0",
    "dirty_background_bytes": "16777216",
    "dirty_expire_centisecs": "1500",
}
WRITER = """
import json, sys, os
from pathlib import Path
with open(os.environ["CALLS"], "a") as f:
    print("writer", Path(os.environ["VM"], "dirty_expire_centisecs").read_text().strip(), *sys.argv[1:], file=f)
Path(sys.argv[-1]).write_bytes(b"x" * 4096)
took = {"min": 10, "p25": 12, "p50": 13, "p75": 14, "p9999": 90, "max": 100, "avg": 15}
print(json.dumps({"writes": 50, "late": 1, **{f"write_{k}_us": v for k, v in took.items()}}))
"""
DISTURB = """
import json, signal, sys, time, os
from pathlib import Path
with open(os.environ["CALLS"], "a") as f:
    print("disturb", *sys.argv[1:], file=f)
if "read" not in sys.argv:
    Path(sys.argv[-1]).write_bytes(b"x" * 4096)
def end(*_):
    print(json.dumps({"mbps": 40 if "--duration" not in sys.argv else 50}))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
if "--duration" not in sys.argv:
    time.sleep(float(os.environ.get("HOLD", "600")))
end()
"""


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for recordings on a disk, with fakes of the other programs in PATH. Must be empty at the end."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, text in (("ek-writer", WRITER), ("ek-disturb", DISTURB)):
        (bin_ / name).write_text(f"#!{sys.executable}\n{text}")
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("PYTHONPATH", str(PACKAGES))
    monkeypatch.setenv("VM", str(tmp_path / "vm"))
    monkeypatch.setattr(board, "VM", tmp_path / "vm")
    (tmp_path / "vm").mkdir()
    for name, value in SYSCTLS.items():
        (tmp_path / "vm" / name).write_text(value + "\n")
    with tempfile.TemporaryDirectory(dir=BUILD.resolve(), prefix="bench-") as directory:
        yield Path(directory)
        assert list(Path(directory).iterdir()) == []


def bench(at: Path, *options: str) -> int:
    return main(["--recorder", RECORDER, "--directory", str(at), *options])


def sysctls(tmp_path: Path) -> dict[str, str]:
    return {name: (tmp_path / "vm" / name).read_text().strip() for name in SYSCTLS}


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  trusted input


def calls(tmp_path: Path) -> list[list[str]]:
    return [line.split() for line in (tmp_path / "calls").read_text().splitlines()]


def test_it_reports_that_the_python_package_is_not_installed() -> None:
    if not subprocess.run(
        ["python3", "-I", "-c", "import ek_recorder"], capture_output=True, check=False
    ).returncode:
        pytest.skip("the recorder is installed here")
    out = subprocess.run([RECORDER, "bench", "--paper"], capture_output=True, text=True, check=False)
    assert (out.returncode, out.stdout) == (1, "")
    assert out.stderr == (
        "ek-recorder bench: --paper needs the Python package ek_recorder, which python3 finds only where the recorder"
        " is installed\n"
    )


def test_the_program_runs_the_python_package(tmp_path: Path, at: Path) -> None:
    python = tmp_path / "bin/python3"
    # drop -I, so that python3 finds the package by PYTHONPATH
    python.write_text(f'#!/bin/sh\n[ "$1" = -I ] && shift\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for more, status in ((["--help"], 0), (["--sets", "0"], 2), (["--cases", "x"], 2)):
        out = subprocess.run(
            [RECORDER, "bench", "--paper", *more], capture_output=True, text=True, check=False
        )
        assert out.returncode == status
        assert "ek-recorder bench" in (out.stderr if status else out.stdout)
    assert not out.stdout


def test_paper_toml_has_all_cases() -> None:
    cases = paper.cases()
    assert len(cases) == 14
    assert len([c for c in cases if c.reader_keeps]) == 2
    assert all(c.min < c.avg < c.max for c in cases)
    assert {c.recorder_case for c in cases} == {"quiet", "bgtrunc", "bgall", "read"}
    assert next(c for c in cases if c.name == "wpre-sdata-fon-bgall").max == 121756


def test_it_measures_and_prints_the_papers_figures_next_to_it(
    at: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--rows", str(tmp_path / "rows.json"), "--plot", str(tmp_path / "plot.svg")]
    assert bench(at, "--writes", "50", "--sets", "2", "--cases", "none,all-bgall,all-read", *files) == 0
    out = capsys.readouterr().out
    lines = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith(("NONE", "ALL-"))
    }
    # the columns: the paper, write(), the recorder
    assert lines["NONE"][:6] == ["141", "259", "4,454", "10", "15", "100"]
    assert len(lines["ALL-BGALL"]) == 9
    assert "a concurrent reader keeps 78 % (paper), 80 % with write(), 80 % with ek-recorder" in out
    found = rows.load(tmp_path / "rows.json")
    known = rows.values(found)
    assert known["rec.base.all-bgall.late"] == 2
    assert 0 < known["rec.ek.quiet.min"] <= known["rec.ek.quiet.p50"] <= known["rec.ek.quiet.max"]
    assert known["rec.ek.read.reader-keeps"] == 80
    assert {r["clock"] for r in found} == {"host"}
    parsed((tmp_path / "plot.svg").read_text())
    called = calls(tmp_path)
    writers = [c for c in called if c[0] == "writer"]
    assert len(writers) == 6
    assert all(c[c.index("--writes") + 1] == "50" for c in writers)
    assert "append" in writers[0]
    # the background program ran once with write() and once with the recorder
    assert len([c for c in called if c[0] == "disturb" and "allocate" in c]) == 2


def test_the_flusher_is_stopped_for_its_cases_only(at: Path, tmp_path: Path) -> None:
    assert bench(at, "--writes", "5", "--sets", "1", "--cases", "none,all") == 0
    assert [c[1] for c in calls(tmp_path)] == ["1500", "300000"]
    # of each pair, the value in force was restored; the real kernel then sets the other to 0
    assert sysctls(tmp_path) == {**SYSCTLS, "dirty_background_ratio": "100"}


def test_the_flushers_settings_are_restored_after_an_interrupt(at: Path, tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    with contextlib.suppress(KeyboardInterrupt), board.flusher_off():
        seen = sysctls(tmp_path)
        raise KeyboardInterrupt
    assert (seen["dirty_ratio"], seen["dirty_background_ratio"]) == ("100", "100")
    assert seen["dirty_expire_centisecs"] == "300000"
    assert sysctls(tmp_path)["dirty_ratio"] == "20"
    assert sysctls(tmp_path)["dirty_expire_centisecs"] == "1500"


def test_cases_without_the_flusher_are_skipped_if_not_permitted(
    at: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vm/dirty_expire_centisecs").unlink()
    assert bench(at, "--writes", "5", "--sets", "1", "--cases", "all") == 0
    out = capsys.readouterr()
    assert "ALL with write(): skipped, because only root" in out.err
    assert next(line for line in out.out.splitlines() if line.startswith("ALL ")).split()[4:7] == ["–"] * 3


def test_it_refuses_where_a_channel_is_recorded(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (at / "arm").mkdir()
    fd = os.open(at / "arm", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    status = bench(at, "--cases", "none")
    os.close(fd)
    (at / "arm").rmdir()
    message = capsys.readouterr().err
    assert status == 2
    assert "channel arm" in message
    assert "systemctl stop ek-recorder.socket ek-recorder" in message


def test_it_refuses_without_enough_space(
    at: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(board, "NEEDED_MIB", 1 << 40)
    assert main(["--directory", str(at), "--cases", "none"]) == 2
    assert f"MiB free, but {1 << 40} MiB are needed" in capsys.readouterr().err


def test_it_refuses_where_the_partition_is_not_mounted(
    at: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(board, "PARTITION", at)
    assert bench(at, "--cases", "none") == 2
    assert f"{at}: nothing is mounted there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cases", "nine"], "--cases: unknown case nine; use none, all"),
        (["--writes", "0"], "must be a number from 1"),
        (["--directory", "/nonexistent"], "is not a directory"),
        (["--from", "/nonexistent"], "No such file"),
    ],
)
def test_wrong_options_are_reported_in_one_line(at: Path, options: list[str], message: str) -> None:
    out = subprocess.run(
        [sys.executable, "-m", "ek_recorder.bench", *options], capture_output=True, text=True, check=False
    )
    assert out.returncode in (1, 2)
    assert message in out.stderr
    assert "Traceback" not in out.stderr


def test_a_second_bench_is_refused_and_does_not_touch_the_first(
    at: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (at / board.FOLDER).mkdir()
    fd = os.open(at / board.FOLDER, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert bench(at, "--cases", "none") == 2
    os.close(fd)
    assert "another bench is running" in capsys.readouterr().err
    # the next bench removes what a power cut left
    (at / board.FOLDER / "rec").write_bytes(b"x")
    assert bench(at, "--writes", "5", "--sets", "1", "--cases", "none") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_leaves_nothing(at: Path, tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [
            sys.executable, "-m", "ek_recorder.bench", "--recorder", RECORDER, "--directory", str(at),
            "--writes", "100000", "--cases", "all-bgall",
        ],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        wait_for(lambda: len(list((at / board.FOLDER).glob("bench/*.seg"))) == board.SEGMENTS)
        # until its recorder and the background programs run
        wait_for((tmp_path / "calls").exists)
        time.sleep(0.3)
        process.send_signal(number)
        assert process.stderr
        message = process.stderr.read()
        assert process.wait(20) == 1, message
    assert "interrupted; its files were removed" in message
    assert not (at / board.FOLDER).exists()
    running = subprocess.run(["pgrep", "-f", str(at)], capture_output=True, text=True, check=False).stdout
    assert running == ""


def known() -> dict[str, float]:
    """Figures of the lab: the case NONE, and the recorder's case to compare with."""
    box = {"min": 1.9, "p25": 1.9, "p50": 2.0, "p75": 2.1, "max": 5.9, "avg": 2.0}
    return {
        **{f"rec.ek.quiet.{m}": v for m, v in box.items()},
        **{f"rec.base.none.{m}": v * 9 for m, v in box.items()},
    }


def test_cases_that_were_not_measured_are_dashes_and_not_plotted() -> None:
    text = table(paper.cases(), known())
    assert len({len(line) for line in text.splitlines()[1:]}) == 1
    bgall = next(line for line in text.splitlines() if line.startswith("ALL-BGALL"))
    assert bgall.split()[4:] == ["–"] * 6
    drawn = boxplot.draw(paper.cases(), known(), "a <title>", "about")
    tree = parsed(drawn)
    assert "ALL-BGALL" not in drawn
    assert drawn.count('class="box"') == 1 + len([c for c in paper.cases() if c.recorder_case == "quiet"])
    assert tree.findtext("{http://www.w3.org/2000/svg}title") == "a <title>"
    with pytest.raises(ValueError, match="none of these cases was measured"):
        boxplot.draw(paper.cases(), {}, "", "")


def test_everything_plotted_lies_within_the_picture() -> None:
    """The number next to the longest line goes to its left."""
    for most in (2.0, 99999.0, 1e6):
        drawn = boxplot.draw(paper.cases(), {**known(), "rec.ek.quiet.max": most}, "title", "about")
        for element in parsed(drawn).iter():
            for name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(element.get(name, 0)) <= boxplot.WIDTH


def test_rows_of_the_lab_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = [{"id": k, "value": v, "kernel": "6.12", "clock": "virtual"} for k, v in known().items()]
    other = [{"id": "fair.read.ratio", "value": 2, "kernel": "6.12"}]
    newer = [{"id": "rec.ek.quiet.max", "value": 77, "kernel": "7.3", "clock": "virtual"}]
    path = tmp_path / "results.json"
    path.write_text(json.dumps([*other, *lab, *newer]))
    assert main(["--from", str(path), "--cases", "none"]) == 0
    out = capsys.readouterr().out
    assert "lab (virtual clock)" in out
    assert "5.9" in out.splitlines()[-1]
    path.write_text(json.dumps(other))
    assert main(["--from", str(path)]) == 2
    assert "no rows of the recorder" in capsys.readouterr().err
