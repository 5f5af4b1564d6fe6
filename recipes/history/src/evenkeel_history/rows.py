# SPDX-License-Identifier: Apache-2.0
"""Adds up stored rows, and makes what a chart shows of them. Pure, without files.

A chart has up to 200 rows with about 1000 numbers each, so C code reads the rows and adds them up (src/rows.c).
"""

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, product

import msgspec
from evenkeel_common.iostat import BUCKETS, bucket_upper

from .lanes import BAND, LANE, Bands, Lanes
from .library import Head, Shown, Sums, address, library
from .merged import SCALARS, Mix, Packed, Spot, positions
from .period import WRITE, Key, unzip
from .zstd import Decompressor

# numbers of a flow, of the stalls of an app, and of an app in a mix, as in src/history.h
_FLOW, _STALLS, _MIX = 1 + SCALARS + BUCKETS, 3, 1 + BUCKETS
_DIRECTIONS = 2
_BANDS = BUCKETS // BAND
_PERCENT = 99
# The arrays of sums have room for up to this many apps, and apps on devices. They need up to 24 MB, whatever a row says.
_MOST_APPS, _MOST_PAIRS = 1000, 4096
_ROOM = 1 << 16  # bytes of a decompressed row; few rows are longer
_UPPER: list[int | None] = [
    *map(bucket_upper, range(BUCKETS)),
    None,
]  # by bucket; the last one: without requests
_names = msgspec.msgpack.Decoder(tuple[tuple[str, ...], tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Added:
    """The sum of rows."""

    total: Packed
    spots: dict[int, Spot]  # by slot
    mixes: dict[int, Mix]  # by slot
    damaged: list[int]  # the rows that were left out: their numbers, from 0


@dataclass(frozen=True, slots=True)
class _Row:
    slot: int
    number: int
    text: bytes  # a Period, without compression
    ms: int
    names: bytes  # the part of TEXT that has the apps and the devices


def _zeros(count: int) -> "array[int]":
    return array("Q", [0]) * count


@lru_cache(64)
def _decoded(names: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The apps and the devices of a row. Raises ValueError. Rows with the same names have the same strings."""
    try:
        return _names.decode(b"\x92" + names)  # a list of both lists
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


class _Sums:
    """The arrays in which rows are added up, for APPS and DEVICES."""

    def __init__(self, apps: Sequence[str], devices: Sequence[str]) -> None:
        self._apps, self._devices = tuple(apps), tuple(devices)
        self._positions = positions(self._apps), positions(self._devices)
        count = len(apps)
        self._flows = _zeros(count * len(devices) * _DIRECTIONS * _FLOW)
        self._blame, self._stalls = _zeros(count * count), _zeros(count * _STALLS)
        self._mix = _zeros(count * _MIX)
        self._bytes, self._buckets, self._whole = _zeros(count), _zeros(count), _zeros(_BANDS)
        self._bands = array("B", bytes(count * _BANDS * LANE))
        self._pointers = Sums(
            count,
            len(devices),
            *(each.buffer_info()[0] for each in (self._flows, self._blame, self._stalls, self._mix)),
        )
        self._shown = Shown(
            *(each.buffer_info()[0] for each in (self._bytes, self._buckets, self._whole, self._bands))
        )
        self._keys = list(product(self._apps, self._devices, range(_DIRECTIONS)))
        self._maps: dict[bytes, tuple[array[int], array[int]]] = {}
        # the used buckets, as far as spots tell: the first one, and the one after the last
        self._used = BUCKETS, 0

    def add(self, row: _Row) -> bool:
        """Add ROW. Returns False if it is damaged."""
        maps = self._maps.get(row.names)
        if maps is None:
            apps, devices = (
                array("Q", [where[name] for name in names])
                for where, names in zip(self._positions, _decoded(row.names), strict=True)
            )
            maps = self._maps[row.names] = apps, devices
        apps_at, devices_at = maps[0].buffer_info()[0], maps[1].buffer_info()[0]
        pointers = address(self._pointers)
        return not library().ek_history_add(row.text, len(row.text), apps_at, devices_at, pointers)

    def spot(self, ms: int) -> Spot:
        """The spot of the rows that were added since the last call of spot() or mix()."""
        shown = self._shown
        count = len(self._apps)
        library().ek_history_spot(self._mix.buffer_info()[0], count, _PERCENT, address(shown))
        first, end = (BAND * band for band in (shown.first, shown.first + shown.length // shown.width))
        self._used = min(first, self._used[0]), max(end, self._used[1])
        bands = (
            Bands(
                int.from_bytes(self._whole, "little"),
                shown.first,
                shown.width,
                shown.length,
                self._bands[: count * shown.length].tobytes(),
            )
            if shown.length
            else Bands()
        )
        # a copy needs less memory than the array of all sums
        return Spot(
            ms,
            self._positions[0],
            self._bytes[:],
            tuple([_UPPER[bucket] for bucket in self._buckets]),
            bands,
        )

    def mix(self, ms: int) -> Mix:
        """As spot(), for a slot to which other rows will be added."""
        result = Mix(ms)
        for number, app in enumerate(self._apps):
            part = self._mix[number * _MIX : (number + 1) * _MIX]
            amount, latency = part[0], int.from_bytes(part[1:], "little")
            if amount or latency:
                result.apps[app] = amount, latency
        self._mix[:] = _zeros(len(self._mix))  # it stays where it is
        self._used = 0, BUCKETS
        return result

    def take_written(self) -> dict[Key, int]:
        """The bytes that the rows wrote that were added since the last call."""
        found = {
            key: self._flows[at + 1]
            for at, key in zip(range(0, len(self._flows), _FLOW), self._keys, strict=True)
            if key[2] == WRITE and self._flows[at]
        }
        self._flows[:] = _zeros(len(self._flows))  # it stays where it is
        return found

    def total(self, ms: int, *, matrix: bool) -> Packed:
        """The sum of all rows. If MATRIX is false, who slowed whom is left out."""
        flows = memoryview(self._flows)
        first, end = self._used if self._used[0] < self._used[1] else (0, BUCKETS)
        keys, scalars, latencies = list[Key](), array("Q"), list[Lanes]()
        for at, key in zip(range(0, len(flows), _FLOW), self._keys, strict=True):
            if flows[at]:
                buckets = at + 1 + SCALARS
                keys.append(key)
                scalars.extend(self._flows[at + 1 : buckets])
                latencies.append(int.from_bytes(flows[buckets + first : buckets + end], "little"))
        blame = int.from_bytes(self._blame, "little") if matrix else 0
        stalls = {}
        for number, app in enumerate(self._apps):
            seen, count, stalled_ms = self._stalls[number * _STALLS : (number + 1) * _STALLS]
            if seen:
                stalls[app] = count, stalled_ms
        matrices = {self._apps: blame} if blame else {}
        return Packed(ms, tuple(keys), scalars, first, tuple(latencies), matrices, stalls)


def _read(rows: Iterable[tuple[int, bytes]], damaged: list[int]) -> list[_Row]:
    head, found = Head(), []
    with Decompressor(_ROOM) as room:
        for number, (slot, data) in enumerate(rows):
            try:
                text = room.decompress(data) or unzip(data)
                if library().ek_history_head(text, len(text), address(head)):
                    raise ValueError("a stored period begins wrong")
                names = text[head.names : head.flows]
                _decoded(names)
            except ValueError:
                damaged.append(number)
            else:
                found.append(_Row(slot, number, text, head.ms, names))
    return found


def add_up(
    rows: Iterable[tuple[int, bytes]],
    *,
    spots: bool = True,
    mixed: Collection[int] = (),
    matrix: bool = True,
) -> Added:
    """The sum of ROWS: a slot, and a packed Period. Damaged rows are left out.

    SPOTS: whether to make what a chart shows of each slot: a Mix for the slots MIXED, to which other rows will be added,
    and a Spot for the others. MATRIX: with who slowed whom.
    """
    damaged: list[int] = []
    shown: dict[int, Spot] = {}
    mixes: dict[int, Mix] = {}
    total_ms = 0
    sums, slots = _sorted(rows, damaged)
    for slot, members in slots:
        ms = _add(sums, members, damaged)
        if ms is None:
            continue
        total_ms += ms
        if spots and slot in mixed:
            mixes[slot] = sums.mix(ms)
        elif spots:
            shown[slot] = sums.spot(ms)
    return Added(sums.total(total_ms, matrix=matrix), shown, mixes, damaged)


def written(rows: Iterable[tuple[int, bytes]]) -> tuple[dict[int, tuple[int, dict[Key, int]]], int]:
    """By slot: the sampled time in ms, and the written bytes of ROWS. Then the number of damaged rows."""
    damaged: list[int] = []
    sums, slots = _sorted(rows, damaged)
    found = {}
    for slot, members in slots:
        ms = _add(sums, members, damaged)
        if ms is not None:
            found[slot] = ms, sums.take_written()
    return found, len(damaged)


def _sorted(
    rows: Iterable[tuple[int, bytes]], damaged: list[int]
) -> tuple[_Sums, Iterable[tuple[int, Iterable[_Row]]]]:
    """Empty sums for ROWS, and the rows by slot. The numbers of rows that cannot be read go to DAMAGED.

    So do those of rows with more names than sums have room for.
    """
    found = _read(rows, damaged)
    apps, devices = dict[str, None](), dict[str, None]()
    for names in dict.fromkeys(row.names for row in found):
        more_apps, more_devices = (
            known | dict.fromkeys(new) for known, new in zip((apps, devices), _decoded(names), strict=True)
        )
        if len(more_apps) <= _MOST_APPS and len(more_apps) * len(more_devices) <= _MOST_PAIRS:
            apps, devices = more_apps, more_devices
        else:
            damaged += [row.number for row in found if row.names == names]
            found = [row for row in found if row.names != names]
    found.sort(key=lambda row: row.slot)
    return _Sums(list(apps), list(devices)), groupby(found, lambda row: row.slot)


def _add(sums: _Sums, rows: Iterable[_Row], damaged: list[int]) -> int | None:
    """Add ROWS to SUMS. Returns their sampled time; None if all are damaged."""
    good = []
    for row in rows:
        if sums.add(row):
            good.append(row.ms)
        else:
            damaged.append(row.number)
    return sum(good) if good else None
