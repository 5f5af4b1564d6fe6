# SPDX-License-Identifier: Apache-2.0
"""A search for inputs that break a parser, guided by coverage (libFuzzer): a short one here, a long one with `make fuzz`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "tests"))

import sample  # noqa: E402

SEARCH = HERE / "fuzz/search"
TARGETS = sorted(p.stem.removeprefix("fuzz_") for p in (HERE / "fuzz").glob("fuzz_*.c"))
SECONDS = 60 if sample.DEEP else 10


def search(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SEARCH, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


@pytest.mark.parametrize("target", sample.sample("fuzz target", TARGETS))
def test_no_input_breaks_a_parser(target: str) -> None:
    done = search("--seconds", str(SECONDS), "--seed", sample.SEED, target)
    print(sample.header())
    assert done.returncode == 0, done.stdout + done.stderr
    # libFuzzer ran with the corpus and went beyond it
    assert int(done.stdout.split()[1]) > 1000, done.stdout
    print(done.stdout)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--seconds"], "--seconds needs a number, not ''"),
        (["--seed", "x"], "--seed needs a number, not 'x'"),
        (["--fast"], "unknown option --fast"),
        (["rings"], "there is no target rings; known: configuration marks messages ring segments"),
    ],
)
def test_wrong_arguments_are_named(args: list[str], message: str) -> None:
    done = search(*args)
    assert done.returncode == 2
    assert message in done.stderr
