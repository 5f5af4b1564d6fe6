# SPDX-License-Identifier: Apache-2.0
"""The recorder under ThreadSanitizer: writers come, sync and go while segments are created and kept and a channel changes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import board as board_module
import pytest
from board import BUILD, RECORDER, Board, RawWriter

PROGRAM = str(BUILD / "tests/ek-recorder-tsan")


def write(board: Board, channel: str, way: int, until: float) -> None:
    while time.monotonic() < until:
        with RawWriter(board.socket, channel, way) as writer:
            if writer.refused:
                continue
            with contextlib.suppress(OSError):
                for number in range(16):
                    if way == 2:
                        writer.put(number, b"x" * 500)
                    else:
                        writer.submit(b"x" * 500)
                if way == 1:
                    writer.sync()


def keep(board: Board, channel: str, until: float) -> int:
    """Keep ranges, and delete them again, until then. Returns how many were kept."""
    common = ["--directory", str(board.directory)]
    ask = ["--socket", str(board.socket), "--from=-1min", "--to=now"]
    kept = 0
    while time.monotonic() < until:
        for options in ([*ask, "crash"], ["--remove", "crash"]):
            done = subprocess.run(
                [RECORDER, "keep", *common, *options, channel], capture_output=True, check=False
            )
            kept += not done.returncode
    # each time two commands succeed
    return kept // 2


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_no_thread_reads_what_another_writes(
    board: Board, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setattr(board_module, "RECORDER", PROGRAM)
    report = board.top / "tsan"
    # a thread that still frees a ring 100 ms after the shutdown began is left to the exit of the process
    monkeypatch.setenv("TSAN_OPTIONS", f"log_path={report}:exitcode=66:halt_on_error=0:report_thread_leaks=0")
    for name in ("arm", "leg", "eye"):
        board.channel(name, retain="4MiB", retain_time="2s", keep="4MiB")
    board.start()
    until = time.monotonic() + 6
    kept: list[int] = []
    writers = [
        threading.Thread(target=write, args=(board, name, way, until))
        for name, way in (("arm", 2), ("arm", 1), ("leg", 1), ("eye", 2))
    ]
    writers.append(threading.Thread(target=lambda: kept.append(keep(board, "leg", until))))
    for writer in writers:
        writer.start()
    assert board.process
    for window in ("150ms", "200ms"):
        time.sleep(1.5)
        board.channel("eye", retain="4MiB", window=window)
        board.process.send_signal(signal.SIGHUP)
    for writer in writers:
        writer.join()
    board.process.send_signal(how)
    status = board.process.wait(20)
    reports = "".join(f.read_text() for f in Path(board.top).glob("tsan.*"))
    assert (status, reports) == (0, ""), reports[:6000]
    assert kept[0]


def test_the_program_is_built_with_the_sanitizer() -> None:
    """Otherwise the test above could not fail."""
    symbols = subprocess.run(["nm", "-D", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert "__tsan_" in symbols
    assert os.access(PROGRAM, os.X_OK)
