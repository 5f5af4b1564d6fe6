# SPDX-License-Identifier: Apache-2.0
"""The light reader: its command, and its log."""

from pathlib import Path

import pytest
from evenkeel_validate import reader
from evenkeel_validate.cases import MB, Job

JOB = Job("r", "randread", "4k", per_second=100)


def test_the_command() -> None:
    found = reader.command(
        JOB,
        [Path("/data/a:b"), Path("-x")],
        offset=64 * MB,
        length=32 * MB,
        seconds=7.2,
        seed=5,
        log=Path("/run/r"),
    )
    assert found[0] == "ek-light-reader"
    assert found[-3:] == ["--", "/data/a:b", "-x"]
    options = dict(word.partition("=")[::2] for word in found[1:-3])
    assert options == {
        "--rate": "100", "--readers": "8", "--size": "4096", "--offset": str(64 * MB), "--length": str(32 * MB),
        "--seed": "5", "--duration": "8s", "--log": "/run/r",
    }  # fmt: skip
    through = Job("r", "randread", "64k", per_second=16, buffered=True)
    assert "--buffered" in reader.command(
        through, [Path("x")], offset=0, length=MB, seconds=1, seed=1, log=Path("l")
    )


def test_only_reads_that_were_planned_for_the_window_count() -> None:
    """A read that was planned before the window may complete in it. One that was planned in it may complete later."""
    text = "".join(
        f"{round(at * 1e9)} {took}\n" for at, took in ((9.9, 5e9), (10, 100), (12, 9e9), (13, 300))
    )
    text = text.replace(".0\n", "\n")
    assert reader.logged(text, 10.0, 13.0) == {100: 1, 9_000_000_000: 1}
    assert reader.logged(text, 14.0, 15.0) == {}
    assert reader.logged("", 0.0, 1.0) == {}


def test_times_have_three_digits() -> None:
    assert reader.logged("0 123456\n1 123499\n2 99\n", 0.0, 1.0) == {123000: 2, 99: 1}


@pytest.mark.parametrize("text", ["1\n", "1 2 3\n", "1 x\n", "ek-light-reader: no space\n"])
def test_a_damaged_log_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="a line that is no read"):
        reader.logged("0 5\n" + text, 0.0, 1.0)


def test_the_reads_of_all_threads_are_as_many_as_planned() -> None:
    assert sum(1 / interval for interval in reader.intervals(JOB)) == pytest.approx(JOB.per_second)


def test_threads_do_not_come_into_step_again() -> None:
    every = reader.intervals(JOB)
    assert len(set(every)) == reader.THREADS
    for tenth in range(5, 600):
        at = tenth / 10
        near = sum(min(at % each, each - at % each) < 0.05 * each for each in every)
        assert near <= reader.THREADS // 2, at
