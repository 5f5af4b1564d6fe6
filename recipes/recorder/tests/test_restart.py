# SPDX-License-Identifier: Apache-2.0
"""The writer of docs/howto/record.md: it records again after each restart of the recorder, and every loss is a gap."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from board import ABSENT, BUILD, RESTART, Board, assert_contiguous, wait_for

RECIPE = Path(__file__).parents[1]
HOWTO = RECIPE.parents[1] / "docs/howto/record.md"
RESTARTS = 100

# what the example leaves to its reader: a record each millisecond, until SIGTERM
CONTROL = """
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
static volatile sig_atomic_t over;
static void on_term(int sig) { (void)sig; over = 1; }
struct sample { unsigned long number; char rest[56]; };
static bool control(struct sample *sample)
{
	static unsigned long number;
	const struct timespec pause = { .tv_nsec = 1000000 };

	signal(SIGTERM, on_term);
	nanosleep(&pause, NULL);
	*sample = (struct sample){ .number = number++ };
	if (over)
		printf("%lu\\n", number - 1);
	return !over;
}
"""


def compile_example(top: Path, way: str) -> Path:
    blocks = re.findall(r"^```c\n(.*?)^```", HOWTO.read_text(), re.MULTILINE | re.DOTALL)
    (example,) = [b for b in blocks if "ek_writer_open" in b]
    source = top / "example.c"
    source.write_text(CONTROL + example.replace("EK_BY_RING", way).replace("NULL", "SOCKET"))
    program = top / "example"
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", f'-DSOCKET="{top}/socket"', f"-I{RECIPE}/src/include", str(source),
         f"-L{BUILD}", "-lek-recorder", f"-Wl,-rpath,{BUILD.absolute()}", "-Wl,--unresolved-symbols=ignore-in-shared-libs",
         "-o", str(program)],
        check=True,
    )  # fmt: skip
    return program


def sanitized() -> dict[str, str]:
    """The library may be built with AddressSanitizer, which has to be loaded first."""
    if (
        "asan"
        not in subprocess.run(
            ["ldd", str(BUILD / "libek-recorder.so.0")], capture_output=True, text=True, check=True
        ).stdout
    ):
        return {}
    library = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return {"LD_PRELOAD": library}


@pytest.mark.parametrize("way", ["EK_BY_RING", "EK_BY_SOCKET"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_documented_writer_survives_restarts(board: Board, way: str, how: signal.Signals) -> None:
    # each start after a kill begins a segment: there are more segments than restarts, so none is overwritten
    sizes = {"retain": "8MiB", "segment": "64KiB", "writeout": "16KiB"}
    board.channel("arm", record_size="64", period="1ms", window="20ms", **sizes)
    program = compile_example(board.top, way)
    restarts = RESTARTS if os.environ.get("DEEP") else RESTARTS // 4
    with subprocess.Popen([program], stdout=subprocess.PIPE, env={**os.environ, **sanitized()}) as writer:
        assert writer.stdout
        for _ in range(restarts):
            board.start(ready=False)
            # statistics are written once a second, which would take this test minutes
            time.sleep(0.15 if how == signal.SIGTERM else 0.3)
            assert writer.poll() is None
            assert board.process
            board.process.send_signal(how)
            board.process.wait(10)
        board.start(ready=False)
        wait_for(lambda: board.stats("arm")["records"] > 20)
        writer.terminate()
        submitted = int(writer.stdout.read())
    board.stop()
    records = board.records("arm")
    assert_contiguous(records)
    numbers = [int.from_bytes(r.payload[:8], "little") for r in records if not r.gap]
    assert numbers == sorted(set(numbers)), "a record is there twice, or out of order"
    lost = submitted - len(numbers)
    gaps = [r.gap for r in records if r.gap]
    reported = sum(count for reason, count in gaps)
    if how == signal.SIGTERM:
        # every record that is not there is in a gap that says that the recorder was not running
        assert {reason for reason, _ in gaps} == {ABSENT}
        assert reported == lost
    else:
        # what was in the recorder's memory when it was killed is a loss of unknown length. A start that recorded
        # nothing before it was killed leaves no gap of its own.
        assert len([1 for reason, _ in gaps if reason == RESTART]) > restarts / 2
        assert reported <= lost
    assert len([1 for reason, _ in gaps if reason == ABSENT]) > restarts / 2


def test_a_writer_that_starts_before_the_recorder(board: Board) -> None:
    board.channel("arm", record_size="64", retain="1MiB")
    program = compile_example(board.top, "EK_BY_RING")
    with subprocess.Popen([program], stdout=subprocess.PIPE, env={**os.environ, **sanitized()}) as writer:
        assert writer.stdout
        time.sleep(0.2)
        board.start()
        wait_for(lambda: board.stats("arm")["records"] > 20)
        writer.terminate()
        submitted = int(writer.stdout.read())
    board.stop()
    assert len(board.payloads("arm")) + sum(count for _, count in board.gaps("arm")) == submitted
