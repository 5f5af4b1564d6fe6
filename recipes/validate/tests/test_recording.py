# SPDX-License-Identifier: Apache-2.0
"""The load that records: its configuration, its report, and that nothing is left of it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evenkeel_validate import recording

# A fake recorder. `run` makes a segment and says so; `bench` prints a report, and fails as it does after late records.
FAKE = """#!/bin/sh
for scratch; do :; done
folder=$(sed -n 's/^directory = //p' "$scratch/recorder.conf")
case $1 in
run)
	mkdir "$folder/bench" && echo x > "$folder/bench/00000000.seg"
	[ "$FAULT" != run ] || exit 1
	echo '{"bench":{"state":"recording"}}' > "$scratch/statistics"
	exec sleep 60 ;;
bench)
	touch "$scratch/started"
	[ "$FAULT" != hang ] || exec sleep 60
	echo "$*" >&2
	echo '{"writes":4,"late":0,"lost":1}'
	exit 1 ;;
esac
"""


@pytest.fixture
def started(tmp_path: Path) -> list[str]:
    """The command. It finds a fake recorder."""
    program = tmp_path / "bin/ek-recorder"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    folders = [str(tmp_path / "recorder"), str(tmp_path / "scratch")]
    return [sys.executable, "-I", str(recording.__file__), *folders, "4", "64", "8"]


def environment(tmp_path: Path, fault: str = "") -> dict[str, str]:
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "FAULT": fault}


def test_a_recording_prints_its_report_and_leaves_nothing(tmp_path: Path, started: list[str]) -> None:
    (tmp_path / "recorder/bench").mkdir(parents=True)  # of a run that was killed
    done = subprocess.run(started, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"writes": 4, "late": 0, "lost": 1}
    assert done.stderr.startswith("bench --ring --json --writes 4 bench --config")
    assert not (tmp_path / "recorder").exists()
    conf = (tmp_path / "scratch/recorder.conf").read_text()
    assert (
        f"directory = {tmp_path / 'recorder'}\nmountpoint = no\nsocket = {tmp_path / 'scratch/socket'}"
        in conf
    )
    channel = (tmp_path / "scratch/channels.d/bench.conf").read_text()
    assert channel == "record_size = 16KiB\nperiod = 5ms\nwindow = 1s\nretain = 64\nsegment = 8\n"


def test_a_recorder_that_does_not_start_is_an_error(tmp_path: Path, started: list[str]) -> None:
    done = subprocess.run(
        started, env=environment(tmp_path, "run"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "error: the recorder did not begin to record\n")
    assert not (tmp_path / "recorder").exists()


def test_sigterm_ends_the_recorder_and_leaves_nothing(tmp_path: Path, started: list[str]) -> None:
    process = subprocess.Popen(
        started, env=environment(tmp_path, "hang"), stdout=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 20
    while not (tmp_path / "scratch/started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == b""
    assert not (tmp_path / "recorder").exists()
    # no program of it goes on
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
