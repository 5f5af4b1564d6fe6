# SPDX-License-Identifier: Apache-2.0
"""Loads that compete for one device, each in a cgroup with a weight: the form of most experiments.

A load is a command that runs in a group. The device itself counts what each group
gets, request by request, in a window in which all loads run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.model import Device, Experiment, Figure, LabError, Output

_GROUP = re.compile(r"[a-z0-9][\w.-]*(/[a-z0-9][\w.-]*)*", re.ASCII)
# a load's name becomes part of a shell variable's name
_LOAD = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True)
class Load:
    """A command that runs in a cgroup.

    With `waited`, the command ends by itself, and its file /tmp/NAME.json becomes
    section NAME of the report. Other loads run until the guest is switched off.
    """

    name: str
    group: str
    command: str
    program: str = "fio"
    waited: bool = False


def fio(
    name: str, *, rw: str, bs: str, qd: int = 1, slice_: int = 0, device: Device, group: str = "",
    runtime: int = 0, direct: bool = True, engine: str = "libaio", extra: str = "", report: str = "json",
    parts: int = 2,
) -> Load:  # fmt: skip
    """A fio job on one slice of the raw device. With `runtime` 0 it runs until the guest ends.

    The random numbers depend on the guest's seed and on the slice. Two jobs with equal
    random numbers would access the same dies at the same time. `report` is fio's output
    format. If the device does not count by slice, it is divided into `parts` slices.
    """
    part = device.capacity_mb // (device.slices or parts)
    command = (
        f"fio --name={name} --filename=/dev/{device.name} --direct={int(direct)} --ioengine={engine} --rw={rw}"
        f" --bs={bs} --iodepth={qd} --offset={part * slice_}m --size={part}m --time_based"
        f" --runtime={runtime or 36000} --output-format={report} --output=/tmp/{name}.json --eta=never"
        f" --zero_buffers --random_generator=tausworthe64 --randseed=$((SEED * 1000 + {slice_ + 1})) {extra}"
    )
    return Load(name, group or name, command.rstrip(), waited=runtime > 0)


def tree(groups: Mapping[str, int], loads: Sequence[Load]) -> list[str]:
    """The lines of the guest's script that create the groups. `a/x` is inside `a`, which must be listed first.

    Raises ValueError for a load that cannot run, because the guest would not report
    it. For example, a group that contains other groups can have no processes.
    """
    inner = {g.rpartition("/")[0] for g in groups} - {""}
    lines: list[str] = []
    seen: set[str] = set()
    for name, weight in groups.items():
        if not _GROUP.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a group")
        parent = name.rpartition("/")[0]
        if parent and parent not in seen:
            raise ValueError(f"group {name}: {parent} must be listed before it")
        seen.add(name)
        lines.append(f"group {name} {weight}")
        if name in inner:
            lines.append(
                f"echo +io > /cg/{name}/cgroup.subtree_control || fail 'cannot enable io control below {name}'"
            )
    for load in loads:
        if not _LOAD.fullmatch(load.name):
            raise ValueError(f"{load.name!r} cannot name a load")
        if load.group not in seen - inner:
            raise ValueError(
                f"load {load.name}: {load.group} is {'not a leaf' if load.group in seen else 'not a group'}"
            )
    return lines


def script(
    loads: Sequence[Load], groups: Mapping[str, int], *, settle: float, seconds: float, counted: bool,
    prepare: str = "",
) -> str:  # fmt: skip
    """The guest's script: start all loads, wait `settle` seconds, count for `seconds`, collect the reports."""
    lines = ["uname -r | report kernel", "device", 'scheduler "$DEV"', prepare]
    lines += tree(groups, loads)
    lines += [
        f"in_group {load.group} {load.command} > /tmp/{load.name}.log 2>&1 & pid_{load.name}=$!"
        for load in loads
    ]
    if counted:
        lines += [f"sleep {settle}", "counters begin", f"sleep {seconds}", "counters end_"]
        lines += [
            f'kill -0 "$pid_{load.name}" || fail "{load.name} has ended: $(tail -n 1 /tmp/{load.name}.log)"'
            for load in loads
            if not load.waited
        ]
    levels = ["/*" * (i + 1) for i in range(max((g.count("/") for g in groups), default=0) + 1)]
    for load in loads:
        if load.waited:
            name = load.name
            lines.append(f'wait "$pid_{name}" || fail "{name} failed: $(tail -n 1 /tmp/{name}.log)"')
            lines.append(f"report {name} < /tmp/{name}.json")
    lines += [
        'cat "/sys/kernel/debug/block/$DEV/sched/state" 2> /dev/null | report state',
        f"cat {' '.join(f'/cg{level}/io.evenkeel.stat' for level in levels)} 2> /dev/null | report stat",
    ]
    return "\n".join(line for line in lines if line) + "\n"


@dataclass(frozen=True)
class Served:
    """What the device served in a window of `seconds`: bytes read and written, by slice."""

    seconds: float
    read: list[int]
    written: list[int]

    def mbps(self, slice_: int) -> float:
        return (self.read[slice_] + self.written[slice_]) / self.seconds / 1e6

    @staticmethod
    def between(begin: str, end: str) -> Served:
        """The difference between two counter reports. It may be zero."""
        t0, before = _counters(begin)
        t1, after = _counters(end)
        pairs = list(zip(before, after, strict=True))
        return Served(t1 - t0, [b[2] - a[2] for a, b in pairs], [b[5] - a[5] for a, b in pairs])


def _counters(text: str) -> tuple[float, list[list[int]]]:
    lines = [line for line in text.splitlines() if line.strip()]
    table = [[int(x) for x in line.split()] for line in lines[1:] if line.lstrip()[0].isdigit()]
    return float(lines[0]), sorted(table)


def between(out: Output) -> Served:
    """The difference between the counter reports `begin` and `end_`. It may be zero."""
    return Served.between(out.results["begin"], out.results["end_"])


def served(out: Output) -> Served:
    """What the device served in the window. Raises LabError if it served no group at all, but not if one group got nothing."""
    found = between(out)
    need_any(sum(found.read) + sum(found.written), found.seconds)
    return found


def need_any(total: float, seconds: float) -> None:
    """Raises LabError for a window without any I/O: the scheduler hangs, it is not just slow."""
    if not total:
        raise LabError(f"no group was served in the window of {seconds:.0f} s")


def fio_job(text: str) -> dict[str, Any]:
    """The only job of fio's JSON report. fio may print warnings before the JSON."""
    job: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]
    if job["error"]:
        raise ValueError(f"fio ended with error {job['error']}")
    return job


def competing(
    name: str, about: str, *, device: Device, groups: Mapping[str, int], loads: Sequence[Load],
    figures: Callable[[Output], list[Figure]], settle: float = 3.0, seconds: float = 20.0,
    prepare: str = "", programs: tuple[str, ...] = (), **more: Any,
) -> Experiment:  # fmt: skip
    """An experiment with competing loads. `figures` may call served() if the device counts by slices."""
    text = script(loads, groups, settle=settle, seconds=seconds, counted=device.slices > 0, prepare=prepare)
    needed = tuple(dict.fromkeys([*(load.program for load in loads), *programs]))
    return Experiment(name, about, text, figures, device=device, programs=needed, **more)
