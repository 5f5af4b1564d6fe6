# SPDX-License-Identifier: Apache-2.0
"""What an experiment declares and what it yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Target = float | tuple[float, float]
Better = Literal["lower", "higher"]
Clock = Literal["virtual", "host"]


class LabError(RuntimeError):
    """What was asked for cannot be run, or did not end as it should; one line that says what and why."""


@dataclass(frozen=True)
class Output:
    """`results` are the sections that the guest wrote, by name; `serial` is the console's log."""

    results: Mapping[str, str]
    serial: str = ""


@dataclass(frozen=True)
class Figure:
    """One measured figure of an experiment, before kernel and scheduler are known.

    `target` is a bound (by `better`) or a closed range. `must`: the target is
    held today, so that missing it fails the bench; without it a miss is shown
    as open. `paper` is the publication's own figure of its best or reported
    system. Figures without `better` and target are for reading only.
    `share_of` names a peer and the least percentage of its value that is
    wanted: it makes a row of its own where that peer was measured too, with the
    same `must`.
    """

    metric: str
    value: float
    unit: str = ""
    better: Better | None = None
    target: Target | None = None
    paper: float | None = None
    must: bool = False
    share_of: tuple[str, float] | None = None


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Row:
    """A line of results.json: a figure of one subject beside those of its peers.

    `id` is `topic.case….metric`; `subject` is whose value `value` is; a peer
    that could not be measured is absent. `measured` is when the subject's guest
    began (UTC), which may be long before the file was written; rows of files
    without it have None.
    """

    id: str
    value: float
    unit: str
    better: Better | None
    target: Target | None
    paper: float | None
    clock: Clock
    kernel: str
    subject: str
    must: bool = False
    peers: dict[str, float] = field(default_factory=dict)
    measured: str | None = None

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

    def as_share_of(self, peer: str, least: float) -> Row | None:
        """All its values in percent of a peer's, as `ID-of-PEER`; None where that was not measured or is 0."""
        base = self.peers.get(peer)
        if not base:
            return None
        peers = {n: round(100 * v / base, 2) for n, v in self.peers.items()}
        return Row(
            f"{self.id}-of-{peer}", round(100 * self.value / base, 2), "%", "higher", least, None,
            self.clock, self.kernel, self.subject, self.must, peers, self.measured,
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Row:
        """The inverse of as_json(). Raises LabError when a field is missing, unknown or of another kind."""
        try:
            row = Row(**fields)
        except TypeError as error:
            raise LabError(f"not a row of results: {error}") from None
        target, peers = row.target, row.peers
        for name, right in {
            **{n: isinstance(fields[n], str) for n in ("id", "unit", "kernel", "subject")},
            "value": _number(row.value),
            "better": row.better in (None, "lower", "higher"),
            "target": target is None
            or _number(target)
            or (isinstance(target, list | tuple) and len(target) == 2 and all(map(_number, target))),
            "paper": row.paper is None or _number(row.paper),
            "clock": row.clock in ("virtual", "host"),
            "must": isinstance(row.must, bool),
            "measured": isinstance(row.measured, str | None),
            "peers": isinstance(peers, dict) and all(map(_number, peers.values())),
        }.items():
            if not right:
                raise LabError(f"not a row of results: {name} is {fields[name]!r}")
        return Row(**{**fields, "target": tuple(target)}) if isinstance(target, list) else row


@dataclass(frozen=True)
class Device:
    """A block device of the guest.

    `name` below /dev; `setup` are guest commands that make it appear (helpers
    of guest.sh); `modules` what they load; `drive` a QEMU drive of that many
    MiB with throttling options, for kernels that have no simulated flash;
    `slices` into how many equal parts the device counts its I/O by itself, 0
    when it does not.
    """

    name: str
    setup: str
    modules: tuple[str, ...] = ()
    drive_mb: int = 0
    throttle: Mapping[str, int] = field(default_factory=dict)
    slices: int = 0
    capacity_mb: int = 65536


def flashsim(preset: str, *, slices: int = 8, capacity_mb: int = 65536, **override: int | str) -> Device:
    """A flash model (tests/flashsim) by preset, single parameters overridden."""
    settings = {"regions": slices, "capacity_mb": capacity_mb, **override}
    listed = ",".join(f"{k}={v}" for k, v in settings.items())
    return Device(
        "flashsim0", f"load flashsim preset={preset} set={listed}", ("flashsim",),
        slices=slices, capacity_mb=capacity_mb,
    )  # fmt: skip


def null_blk(**parameters: int) -> Device:
    """null_blk with module parameters; `gb` is its size."""
    settings = {"nr_devices": 1, "submit_queues": 1, "gb": 64, **parameters}
    listed = " ".join(f"{k}={v}" for k, v in settings.items())
    return Device("nullb0", f"load null_blk {listed}", ("null_blk",), capacity_mb=1024 * settings["gb"])


def null_blk_by_configfs(*, mb: int = 65536, **attributes: int) -> Device:
    """null_blk for kernels whose module has no parameter for what configfs can set (5.10: mbps)."""
    values = {"size": mb, **attributes, "power": 1}
    lines = [
        "load null_blk nr_devices=0",
        "mount -t configfs configfs /sys/kernel/config 2> /dev/null",
        "mkdir /sys/kernel/config/nullb/nullb0",
    ]
    lines += [
        f"echo {v} > /sys/kernel/config/nullb/nullb0/{k} || fail cannot set {k}" for k, v in values.items()
    ]
    return Device("nullb0", "\n".join(lines), ("null_blk",), capacity_mb=mb)


def virtio(mb: int = 8192, **throttle: int) -> Device:
    """A virtio disk throttled by QEMU on the host's clock: bps_read, bps_write, iops_read …"""
    return Device(
        "vda", "load virtio_blk; load virtio_pci", ("virtio_blk", "virtio_pci"),
        drive_mb=mb, throttle=throttle, capacity_mb=mb,
    )  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """`script` is run by the guest's /init (see guest.sh for its helpers); `figures` reads the report.

    `subject` is the scheduler whose figures the rows carry, under the name `figures_of` where
    they are of something that runs on it; `peers` are those that are measured
    beside it on the first of `kernels`, the versions of the full bench, and
    `later_peers` those on the others. With `quick`, the experiment is part of the quick bench too, on the first of its
    kernels, with the peers named there; with `deep`, only of the deep one, or
    where it is asked for by name: it takes long, or is one more of a kind. `programs` and `modules` are what the
    script needs beside busybox, the device's modules and the scheduler; `files`
    of the guest by path. `curves` reads distributions from the report, by name: (x, fraction up to x) in
    rising order, for the page. `memory` is in MiB. On the virtual clock one
    instruction lasts 2**icount_shift ns; `limit` is in guest seconds, `timeout`
    in host seconds.
    """

    name: str
    about: str
    script: str
    figures: Callable[[Output], list[Figure]]
    device: Device | None = None
    subject: str = "evenkeel"
    figures_of: str | None = None
    peers: tuple[str, ...] = ("none", "mq-deadline", "kyber", "bfq")
    kernels: tuple[str, ...] = ("6.12",)
    later_peers: tuple[str, ...] = ("none", "bfq")
    quick: bool = False
    quick_peers: tuple[str, ...] = ()
    deep: bool = False
    programs: tuple[str, ...] = ("fio",)
    modules: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    memory: int = 1024
    cpus: int = 1
    clock: Clock = "virtual"
    icount_shift: int = 0
    limit: float = 600.0
    timeout: float = 400.0
    append: str = ""
    curves: Callable[[Output], dict[str, list[tuple[float, float]]]] | None = None
