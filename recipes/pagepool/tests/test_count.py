# SPDX-License-Identifier: GPL-2.0-only
"""Counting of accesses, checked on reads that are split into steps as the kernel splits them."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

HERE = Path(__file__).resolve().parent
PAGE = 4096
Step = Callable[[int, int, int, int, int], int]


@pytest.fixture(scope="session")
def step(tmp_path_factory: pytest.TempPathFactory) -> Step:
    out = tmp_path_factory.mktemp("count") / "libcount.so"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover=all",
         "-static-libubsan", "-shared", "-fPIC", "-o", str(out), str(HERE / "count_shim.c")],
        check=True,
    )  # fmt: skip
    lib = ctypes.CDLL(str(out))
    lib.shim_step.argtypes = [ctypes.c_uint64] * 5
    lib.shim_step.restype = ctypes.c_uint64

    def call(task: int, mapping: int, index: int, last: int, size: int) -> int:
        return int(lib.shim_step(task, mapping, index, last, size))

    return call


def pages_of(size: int, first: int, last: int) -> int:
    return len(range(first, min(last, (size - 1) // PAGE) + 1)) if size else 0


reads = st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(0, 50), st.integers(0, 50))


@given(st.lists(reads, max_size=30), st.integers(0, 60 * PAGE), st.data())
def test_a_read_counts_each_of_its_pages_once(
    step: Step, trace: list[tuple[int, int, int, int]], size: int, data: st.DataObject
) -> None:
    before = (0, 0, 0, 0)
    step(*before, 0)
    for task, mapping, first, length in trace:
        last = first + length
        # skip a read that looks like a step of the previous read: ek_count.h does not count it
        if (task, mapping, last) == (before[0], before[1], before[3]) and first > before[2]:
            continue
        counted, index = step(task, mapping, first, last, size), first
        while index < last and data.draw(st.booleans()):
            index = data.draw(st.integers(index + 1, last))
            counted += step(task, mapping, index, last, size)
        before = (task, mapping, index, last)
        assert counted == pages_of(size, first, last)


def test_the_same_page_twice_is_two_accesses(step: Step) -> None:
    assert [step(1, 1, 5, 5, 10 * PAGE) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(("size", "pages"), [(0, 0), (1, 1), (PAGE, 1), (PAGE + 1, 2)])
def test_pages_beyond_the_end_do_not_count(step: Step, size: int, pages: int) -> None:
    step(9, 9, 0, 0, 0)
    assert step(1, 1, 0, 31, size) == pages
