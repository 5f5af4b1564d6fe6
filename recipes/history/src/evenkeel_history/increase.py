# SPDX-License-Identifier: Apache-2.0
"""By how much the counters in io.evenkeel.stat have grown between two texts of the file. Pure, without files.

The service does this each second for each cgroup, so the cost counts. Of a text, only the words that differ from the last
text are parsed, and of a histogram only the buckets that differ. C code splits and compares.

Each other text takes a slower way, which checks all of it: the first one, one with other fields than the last one, one
with counters that have started again, and one in a wrong format. A test compares the results of both ways.
"""

from dataclasses import dataclass, field
from itertools import compress
from operator import ne

import msgspec
from evenkeel_common.iostat import BUCKETS, COUNTERS, HISTOGRAMS, DeviceStat, Histogram, parse
from evenkeel_common.reading import ZERO, restarted

DIGITS = 20  # the maximum length of a counter, as in iostat.parse()
_COMMAS = bytes.maketrans(b":", b",")
_numbers = msgspec.json.Decoder(list[int])


class _Other(Exception):
    """The text must take the slower way."""


@dataclass(slots=True)
class _Buckets:
    """A histogram: the pairs BUCKET:COUNT of its text, and the same as numbers."""

    pairs: list[bytes]
    counts: Histogram


@dataclass(slots=True)
class _Device:
    """The last line of a device."""

    words: list[bytes]
    keys: list[tuple[bytes, str]]  # of each word: the text up to "=", and the key; "": the value is not used
    counters: dict[str, int]
    histograms: dict[str, _Buckets]


def _subtract(new: DeviceStat, old: DeviceStat) -> DeviceStat:
    """What NEW has more than OLD, without values that have not grown."""
    grown = DeviceStat()
    for key, value in new.counters.items():
        if more := value - old.counters.get(key, 0):
            grown.counters[key] = more
    for key, histogram in new.histograms.items():
        before = old.histograms.get(key, {})
        if found := {
            index: more for index, count in histogram.items() if (more := count - before.get(index, 0))
        }:
            grown.histograms[key] = found
    return grown


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > DIGITS:
        raise _Other
    return int(text)


def _grown(text: bytes, old: _Buckets) -> tuple[_Buckets, Histogram]:
    """The histogram in TEXT, and how much its buckets have grown since OLD. Raises _Other."""
    pairs = text.split(b",")
    added = len(pairs) - len(old.pairs)  # number of buckets that were empty
    changed = b",".join(pairs if added else compress(pairs, map(ne, pairs, old.pairs)))
    try:
        numbers = iter(_numbers.decode(b"[" + changed.translate(_COMMAS) + b"]"))
    except msgspec.DecodeError:
        raise _Other from None
    counts, grown = old.counts.copy(), {}
    for index, count in zip(numbers, numbers, strict=False):
        if index in counts:
            if count == counts[index]:
                continue
            grown[index] = count - counts[index]
        elif 0 <= index < BUCKETS:
            added -= 1
            grown[index] = count
        else:
            raise _Other
        counts[index] = count
    # If a bucket has disappeared, the counters have started again.
    if added or (grown and min(grown.values()) < 0):
        raise _Other
    return _Buckets(pairs, counts), grown


@dataclass(slots=True)
class Counters:
    """The counters of one cgroup, as its file had them last. They begin at 0, without devices."""

    _text: bytes = b""
    _devices: dict[str, _Device] = field(default_factory=dict)

    @property
    def devices(self) -> list[str]:
        """MAJ:MIN of each device in the last text."""
        return list(self._devices)

    def grow(self, text: bytes) -> dict[str, DeviceStat]:
        """By how much each device in TEXT has grown since the last call. Values that have not grown are left out.

        If counters of a device have started again at 0, its new values are the growth. Raises StatError if TEXT has a
        wrong format. Then the next call compares with the text before it.
        """
        if text == self._text:
            return {}
        rows = [line.split(b" ") for line in text.split(b"\n") if line]
        lines = {words[0].decode("ascii", "replace"): words for words in rows}
        if lines.keys() == self._devices.keys() and len(lines) == len(rows):
            try:
                found = {name: self._compare(self._devices[name], words) for name, words in lines.items()}
            except _Other:
                pass
            else:
                self._text = text
                for name, (_, device) in found.items():
                    self._devices[name] = device
                return {name: grown for name, (grown, _) in found.items()}
        return self._read(text, lines)

    @staticmethod
    def _compare(last: _Device, words: list[bytes]) -> tuple[DeviceStat, _Device]:
        """By how much the line WORDS has grown since LAST, and its values. Raises _Other."""
        if len(words) != len(last.keys):
            raise _Other
        grown = DeviceStat()
        device = _Device(words, last.keys, last.counters.copy(), last.histograms.copy())
        for word, before, (prefix, key) in zip(words, last.words, last.keys, strict=True):
            if word == before:
                continue
            if not word.startswith(prefix):
                raise _Other
            if not key:
                continue
            value = word[len(prefix) :]
            if key in COUNTERS:
                number = device.counters[key] = _number(value)
                if number < last.counters[key]:
                    raise _Other
                grown.counters[key] = number - last.counters[key]
            else:
                device.histograms[key], found = _grown(value, last.histograms[key])
                if found:
                    grown.histograms[key] = found
        return grown, device

    def _read(self, text: bytes, lines: dict[str, list[bytes]]) -> dict[str, DeviceStat]:
        """The slower way. LINES: TEXT as words, by device. Raises StatError."""
        result, devices = {}, {}
        for name, stat in parse(text.decode("ascii", "replace")).items():
            words, old = lines.get(name, []), ZERO
            if last := self._devices.get(name):
                old = DeviceStat(
                    0, last.counters, {key: found.counts for key, found in last.histograms.items()}
                )
            result[name] = _subtract(stat, ZERO if restarted(old, stat) else old)
            keys = _keys(words)
            values = {key: word[len(prefix) :] for word, (prefix, key) in zip(words, keys, strict=False)}
            histograms = {
                key: _Buckets(values.get(key, b"").split(b",") if counts else [], counts)
                for key, counts in stat.histograms.items()
            }
            devices[name] = _Device(words, keys, stat.counters, histograms)
        self._text, self._devices = text, devices
        return result


def _keys(words: list[bytes]) -> list[tuple[bytes, str]]:
    """The keys of a line; an empty list, which takes the slower way, if a key is there twice."""
    keys = []
    for word in words:
        key, equals, _ = word.partition(b"=")
        name = key.decode("ascii", "replace") if equals else ""
        keys.append((key + equals, name if name in COUNTERS or name in HISTOGRAMS else ""))
    return keys if len(set(keys)) == len(keys) else []
