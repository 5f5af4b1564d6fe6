# SPDX-License-Identifier: Apache-2.0
"""What an experiment declares and what it yields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from lab.qemu import Output

Target = float | tuple[float, float]


@dataclass(frozen=True)
class Row:
    """One figure: `id` is `topic.case….metric`; `target` a bound (by `better`) or a closed range."""

    id: str
    value: float
    unit: str
    better: Literal["lower", "higher"] | None = None
    target: Target | None = None
    paper: float | None = None
    clock: Literal["virtual", "host"] = "virtual"
    kernel: str = ""
    scheduler: str = ""

    def holds(self) -> bool | None:
        """Is the target met? None without a target."""
        match self.target:
            case None:
                return None
            case (low, high):
                return bool(low <= self.value <= high)
            case float() | int() as bound:
                return self.value <= bound if self.better == "lower" else self.value >= bound
        return None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Experiment:
    """`script` is run by the guest's /init (see guest.sh for its helpers); `rows` reads the report.

    `memory` is in MiB, `icount_shift` as in qemu.Machine (None: host clock),
    `programs` and `modules` are what the script needs beside busybox and the
    scheduler.
    """

    name: str
    about: str
    script: str
    rows: Callable[[Output], list[Row]]
    programs: tuple[str, ...] = ("fio",)
    modules: tuple[str, ...] = ("null_blk",)
    memory: int = 1024
    cpus: int = 1
    icount_shift: int | None = 0
    timeout: float = 300.0
    append: str = ""
    tags: frozenset[str] = field(default_factory=frozenset)
