# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S311  (random figures need no cryptography)
"""The growth of the I/O, against a simple model that uses the parser in Python."""

import random
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from evenkeel_common.iostat import BUCKETS, COUNTERS, MAX_PARTS, Histogram, StatError, parse, time_of
from evenkeel_common.reading import ZERO, restarted
from evenkeel_history import increase
from evenkeel_history.attribution import Wait
from evenkeel_history.increase import Counters, Growth
from evenkeel_history.period import READ, WRITE, Flow
from history_library import compile_c
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
    files: list[str] = []
    sums: dict[str, tuple[int, int, Histogram, Histogram, bool]] = {}
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


def _growth(old: str, new: str) -> Growth:
    """The model: parse both texts and subtract. Raises StatError."""
    result, before = Growth(), parse(old)
    for name, stat in parse(new).items():
        first = before.get(name, ZERO)
        if restarted(first, stat):
            first = ZERO
        counters = {key: number - first.counters.get(key, 0) for key, number in stat.counters.items()}
        histograms = {
            key: {
                index: more
                for index, number in histogram.items()
                if (more := number - first.histograms.get(key, {}).get(index, 0))
            }
            for key, histogram in stat.histograms.items()
        }
        for direction, letter in ((READ, "r"), (WRITE, "w")):
            gates, waits, services, latency = (
                histograms.get(letter + key, {}) for key in ("gate", "wait", "serv", "total")
            )
            flow = Flow(
                counters.get(letter + "bytes", 0),
                counters.get(letter + "ios", 0),
                time_of(gates) + time_of(waits),
                time_of(gates),
                sum(gates.values()),
                time_of(services),
                latency,
            )
            if flow.bytes or flow.ios or gates or waits or services or latency:
                result.flows[name, direction] = flow
        parts = {
            cgroup: more
            for cgroup, us in stat.waited_for.items()
            if (more := us - before_us if (before_us := first.waited_for.get(cgroup, 0)) <= us else us)
        }
        if counters.get("waited_us") or parts:
            result.waits.append(Wait(counters.get("waited_us", 0), list(parts), list(parts.values())))
    return result


def _check(files: list[str]) -> None:
    counters, last = Counters(), ""
    for file in files:
        expected = _growth(last, file)
        assert counters.grow(file.encode()) == expected.flows
        assert counters.waits(file.encode()) == expected.waits
        assert sorted(counters.devices) == sorted(parse(file))
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
        "8:0 rbytes=000000000000000000002\n",
        "8:0 rbytes=2 rwait=5:-6\n",
        "8:0 rbytes=2 rwait=5:6\n8:0 rbytes=2 rwait=5:6\n",
        "8:0 rbytes=2 waited_for=5\n",
        "8:0 rbytes=2 waited_for=5:\n",
        "8:0 rbytes=2 waited_for=5:1,5:1\n",
        "8:0 rbytes=2 waited_for=5:1,-\n",
        "disk rbytes=2 rwait=5:6\n",
    ],
)
def test_a_wrong_format_is_refused_and_the_next_text_counts(bad: str) -> None:
    counters = Counters()
    counters.grow(b"8:0 rbytes=1 rwait=5:5\n")
    with pytest.raises(StatError):
        (counters.waits if "waited_for" in bad else counters.grow)(bad.encode())
    grown = counters.grow(b"8:0 rbytes=4 rwait=5:7,6:1\n")
    assert grown == {("8:0", READ): Flow(3, wait_us=time_of({5: 2, 6: 1}))}


def test_a_number_that_is_too_large_is_refused() -> None:
    """The kernel prints numbers of 64 bits."""
    counters, most = Counters(), 2**64 - 1
    assert counters.grow(f"8:0 rbytes={most}\n".encode())["8:0", READ].bytes == most
    for number in (most + 1, 10**20 - 1):
        with pytest.raises(StatError, match="too large"):
            counters.grow(f"8:0 rbytes={number}\n".encode())


def test_texts_that_no_kernel_prints_count_as_well() -> None:
    counters = Counters()
    for total in (3, 5, 9):
        grown = counters.grow(f"8:0\trtotal=5:{total}  rbytes=1 rbytes={total}  \n\n".encode())
    assert grown == {("8:0", READ): Flow(4, latency={5: 4})}
    counters.grow(b"8:0 rbytes=3 rios=1\n")
    assert counters.grow(b"8:0 rios=4 rbytes=3\n") == {("8:0", READ): Flow(0, 3)}


def test_values_that_are_the_same_count_again_if_the_counters_have_started_again() -> None:
    counters = Counters()
    counters.grow(b"8:0 rbytes=5 rios=2 rtotal=1:1,2:2,3:1\n")
    grown = counters.grow(b"8:0 rbytes=3 rios=2 rtotal=1:1,2:2,3:4\n")
    assert grown == {("8:0", READ): Flow(3, 2, latency={1: 1, 2: 2, 3: 4})}


def test_many_devices_are_compared() -> None:
    """Their values need more room than the first array has."""
    histogram = {index: index + 1 for index in range(BUCKETS)}
    text = "".join(f"8:{minor} rtotal={_text(histogram)}\n" for minor in range(20))
    found = Counters().grow(text.encode())
    assert found == {(f"8:{minor}", READ): Flow(latency=histogram) for minor in range(20)}


def test_parts_of_a_waiting_time() -> None:
    counters = Counters()
    grown = counters.waits(b"8:0 waited_us=50 waited_for=0:5,4611686018427387904:7\n")
    assert grown == [Wait(50, [0, 1 << 62], [5, 7])]
    # a cgroup that is new, one whose part has not grown, one that was gone and came back, one that is gone
    counters.waits(b"8:0 waited_us=60 waited_for=1:5,2:7,3:4,4:1\n")
    grown = counters.waits(b"8:0 waited_us=75 waited_for=9:2,1:5,2:8,3:3\n")
    assert grown == [Wait(15, [9, 2, 3], [2, 1, 3])]
    assert counters.waits(b"8:0 waited_us=9 waited_for=-\n") == [Wait(9, [], [])]
    assert counters.waits(b"8:0 waited_us=9 waited_for=2:0\n") == []


def test_there_are_at_most_128_parts() -> None:
    many = dict.fromkeys(range(MAX_PARTS), 1)
    text = f"8:0 waited_us=200 waited_for={_text(many)}"
    assert Counters().waits(text.encode()) == [Wait(200, list(many), list(many.values()))]
    with pytest.raises(StatError, match="129 parts"):
        Counters().waits(f"{text},999:1".encode())


# what a mutation inserts: parts of the format, and the bytes at which Python ends a word or a line
PIECES = [
    b" ",
    b"\t",
    b"\x1f",
    b"\n",
    b"\r",
    b"\v",
    b"\f",
    b"\x1c",
    b"\x1d",
    b"\x1e",
    b"\x85",
    b"\0",
    b"-",
    b",",
    b":",
    b"=",
    b"0",
]
PIECES += [
    b" waited_for=1:2",
    b"199:1",
    b"200:1",
    b"rwait=",
    b"wtotal=7:1",
    b" rios=5",
    b"weight=",
    b" x=y z",
    b"99999999999999999999",
    b"\n8:0 ",
]


def _mutants(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of texts. The first one is good or empty; the second one has mutations."""
    draw = random.Random(7)
    keys = [f"{letter}{what}" for letter in "rw" for what in ("wait", "serv", "total", "gate")]

    def good() -> bytes:
        lines = []
        for name in draw.sample(["8:0", "8:16", "179:0"], draw.randint(0, 3)):
            numbers = [
                f"{key}={draw.randint(0, 9)}"
                for key in ("weight", *sorted(COUNTERS), "tags")
                if draw.random() < 0.8
            ]
            for key in keys:
                if draw.random() < 0.8:
                    indices = sorted(draw.sample(range(BUCKETS), draw.randint(0, 4)))
                    numbers.append(f"{key}={_text({index: draw.randint(1, 9) for index in indices})}")
            if draw.random() < 0.8:
                cgroups = draw.sample(range(9), draw.randint(0, 4))
                parts = ",".join(f"{cgroup}:{draw.randint(0, 9)}" for cgroup in cgroups) or "-"
                numbers.append(f"waited_for={parts}")
            if numbers and draw.random() < 0.2:  # a key that is there twice
                numbers.insert(draw.randint(0, len(numbers)), draw.choice(numbers))
            lines.append(f"{name} {' '.join(numbers)}")
        return "\n".join([*lines, ""]).encode()

    def changed(text: bytes) -> bytes:
        """TEXT with other numbers, and perhaps without a pair of a histogram, or with words in another order."""
        new = bytearray(text)
        for _ in range(draw.randint(0, 6)):
            digits = [at for at, byte in enumerate(new) if chr(byte).isdigit()]
            if digits:
                new[draw.choice(digits)] = draw.choice(b"123456789")
        if draw.random() < 0.2 and (at := new.find(b",", draw.randint(0, len(new)))) >= 0:
            del new[at : at + len(bytes(new[at:]).split()[0])]
        words = bytes(new).split(b" ")
        if len(words) > 3 and draw.random() < 0.3:
            at = draw.randint(1, len(words) - 2)
            words[at : at + 2] = words[at + 1], words[at]
        if draw.random() < 0.2:
            words = words[: draw.randint(1, len(words))]
        return b" ".join(words)

    for _ in range(count):
        old = good()
        new = bytearray(changed(old) if draw.random() < 0.7 else good())
        if draw.random() < 0.5:
            for _ in range(draw.randint(1, 3)):
                at, length = draw.randint(0, len(new)), draw.randint(0, 4)
                new[at : at + length] = draw.choice([b"", bytes(new[at : at + 20]), draw.choice(PIECES)])
        if draw.random() < 0.1:  # the text ends before a value
            del new[new.find(b"=", draw.randint(0, len(new))) + 1 :]
        yield old[: None if draw.random() < 0.7 else draw.choice([0, -1])], bytes(new)


def test_damaged_texts_are_read_as_by_the_reference(tmp_path: Path) -> None:
    program = tmp_path / "compare_texts"
    compile_c(program, str(Path(__file__).with_name("compare_texts.c")), "-fsanitize=address,undefined")
    pairs = list(_mutants(4000))
    data = b"".join(struct.pack("<II", len(old), len(new)) + old + new for old, new in pairs)
    done = subprocess.run([program], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    refused = 0
    for (old, new), line in zip(pairs, done.stdout.decode().splitlines(), strict=True):
        values = [int(word) for word in line.split()]
        try:
            expected = _growth(old.decode(), new.decode("ascii", "replace"))
        except StatError:
            assert values == [-1], new
            refused += 1
            continue
        if values == [-1]:
            assert b"99999999999999999999" in new, new
            continue
        assert increase.decode(values, new) == expected, (old, new)
    assert 800 < refused < 3000
    print(f"{refused} texts are refused")
