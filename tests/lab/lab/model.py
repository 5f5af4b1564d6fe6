# SPDX-License-Identifier: Apache-2.0
"""The data types of the lab: experiments and devices, and the figures and rows that they produce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from evenkeel_report.row import Better, Clock, Figure, Row, Target

__all__ = ["Better", "Clock", "Device", "Experiment", "Figure", "LabError", "Output", "Row", "Target"]


class LabError(RuntimeError):
    """A request cannot be run, or its run failed. The message is one line that says what failed and why."""


@dataclass(frozen=True)
class Output:
    """A guest's output: `results` has the sections of its report by name, `serial` is the log of its console."""

    results: Mapping[str, str]
    serial: str = ""


@dataclass(frozen=True)
class Device:
    """A block device of the guest.

    - `name`: its file below /dev.
    - `setup`: guest commands that create it; they may use the helpers of guest.sh.
    - `modules`: the kernel modules that `setup` loads.
    - `drive_mb`, `throttle`: size in MiB and throttling options of a QEMU disk,
      for kernels without the flash model. 0 MiB: no such disk.
    - `slices`: the number of equal ranges of addresses for which the device counts
      its I/O separately. 0: it does not count.
    - `capacity_mb`: its size in MiB.
    - `board`: the QEMU disk is the board's image, which the guest only reads (lab.board).
    - `about`: the device in words, for descriptions of experiments.
    """

    name: str
    setup: str
    modules: tuple[str, ...] = ()
    drive_mb: int = 0
    throttle: Mapping[str, int] = field(default_factory=dict)
    slices: int = 0
    capacity_mb: int = 65536
    about: str = ""
    board: bool = False


def flashsim(preset: str, *, slices: int = 8, capacity_mb: int = 65536, **override: int | str) -> Device:
    """The flash model (tests/flashsim) with a preset; `override` replaces single parameters.

    The model's random numbers depend on the guest's seed.
    """
    settings = {"regions": slices, "capacity_mb": capacity_mb, "seed": "$SEED", **override}
    listed = ",".join(f"{k}={v}" for k, v in settings.items())
    return Device(
        "flashsim0", f"load flashsim preset={preset} set={listed}", ("flashsim",),
        slices=slices, capacity_mb=capacity_mb, about=_about(preset, override),
    )  # fmt: skip


def _about(name: str, override: Mapping[str, int | str]) -> str:
    return " ".join([name, *(f"{k}={v}" for k, v in override.items())])


def null_blk(**parameters: int) -> Device:
    """null_blk with module parameters; `gb` is its size."""
    settings = {"nr_devices": 1, "submit_queues": 1, "gb": 64, **parameters}
    listed = " ".join(f"{k}={v}" for k, v in settings.items())
    return Device(
        "nullb0", f"load null_blk {listed}", ("null_blk",), capacity_mb=1024 * settings["gb"],
        about=_about("null_blk", parameters),
    )  # fmt: skip


def null_blk_by_configfs(*, mb: int = 65536, **attributes: int) -> Device:
    """null_blk set up by configfs, for kernels where module parameters cannot set all attributes (5.10: mbps)."""
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
    """A virtio disk that QEMU throttles on the host's clock, by bps_read, bps_write, iops_read …"""
    return Device(
        "vda", "load virtio_blk; load virtio_pci", ("virtio_blk", "virtio_pci"),
        drive_mb=mb, throttle=throttle, capacity_mb=mb,
    )  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """A measurement that a guest runs, once per kernel and scheduler.

    - `about`: a description for the page of the bench and `lab list`.
    - `script`: shell code that the guest's /init runs; guest.sh has its helpers.
    - `figures`: reads the figures from the guest's report.
    - `subject`: the scheduler whose figures become the values of the rows.
    - `figures_of`: the name of the rows' subject when the figures are of a program
      that runs on that scheduler, such as ek-recorder.
    - `kernels`: the versions of the full bench.
    - `variant`: the kernel variant that its guests need, with any scheduler; None if the
      board's kernel has all that they need.
    - `baselines`, `later_baselines`: the schedulers that the full bench measures in
      addition, on the first kernel and on the other kernels.
    - `deep_baselines`: what the deep bench measures in addition, on the first kernel.
    - `quick`: the quick bench runs it, too, on the first kernel. Of `quick_baselines` it runs `none`, and with
      `--baselines` all.
    - `pool`: (NAME, NUMBER). Of all experiments with this NAME, the full bench runs only
      NUMBER, which its seed draws. The deep bench runs all of them.
    - `deep`: only the deep bench runs it, or a bench that names it (`--only`). It takes
      long, or resembles another experiment.
    - `programs`, `modules`: what the script needs in addition to busybox, the
      device's modules and the scheduler.
    - `files`: text files of the guest, by path.
    - `python`: the modules that the guest's Python scripts import (lab/python.py). Empty: no Python.
    - `memory`: in MiB.
    - `icount_shift`: on the virtual clock one instruction takes 2**icount_shift ns.
    - `limit`: the longest run, in seconds of guest time; `timeout`: in host time.
    - `append`: words added to the guest's kernel command line.
    - `curves`: reads distributions from the report, for the page. By name: points
      (x, fraction of the samples up to x) in rising order.
    """

    name: str
    about: str
    script: str
    figures: Callable[[Output], list[Figure]]
    device: Device | None = None
    subject: str = "evenkeel"
    figures_of: str | None = None
    baselines: tuple[str, ...] = ("none", "mq-deadline", "kyber", "bfq")
    kernels: tuple[str, ...] = ("6.12",)
    variant: str | None = None
    later_baselines: tuple[str, ...] = ("none", "bfq")
    deep_baselines: tuple[str, ...] = ()
    quick: bool = False
    quick_baselines: tuple[str, ...] = ()
    deep: bool = False
    pool: tuple[str, int] | None = None
    programs: tuple[str, ...] = ("fio",)
    modules: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    python: tuple[str, ...] = ()
    memory: int = 1024
    cpus: int = 1
    clock: Clock = "virtual"
    icount_shift: int = 0
    limit: float = 600.0
    timeout: float = 400.0
    append: str = ""
    curves: Callable[[Output], dict[str, list[tuple[float, float]]]] | None = None
