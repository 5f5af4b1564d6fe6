# SPDX-License-Identifier: GPL-2.0-only
"""Property tests against the definitions: which channel an address is on, and which request is next."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

MOST = 64
NONE = 64
LOOK = 64


@pytest.fixture(scope="session")
def channel(user_space: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    lib = user_space("channel")
    lib.shim_channel_of.argtypes = [ctypes.c_uint64, *[ctypes.c_uint32] * 3, ctypes.c_uint64]
    lib.shim_channel_of.restype = ctypes.c_uint32
    lib.shim_channel_pick.restype = ctypes.c_uint32
    return lib


sectors = st.integers(0, 2**40)
lengths = st.integers(1, 2**20).map(lambda n: n * 512)
channels = st.integers(1, MOST)


@given(sector=sectors, length=lengths, n=channels, chunk=st.integers(1, 1 << 20), capacity=sectors)
def test_chunks_alternate_between_the_channels(
    channel: ctypes.CDLL, sector: int, length: int, n: int, chunk: int, capacity: int
) -> None:
    first, last = sector // (2 * chunk), (sector + length // 512 - 1) // (2 * chunk)
    expected = first % n if first == last else NONE
    assert channel.shim_channel_of(sector, length, n, chunk, capacity) == expected


@given(length=lengths, n=channels, capacity=st.integers(1, 2**40), data=st.data())
def test_ranges_are_equal_and_cover_the_device(
    channel: ctypes.CDLL, length: int, n: int, capacity: int, data: st.DataObject
) -> None:
    sector = data.draw(st.integers(0, capacity - 1))
    width = -(-capacity // n)
    first, last = sector // width, (sector + length // 512 - 1) // width
    expected = first if first == last else NONE
    got = channel.shim_channel_of(sector, length, n, 0, capacity)
    assert got == expected
    assert got < n or got == NONE


def test_devices_without_size_and_requests_without_data_get_a_valid_channel(channel: ctypes.CDLL) -> None:
    assert channel.shim_channel_of(0, 0, 8, 0, 0) == 0
    assert channel.shim_channel_of(2**50, 512, 8, 0, 0) == 7
    assert channel.shim_channel_of(32, 0, 8, 16, 0) == 1


def pick(lib: ctypes.CDLL, waiting: list[int], load: list[int]) -> int:
    return int(
        lib.shim_channel_pick(
            (ctypes.c_ubyte * len(waiting))(*waiting), len(waiting), (ctypes.c_uint32 * MOST)(*load)
        )
    )


@given(
    waiting=st.lists(st.integers(0, MOST), min_size=1, max_size=LOOK),
    load=st.lists(st.integers(0, 40), min_size=MOST, max_size=MOST),
)
def test_the_oldest_on_the_least_loaded_channel_is_next(
    channel: ctypes.CDLL, waiting: list[int], load: list[int]
) -> None:
    got = pick(channel, waiting, load)
    if waiting[0] == NONE:
        assert got == 0
        return
    least = min(load[c] for c in waiting if c != NONE)
    assert got == next(i for i, c in enumerate(waiting) if c != NONE and load[c] == least)


@given(n=st.integers(2, 16), depth=st.integers(1, 4), order=st.randoms(use_true_random=False))
def test_a_full_device_has_the_same_load_on_every_channel(
    channel: ctypes.CDLL, n: int, depth: int, order: object
) -> None:
    """If `depth` requests wait for each channel, a full device has `depth` requests on each."""
    waiting = [c for c in range(n) for _ in range(depth)]
    order.shuffle(waiting)  # type: ignore[attr-defined]
    load = [0] * MOST
    for _ in range(n * depth):
        at = pick(channel, waiting[:LOOK], load)
        load[waiting.pop(at)] += 1
        if len(waiting) >= LOOK:
            return
    assert load[:n] == [depth] * n
