# SPDX-License-Identifier: Apache-2.0
"""Sizes in /proc/meminfo."""

from evenkeel_common import meminfo
from hypothesis import given
from hypothesis import strategies as st

TEXT = "MemTotal: 1000 kB\nMemFree: 300 kB\nActive(file): 40 kB\nInactive(file): 5 kB\nHugePages_Total: 0\nMlocked: x kB\n"


def test_sizes_are_in_bytes() -> None:
    assert meminfo.parse(TEXT) == {
        "MemTotal": 1000 << 10,
        "MemFree": 300 << 10,
        "Active(file)": 40 << 10,
        "Inactive(file)": 5 << 10,
    }


def test_the_cache_can_have_what_is_free_and_what_files_have() -> None:
    assert meminfo.cache(meminfo.parse(TEXT)) == 345 << 10
    assert meminfo.cache(meminfo.parse(TEXT), 100 << 10) == 245 << 10
    assert meminfo.cache({}) == 0


@given(st.text(), st.integers(0, 1 << 40))
def test_any_text_has_sizes(text: str, kept_free: int) -> None:
    assert meminfo.cache(meminfo.parse(text), kept_free) >= 0


def test_this_machine_has_a_cache() -> None:
    with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
        sizes = meminfo.parse(file.read())
    assert 0 < meminfo.cache(sizes) <= sizes["MemTotal"]
