# SPDX-License-Identifier: Apache-2.0
"""Experiments with applications and stacks: the guests' scripts, and the figures that are read from their reports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import experiments, scripts
from lab.experiments import apps, stacks
from lab.model import LabError, Output

OURS = {n: e for n, e in experiments.load().items() if n.startswith(("app.", "pool."))}


# ---- scripts


def shown(values: dict[str, str]) -> list[str]:
    """The values as the guest's shell sees them."""
    lines = [x for x in scripts.script("any", **values).splitlines() if x.partition("=")[0] in values]
    text = "\n".join(["SEED=7 DEV=flash", *lines, *(f'printf "%s\\0" "${k}"' for k in values)])
    return subprocess.run(["sh", "-ec", text], capture_output=True, text=True, check=True).stdout.split("\0")[
        :-1
    ]


def test_a_value_arrives_as_it_is_and_a_guests_variable_is_replaced() -> None:
    plain = """a 'b' "c" `d` \\e; f"""
    assert shown({"A": plain, "B": "--seed=$SEED /dev/$DEV", "C": '"$SEED" `no` \\n'}) == [
        plain, "--seed=7 /dev/flash", '"7" `no` \\n'
    ]  # fmt: skip


def test_every_script_is_used_and_has_its_first_line() -> None:
    used = {f for e in experiments.load().values() for f in e.files}
    for file in scripts.FOLDER.glob("*.sh"):
        assert f"/guest/{file.name}" in used
        # tests/lint finds scripts by this line
        assert file.read_text().startswith("#!/bin/sh\n")


def test_a_script_gets_every_value_that_its_head_names() -> None:
    """The first comment of a script lists its variables: `#   NAME, NAME  meaning`."""
    for e in OURS.values():
        for path, text in e.files.items():
            if path.endswith(".sh"):
                head = text.split("# shellcheck disable", 1)[0]
                for names in re.findall(r"^#   ([A-Z]+(?:, [A-Z]+)*)  ", head, re.M):
                    for name in names.split(", "):
                        assert re.search(rf"^{name}=", e.script, re.M), f"{e.name}: {name} of {path}"


def test_none_is_part_of_the_quick_bench() -> None:
    assert OURS
    assert not any(e.quick for e in OURS.values())


# ---- applications


def counters(seconds: float, *slices: tuple[int, int]) -> str:
    """A report of the device: bytes read and written by slice."""
    lines = [f"{i} 1 {r} 0 1 {w} 0" for i, (r, w) in enumerate(slices)]
    return "\n".join([str(seconds), *lines])


PLAYER = {"player": json.dumps({"stalls": 2, "worst_stall_ms": 80, "read_max_us": 412_345, "bytes": 1})}


def figures(name: str, results: dict[str, str]) -> dict[str, float]:
    return {f.metric: f.value for f in OURS[name].figures(Output(results))}


def commits(count: int, per_second: float) -> str:
    times = {f"commit_{p}_us": us for p, us in (("p50", 9000), ("p99", 20_000), ("max", 123_456))}
    return json.dumps({"commits": count, "bytes": 1000 * count, "per_second": per_second, **times})


def test_commits_are_compared_with_half_of_what_they_reach_alone() -> None:
    found = figures("app.sqlite", {
        "alone": commits(1000, 100), "loop": commits(400, 45), "planned": commits(250, 12.5),
        "begin": counters(1, (0, 1_000_000)), "end_": counters(5, (0, 31_000_000)),
    })  # fmt: skip
    assert found == {
        "p50": 9.0, "max": 123.46, "n": 250, "per-second": 45, "loop-max": 123.46, "alone-per-second": 100,
        "alone-p50": 9.0, "least": 0.9, "wear": 30.0,
    }  # fmt: skip


def test_a_percentile_needs_samples_beyond_it() -> None:
    writes = {"begin": counters(1, (0, 0)), "end_": counters(5, (0, 1))}
    results = {"alone": commits(9, 9), "loop": commits(9, 9), **writes}
    assert "p99" not in figures("app.sqlite", {**results, "planned": commits(499, 9)})
    assert figures("app.sqlite", {**results, "planned": commits(500, 9)})["p99"] == 20.0


def test_an_update_has_its_rate_its_wear_and_the_players_stalls() -> None:
    found = figures("app.update", {
        **PLAYER, "alone": "8000\n", "together": "10000\n", "begin": counters(1, (0, 0), (0, 0)),
        "end_": counters(12, (7, 838_860_800), (0, 838_860_800)),
    })  # fmt: skip
    assert found == {
        "stalls": 2, "worst_ms": 80, "read_max_ms": 412.3, "mbps": 83.89, "seconds": 10.0, "alone-seconds": 8.0, "wear": 2.0,
    }  # fmt: skip


def test_a_player_that_read_nothing_is_no_result() -> None:
    with pytest.raises(ValueError, match="the player read nothing"):
        apps._player(Output({"player": json.dumps({"bytes": 0})}))


def test_a_swapping_group_and_a_reader_get_parts_of_what_they_get_alone() -> None:
    def pages(n: int) -> str:
        return f"pswpin {n}\npswpout {n}"

    def region(seconds: float, read: int) -> str:
        return counters(seconds, *((0, 0),) * 5, (read, 0), *((0, 0),) * 2)

    results = {**PLAYER}
    for name, seconds, read, swapped in (
        ("reader", 0, 0, 0), ("reader-end", 4, 400_000_000, 0), ("big", 5, 0, 1000), ("big-end", 9, 0, 6000),
        ("begin", 10, 0, 6000), ("end_", 20, 0, 11000), ("together", 20, 0, 11000),
        ("together-end", 28, 600_000_000, 13000),
    ):  # fmt: skip
        results[name], results[f"{name}-pages"] = region(seconds, read), pages(swapped)
    found = figures("app.swap", results)
    assert (found["alone-swapped"], found["swapped"]) == (10.24, 4.1)
    assert (found["reader-least"], found["swap-least"], found["reader"]) == (1.0, 0.8, 75.0)


# ---- stacks


def rivals(together: tuple[int, int, int], whole: int | None = None, copies: int = 1) -> dict[str, str]:
    """Reports of three groups, each of which reaches 100 MB/s alone. `copies`: number of devices with equal counts."""

    def report(seconds: int, *served: int) -> str:
        lines = counters(seconds, *((n, 0) for n in served)).splitlines()
        lines = [lines[0], *lines[1:] * copies]
        return "\n".join([*lines, *([] if whole is None else [f"99 0 0 0 0 {whole} 0"])])

    alone = {}
    for i, r in enumerate(stacks.ABOVE):
        alone[f"alone.{r.name}.begin"] = report(0, 0, 0, 0)
        alone[f"alone.{r.name}.end"] = report(8, *(800_000_000 * (i == k) for k in range(3)))
    zero = report(10, 0, 0, 0) if whole is None else report(10, 0, 0, 0).replace(f" {whole} 0", " 0 0")
    return {**alone, "begin": zero, "end_": report(20, *together)}


def test_the_least_part_is_that_of_the_group_which_misses_most_of_its_share() -> None:
    found = figures("app.stack.none", rivals((200_000_000, 480_000_000, 220_000_000)))
    assert found == {
        "least": 0.8, "sum": 90.0, "total": 90.0, "part-reads": 1.0, "part-heavy": 0.8, "part-light": 1.1,
    }  # fmt: skip


def test_two_devices_add_up() -> None:
    one = figures("app.stack.raid1", rivals((200_000_000, 480_000_000, 220_000_000)))
    two = figures("app.stack.raid1", rivals((200_000_000, 480_000_000, 220_000_000), copies=2))
    assert {**one, "total": 180.0} == two


def test_on_files_what_no_group_is_charged_for_shows() -> None:
    found = figures("app.files.ext4", rivals((200_000_000, 600_000_000, 200_000_000), whole=1_250_000_000))
    assert (found["least"], found["charged"]) == (1.0, 80.0)


def test_a_group_that_gets_nothing_alone_is_an_error_and_one_that_gets_nothing_together_is_not() -> None:
    results = rivals((0, 600_000_000, 200_000_000))
    assert figures("app.stack.none", results)["least"] == 0
    results["alone.reads.end"] = results["alone.reads.begin"].replace("0", "8", 1)
    with pytest.raises(ValueError, match="reads alone was not served"):
        figures("app.stack.none", results)
    with pytest.raises(LabError, match="no group was served"):
        figures("app.stack.none", rivals((0, 0, 0)))


def test_only_what_the_boards_kernel_lacks_names_a_variant() -> None:
    """An experiment may name a variant only if the board's kernel lacks what it needs. app.verity needs none, for example."""
    other = {n for n, e in OURS.items() if e.variant}
    assert other == {
        "app.swap", "app.stack.crypt", "app.stack.crypt-inline", "app.stack.raid1", "app.files.f2fs", "app.files.btrfs",
        "app.zoned",
    }  # fmt: skip
