# SPDX-License-Identifier: Apache-2.0
"""The growth of the counters, against a simple model; and how much of a text is parsed."""

from collections.abc import Mapping

import pytest
from evenkeel_common.iostat import BUCKETS, Histogram, StatError, parse
from evenkeel_common.reading import ZERO, restarted
from evenkeel_history import increase
from evenkeel_history.increase import Counters
from hypothesis import example, given, settings
from hypothesis import strategies as st

HISTOGRAM = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 200), max_size=8)
LINE = st.tuples(st.integers(0, 1 << 40), st.integers(0, 200), HISTOGRAM, HISTOGRAM, st.booleans())
# the texts of a file: mostly the same devices, with values that grow or start again
TEXTS = st.lists(st.dictionaries(st.sampled_from(["8:0", "179:0"]), LINE, max_size=2), max_size=6)


def _text(histogram: Mapping[int, int]) -> str:
    return ",".join(f"{index}:{count}" for index, count in sorted(histogram.items())) or "-"


def _file(devices: Mapping[str, tuple[int, int, Histogram, Histogram, bool]]) -> str:
    return "".join(
        f"{name} weight=100 rbytes={count} rios={ios} share={ios}.00{' reordered=7' * more}"
        f" rwait={_text(wait)} rtotal={_text(total)}\n"
        for name, (count, ios, wait, total, more) in devices.items()
    )


def _summed(texts: list[dict[str, tuple[int, int, Histogram, Histogram, bool]]]) -> list[str]:
    """The files of TEXTS. Most values are added up, as the kernel does; a file without devices starts again."""
    files, sums = [], {}
    for text in texts:
        sums = {name: sums[name] for name in sums.keys() & text.keys()}
        for name, (count, ios, wait, total, more) in text.items():
            old = sums.get(name, (0, 0, {}, {}, False))
            merged = [
                {index: a.get(index, 0) + b.get(index, 0) for index in a.keys() | b.keys()}
                for a, b in ((old[2], wait), (old[3], total))
            ]
            sums[name] = old[0] + count, old[1] + ios, merged[0], merged[1], more
        files.append(_file(sums))
    return files


def _growth(old: str, new: str) -> dict[str, tuple[dict[str, int], dict[str, Histogram]]]:
    """The model: parse both texts and subtract."""
    result, before = {}, parse(old)
    for name, stat in parse(new).items():
        first = before.get(name, ZERO)
        if restarted(first, stat):
            first = ZERO
        counters = {key: more for key, n in stat.counters.items() if (more := n - first.counters.get(key, 0))}
        histograms = {
            key: {
                index: more
                for index, n in histogram.items()
                if (more := n - first.histograms.get(key, {}).get(index, 0))
            }
            for key, histogram in stat.histograms.items()
        }
        result[name] = counters, {key: grown for key, grown in histograms.items() if grown}
    return result


def _check(files: list[str]) -> None:
    counters, last = Counters(), ""
    for file in files:
        found = {
            name: ({key: n for key, n in grown.counters.items() if n}, grown.histograms)
            for name, grown in counters.grow(file.encode()).items()
        }
        nothing: tuple[dict[str, int], dict[str, Histogram]] = ({}, {})
        expected = _growth(last, file)
        assert {name: found.get(name, nothing) for name in expected} == expected
        assert sorted(counters.devices) == sorted(expected)
        last = file


@settings(deadline=None)
@given(TEXTS)
@example([{"8:0": (1, 1, {3: 1}, {}, False)}, {"8:0": (1, 1, {3: 1, 9: 1}, {2: 1}, False)}])
@example([{"8:0": (1, 1, {}, {}, False)}, {"8:0": (1, 1, {}, {}, True)}])
def test_counters_that_grow_or_start_again(
    texts: list[dict[str, tuple[int, int, Histogram, Histogram, bool]]],
) -> None:
    _check(_summed(texts))  # as the kernel prints them: the values grow
    _check([_file(text) for text in texts])  # values that also decrease


@pytest.mark.parametrize(
    "bad",
    [
        "8:0 rbytes=many rwait=5:7\n",
        "8:0 rbytes=2 rwait=5:many\n",
        "8:0 rbytes=2 rwait=5:6,500:1\n",
        "8:0 rbytes=2 rwait=5:6,7\n",
        "8:0 rbytes=-2 rwait=5:6\n",
        "8:0 rbytes=2 rwait=5:-6\n",
        "8:0 rbytes=2 rwait=5:6\n8:0 rbytes=2 rwait=5:6\n",
        "disk rbytes=2 rwait=5:6\n",
    ],
)
def test_a_wrong_format_is_refused_and_the_next_text_counts(bad: str) -> None:
    counters = Counters()
    counters.grow(b"8:0 rbytes=1 rwait=5:5\n")
    with pytest.raises(StatError):
        counters.grow(bad.encode())
    grown = counters.grow(b"8:0 rbytes=4 rwait=5:7,6:1\n")["8:0"]
    assert (grown.counters, grown.histograms) == ({"rbytes": 3}, {"rwait": {5: 2, 6: 1}})


def test_texts_that_no_kernel_prints_count_as_well() -> None:
    counters = Counters()
    for total in (3, 5, 9):
        grown = counters.grow(f"8:0\trwait=5:{total}  rbytes=1 rbytes={total}  \n".encode())["8:0"]
    assert (grown.counters, grown.histograms) == ({"rbytes": 4}, {"rwait": {5: 4}})


def test_only_what_has_changed_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second of an app changes few of its numbers. The cost of the service depends on this."""
    slow, decoded = [], []
    monkeypatch.setattr(increase, "parse", lambda text: slow.append(text) or parse(text))
    decode = increase._numbers.decode

    class Decoder:
        @staticmethod
        def decode(text: bytes) -> list[int]:
            found = decode(text)
            decoded.append(len(found))
            return found

    monkeypatch.setattr(increase, "_numbers", Decoder)
    histogram = dict.fromkeys(range(30, 70), 50)
    keys = [f"{letter}{what}" for letter in "rw" for what in ("wait", "serv", "total")]

    def text(changed: int) -> bytes:
        histogram[40] += changed
        return f"8:0 rios={histogram[40]} {' '.join(f'{key}={_text(histogram)}' for key in keys)}\n".encode()

    counters = Counters()
    counters.grow(text(0))
    assert (len(slow), decoded) == (1, [])
    for _ in range(5):
        counters.grow(text(1))
    assert (len(slow), decoded) == (1, [2] * 5 * len(keys))  # of 40 buckets, the one that has changed
    counters.grow(text(0))
    assert (len(slow), len(decoded)) == (1, 5 * len(keys))
    histogram[99] = 1  # a bucket that was empty
    counters.grow(text(1))
    assert len(slow) == 1
