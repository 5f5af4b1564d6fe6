# SPDX-License-Identifier: Apache-2.0
"""A program that a helper runs: what it prints, and the reason of each failure."""

import os
import sys

import pytest
from evenkeel_common.command import run


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


def test_the_output_is_returned() -> None:
    assert run(python("print('active')"), 30) == "active\n"


def test_a_program_gets_no_input() -> None:
    """Otherwise a program that asks a question could wait for an answer, up to the time limit."""
    reader, writer = os.pipe()
    saved = os.dup(0)
    os.write(writer, b"typed")
    os.close(writer)
    try:
        os.dup2(reader, 0)
        assert run(python("import sys; print(repr(sys.stdin.read()))"), 30) == "''\n"
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(reader)


def test_an_interrupt_of_the_terminal_does_not_reach_a_program() -> None:
    """Otherwise a second Ctrl+C would end the order that lets the apps go on."""
    own = int(run(python("import os; print(os.getsid(0))"), 30))
    assert own != os.getsid(0)


def test_other_statuses_can_mean_success() -> None:
    """`systemctl is-active` prints the state, and ends with 3 if the unit is not active."""
    failed = python("import sys; print('failed'); sys.exit(3)")
    assert run(failed, 30, success=(0, 3)) == "failed\n"
    with pytest.raises(OSError, match="ended with status 3"):
        run(failed, 30)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit('Access denied')", "^Access denied$"),
        ("import sys; sys.exit('x' * 500 + ' Access denied')", "^x{286} Access denied$"),
        ("import sys; sys.exit(4)", "ended with status 4$"),
    ],
)
def test_a_failure_has_its_reason(script: str, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        run(python(script), 30)


def test_a_program_that_does_not_end_is_killed() -> None:
    with pytest.raises(OSError, match=r"did not end within 0\.1 s"):
        run(python("import time; time.sleep(5)"), 0.1)


def test_a_program_that_is_missing_has_its_reason() -> None:
    with pytest.raises(FileNotFoundError, match="No such file"):
        run(("/does/not/exist",), 30)
