# SPDX-License-Identifier: Apache-2.0
"""The I/O settings of conf/, read from the files there, and the rows of the experiments that measure them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lab.kernels import TOP
from lab.model import LabError, Row
from lab.report.tuning import RANGE, Setting

# the kernel's defaults: Linux 6.12, mm/page-writeback.c, fs/dcache.c, ext4.rst
DEFAULTS = {
    "vm.dirty_background_bytes": "10 % of memory",
    "vm.dirty_bytes": "20 % of memory",
    "vm.dirty_expire_centisecs": "3000",
    "vm.dirty_writeback_centisecs": "500",
    "vm.vfs_cache_pressure": "100",
    "vm.swappiness": "60",
    "noatime": "relatime",
    "lazytime": "nolazytime",
    "nodiscard": "nodiscard",
    "commit": "5",
    "queue/read_ahead_kb": "128",
    "queue/nr_requests": "twice the device's queue depth",
    "queue/max_sectors_kb": "what the device takes, at most 1280",
}
# mount options that do not affect how I/O is done
_NOT_IO = re.compile(r"(no)?auto|nofail|bind|sync|errors=.*|nodev|nosuid|noexec|defaults|ro|rw|x-.*")
# the choice of the scheduler is the subject of all other experiments
_CHOSEN = {"queue/scheduler"}


def slug(name: str) -> str:
    """The setting's name as part of row ids: tune.SLUG.CASE.METRIC."""
    return re.split(r"[./]", name)[-1]


def _setting(name: str, where: Path, ours: str, reason: str, top: Path) -> Setting:
    if name not in DEFAULTS:
        raise LabError(
            f"{where}: {name} is set, but its default is unknown: add the kernel's default to lab/settings.py"
        )
    return Setting(name, str(where.relative_to(top)), ours, DEFAULTS[name], reason)


def _sentence(comment: Sequence[str]) -> str:
    """The first sentence of a comment."""
    text = re.sub(r"\s*\([\w/. -]+\)\s*$", "", " ".join(" ".join(comment).split()))
    found = re.match(r"(.+?\.)(\s|$)", text)
    return found.group(1) if found else text


def _sysctls(path: Path, top: Path) -> list[Setting]:
    found = []
    comment: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            comment = comment if comment and comment[-1] != "" else []
            comment.append(line.lstrip("# "))
            continue
        if match := re.fullmatch(r"-?(vm\.\S+) = (\S+)", line):
            found.append(_setting(match[1], path, match[2], _sentence(comment), top))
        # A comment gives the reason of all settings up to the next comment.
        comment = [*comment, ""] if line and comment and comment[-1] != "" else comment if line else []
    return found


def _mounts(path: Path, top: Path) -> list[Setting]:
    """The options of the ext4 partitions: one setting per option, with the values of all partitions."""
    lines = path.read_text().splitlines()
    reasons: dict[str, str] = {}
    last: list[str] = []
    for line in lines:
        if match := re.match(r"#\s((?:\w+=?(?:, )?)+)\s{2,}(.+)", line):
            last = [name.rstrip("=") for name in match[1].split(", ")]
            reasons.update(dict.fromkeys(last, match[2]))
        elif last and (more := re.match(r"#\s{3,}(.+)", line)):
            reasons.update({name: f"{reasons[name]} {more[1]}" for name in last})
        else:
            last = []
    values: dict[str, dict[str, str]] = {}
    for words in (line.split() for line in lines if line and not line.startswith("#")):
        _, target, kind, options = words[:4]
        for option in options.split(",") if kind == "ext4" else ():
            if not _NOT_IO.fullmatch(option):
                name, _, value = option.partition("=")
                values.setdefault(name, {})[target] = value or name
    return [
        _setting(
            name, path,
            ", ".join(f"{v} on {t}" for t, v in by.items()) if len(set(by.values())) > 1 else min(by.values()),
            _sentence([reasons.get(name, "")]), top,
        )
        for name, by in values.items()
    ]  # fmt: skip


def _queues(path: Path, top: Path) -> list[Setting]:
    text = path.read_text()
    found = re.findall(r'ATTR\{(queue/\w+)\}="([^"]*)"', text)
    return [_setting(name, path, value, "", top) for name, value in found if name not in _CHOSEN]


def read(top: Path = TOP) -> list[Setting]:
    """All settings in the order of the files. Raises LabError for one whose default is unknown."""
    conf = top / "conf"
    try:
        return [
            *(s for f in sorted((conf / "sysctl.d").glob("*.conf")) for s in _sysctls(f, top)),
            *_mounts(conf / "fstab", top),
            *(s for f in sorted((conf / "udev/rules.d").glob("*.rules")) for s in _queues(f, top)),
        ]
    except OSError as error:
        raise LabError(f"cannot read {error.filename}: {error.strerror}") from error


def data_options(top: Path = TOP) -> dict[str, str]:
    """The mount options of /data that affect I/O: name → the option as conf/fstab has it."""
    for line in (top / "conf/fstab").read_text().splitlines():
        words = line.split()
        if len(words) > 3 and words[0] != "#" and words[1] == "/data":
            return {o.partition("=")[0]: o for o in words[3].split(",") if not _NOT_IO.fullmatch(o)}
    raise LabError("conf/fstab does not mount /data")


def command(name: str, value: str) -> str:
    """A guest command that sets a sysctl or an attribute of the device's queue."""
    path = f"/proc/sys/{name.replace('.', '/')}" if "." in name else f"/sys/block/$DEV/{name}"
    return f'echo {value} > "{path}" || fail "cannot set {name} to {value}"'


def fold(rows: Sequence[Row]) -> list[Row]:
    """The rows of tune.* for lab.report.tuning: rows METRIC-default, -min and -max become baselines of METRIC."""
    tune = {(r.id, r.kernel): r for r in rows if r.id.startswith("tune.")}
    parts = ("default", *RANGE)

    def baselines(row: Row) -> dict[str, float]:
        return {p: tune[key].value for p in parts if (key := (f"{row.id}-{p}", row.kernel)) in tune}

    return [
        replace(row, baselines={**row.baselines, **baselines(row)})
        for row in tune.values()
        if not any(
            (row.id.removesuffix(f"-{p}"), row.kernel) in tune for p in parts if row.id.endswith(f"-{p}")
        )
    ]
