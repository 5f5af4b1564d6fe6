# SPDX-License-Identifier: Apache-2.0
"""Which weights are valid, and when a weight is in force."""

import pytest
from evenkeel_agent import weight


@pytest.mark.parametrize("value", [0, -1, 10001, 1 << 32, 1 << 64, True, 1.0, "1", None, [1]])
def test_invalid_values(value: object) -> None:
    assert "a whole number from 1 to 10000" in str(weight.problem(value))


def test_a_number_that_python_cannot_print() -> None:
    assert "a far larger number" in str(weight.problem(10**5000))


@pytest.mark.parametrize("value", [1, 100, 10000])
def test_valid_values(value: int) -> None:
    assert weight.problem(value) is None


@pytest.mark.parametrize("text", ["", "x", "-1", "+1", "1.0", " 1", "1_0", "٣", "0x1", "9" * 5000])
def test_invalid_text(text: str) -> None:
    assert weight.from_text(text) is None


@pytest.mark.parametrize(
    ("content", "result"),
    [
        ("default 200\n", True),
        ("default 200\n259:0 200\n", True),
        ("259:0 200\n", True),
        ("default 100\n", False),
        ("default 200\n259:0 100\n", False),
        ("default 100\n259:0 200\n", False),
        ("", False),
        ("default\n", False),
        ("200\n", False),
        ("default 200 x\n", False),
    ],
)
def test_in_force_if_the_cgroup_has_the_weight(content: str, result: bool) -> None:
    assert weight.in_force(content, 200) is result
