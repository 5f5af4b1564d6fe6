# SPDX-License-Identifier: Apache-2.0
"""A load that records with ek-recorder: `recording.py FOLDER SCRATCH COUNT RETAIN SEGMENT`.

measure.py runs it in a group of its own.

It starts a recorder of its own, with one channel in FOLDER. The recorder of the board goes on, and is not involved. After
`ek-recorder bench` has submitted COUNT records, the recorder ends, and the program prints the report of the bench as JSON.
FOLDER and everything in it is removed before and after that. SCRATCH is a folder in RAM, for configuration and socket.
RETAIN and SEGMENT: what the channel keeps, and the size of its segment files, in bytes.

The program is a single file without other parts of the package, so that it starts fast.
"""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

FOLDER = "recorder"
CHANNEL = "bench"
# The durability window: a record is on the medium after this time.
WINDOW_S = 1
# The recorder writes its segments first. If that takes longer, the case has no figures.
READY_S = 20.0


def configure(folder: Path, scratch: Path, retain: int, segment: int) -> None:
    """Write the configuration of a recorder with one channel (docs/reference/recorder.md)."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(scratch, ignore_errors=True)
    folder.mkdir()
    (scratch / "channels.d").mkdir(parents=True)
    (scratch / "recorder.conf").write_text(
        f"directory = {folder}\nmountpoint = no\nsocket = {scratch}/socket\nstatistics = {scratch}/statistics\ngroup =\n"
    )
    (scratch / f"channels.d/{CHANNEL}.conf").write_text(
        f"record_size = 16KiB\nperiod = 5ms\nwindow = {WINDOW_S}s\nretain = {retain}\nsegment = {segment}\n"
    )


def ready(scratch: Path, recorder: subprocess.Popen[bytes]) -> bool:
    """Wait until the channel records. Returns False if the recorder has ended, or after READY_S."""
    deadline = time.monotonic() + READY_S
    while recorder.poll() is None and time.monotonic() < deadline:
        try:
            if '"state":"recording"' in (scratch / "statistics").read_text():
                return True
        except OSError:
            pass
        time.sleep(0.05)
    return False


def main(folder: Path, scratch: Path, count: int, retain: int, segment: int) -> int:
    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, output: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        command = ("ek-recorder", *arguments, "--config", str(scratch))
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output)
        running.append(process)
        return process

    try:
        configure(folder, scratch, retain, segment)
        recorder = start("run")
        if not ready(scratch, recorder):
            print("error: the recorder did not begin to record")
            return 1
        # Its status is 1 if records were late or lost. The report has both.
        bench = start("bench", "--ring", "--json", "--writes", str(count), CHANNEL, output=subprocess.PIPE)
        report = bench.communicate()[0].decode()
        recorder.terminate()
        recorder.wait()
        print(report.strip())
        return 0
    except OSError as error:
        print(f"error: cannot record: {error}")
        return 1
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6])))
