# SPDX-License-Identifier: Apache-2.0
"""The schedulers that an experiment may run on, by the name that the lab gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.model import LabError


@dataclass(frozen=True)
class Scheduler:
    """`module` is loaded first when there is one; `settings` go to queue/iosched/.

    `file` is the module's own path where it was built from a source file that
    the caller named, else it is looked up with the kernel's.
    """

    name: str
    elevator: str
    module: str | None = None
    settings: Mapping[str, int] = field(default_factory=dict)
    file: Path | None = None


def _bfq(name: str, **settings: int) -> Scheduler:
    return Scheduler(name, "bfq", "bfq", settings)


KNOWN = {
    s.name: s
    for s in (
        Scheduler("none", "none"),
        Scheduler("mq-deadline", "mq-deadline", "mq-deadline"),
        Scheduler("kyber", "kyber", "kyber-iosched"),
        _bfq("bfq"),
        # what the first paper tried: expiry of 1 s (here ms), a budget of 1024
        # sectors, one request at a time
        _bfq("bfq-expire1s", fifo_expire_sync=1000, fifo_expire_async=1000),
        _bfq("bfq-budget1024", max_budget=1024),
        _bfq("bfq-strict", strict_guarantees=1),
        _bfq("bfq-nolowlat", low_latency=0),
        Scheduler("evenkeel", "evenkeel", "evenkeel"),
    )
}


def find(name: str, extra: Mapping[str, Scheduler] | None = None) -> Scheduler:
    """By name. Raises LabError that lists what there is."""
    everything = {**KNOWN, **(extra or {})}
    if name not in everything:
        raise LabError(f"no scheduler {name!r}; there are {', '.join(everything)}")
    return everything[name]
