# SPDX-License-Identifier: Apache-2.0
"""Baselines that are controllers of I/O: their kernel, their figures of the device, their set-up. No guest boots here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import bench, coefficients, experiments, initramfs, kernels, qemu, runner, schedulers
from lab.model import Experiment, LabError, Output, flashsim, null_blk, virtio
from lab.runner import Job, Lab

FIGURES = {
    "rbps": 200_000_000, "rseqiops": 50_000, "rrandiops": 10_000, "wbps": 60_000_000, "wseqiops": 3_000,
    "wrandiops": 9_000, "read_us": 1000,
}  # fmt: skip


def fio(read: float = 0, write: float = 0, ns: float = 0) -> str:
    return json.dumps({
        "jobs": [{"error": 0, "read": {"bw_bytes": read, "lat_ns": {"mean": ns}}, "write": {"bw_bytes": write}}]
    })  # fmt: skip


REPORT = {
    "rbps": fio(read=200_000_000), "rseqiops": fio(read=50_000 * 4096), "rrandiops": fio(read=10_000 * 4096),
    "wbps": fio(write=60_000_000), "wseqiops": fio(write=3_000 * 4096), "wrandiops": fio(write=9_000 * 4096),
    "read_us": fio(read=4096, ns=1e6),
}  # fmt: skip


# ---- the device's figures


def test_the_figures_of_a_device_are_read_from_fios_reports() -> None:
    assert coefficients.variables(Output(REPORT)) == FIGURES


@pytest.mark.parametrize("name", FIGURES)
def test_a_device_that_did_nothing_has_no_figures(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} of the device is 0"):
        coefficients.variables(Output({**REPORT, name: fio()}))


def test_the_jobs_are_those_of_the_kernels_tool() -> None:
    """tools/cgroup/iocost_coef_gen.py: 128 MiB at QD1, 4 KiB at QD64, no scheduler, no merging, after a file was written."""
    script = coefficients.experiment(flashsim("emmc51")).script
    jobs = [line for line in script.splitlines() if line.startswith("fio ")]
    for (name, rw), line in zip(
        {"fill": "write", **{n: job[0] for n, job in coefficients.JOBS.items()}, "read_us": "randread"}.items(),
        jobs, strict=True,
    ):  # fmt: skip
        assert f"--name={name} " in line
        assert f"--rw={rw} " in line
        if name.endswith("iops"):
            assert "--bs=4k --iodepth=64 " in line
        if name.endswith("bps"):
            assert "--bs=128m --iodepth=1 " in line
    assert 'echo none > "/sys/block/$DEV/queue/scheduler"' in script
    assert 'echo 1 > "/sys/block/$DEV/queue/nomerges"' in script


def test_each_device_has_a_measurement_of_its_own_name() -> None:
    devices = [flashsim("emmc51"), flashsim("emmc51", depth=1), flashsim("pipe"), null_blk()]
    assert len({coefficients.experiment(d).name for d in devices}) == len(devices)


# ---- what a guest gets


class Boots:
    """Replaces QEMU and the archive: stores the files of each guest, and answers with a report of the device's figures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.files: dict[str, dict[str, str]] = {}
        self.booted: list[str] = []
        for variant in ("board", "lab", "debug"):
            image = tmp_path / "6.12" / variant / "arch/x86/boot/bzImage"
            image.parent.mkdir(parents=True)
            image.write_text(variant)
        (tmp_path / "6.12/board/mq-deadline.ko").write_text("")
        (tmp_path / "6.12/lab/mq-deadline.ko").write_text("")
        (tmp_path / "6.12/flashsim.ko").write_text("")
        ours = tmp_path / "6.12/module-lab/flashsim.ko"
        ours.parent.mkdir()
        ours.write_text("")

        def find(version: str, variant: str = "board") -> kernels.Kernel:
            return kernels.Kernel(version, tmp_path / version, variant)

        def pack(stream: Any, *, files: Mapping[str, str], **others: object) -> None:
            stream.write(json.dumps(dict(files)).encode())

        def boot(machine: qemu.Machine, image: Path, workdir: Path, name: str, append: str = "") -> Output:
            self.files[name] = json.loads(image.read_text())
            self.booted.append(f"{name} on {machine.kernel.read_text()}")
            return Output(REPORT)

        monkeypatch.setattr(kernels, "find", find)
        monkeypatch.setattr(initramfs, "pack", pack)
        monkeypatch.setattr(qemu, "run", boot)
        monkeypatch.setattr(qemu, "version", lambda: "an emulator")
        monkeypatch.setattr(qemu, "firmware", lambda: "")


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Boots:
    return Boots(monkeypatch, tmp_path / "build")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(workdir=tmp_path / "work", cache=tmp_path / "cache")


MINE = Experiment("mine", "", "true", lambda _: [], device=flashsim("emmc51"), programs=())
CALIBRATION = coefficients.experiment(flashsim("emmc51")).name


def test_a_controller_gets_its_kernel_its_script_and_the_figures_of_the_device(
    boots: Boots, lab: Lab
) -> None:
    runner.run(lab, Job(MINE, "6.12", "iocost"))
    assert boots.booted == [f"{CALIBRATION}-6.12-none on lab", "mine-6.12-iocost on lab"]
    files = boots.files["mine-6.12-iocost"]
    assert files["/controller.sh"] == (Path(runner.__file__).parent / "controllers/iocost.sh").read_text()
    settings = files["/settings.sh"].splitlines()
    assert {f"{name}='{value}'" for name, value in FIGURES.items()} < set(settings)
    assert any(line.startswith("qos='enable=1 ctrl=user rpct=95.00") for line in settings)


def test_io_max_runs_on_the_boards_kernel(boots: Boots, lab: Lab) -> None:
    runner.run(lab, Job(MINE, "6.12", "iomax"))
    assert boots.booted == [f"{CALIBRATION}-6.12-none on board", "mine-6.12-iomax on board"]


def test_a_scheduler_without_controller_needs_no_figures(boots: Boots, lab: Lab) -> None:
    runner.run(lab, Job(MINE, "6.12", "mq-deadline"))
    assert boots.booted == ["mine-6.12-mq-deadline on board"]
    assert "/controller.sh" not in boots.files["mine-6.12-mq-deadline"]


def test_a_device_is_measured_once_for_all_seeds_even_for_a_fresh_lab(boots: Boots, lab: Lab) -> None:
    for seed in (1, 2, 3):
        runner.run(replace(lab, seed=seed, fresh=True), Job(MINE, "6.12", "iocost"))
    assert [b.split("-")[0] for b in boots.booted] == [CALIBRATION, "mine", "mine", "mine"]


@pytest.mark.parametrize("device", [None, virtio(bps_read=1000)])
def test_without_a_device_on_the_virtual_clock_the_controller_is_refused(
    boots: Boots, lab: Lab, device: Any
) -> None:
    on_host = replace(MINE, device=device, clock="host" if device else "virtual")
    with pytest.raises(LabError, match="iomax needs a device on the virtual clock"):
        runner._coefficients(lab, Job(on_host, "6.12", "iomax"), kernels.find("6.12"))
    assert boots.booted == []


def test_another_variant_than_that_of_the_controller_is_refused(boots: Boots, lab: Lab) -> None:
    for action in (runner.run, lambda where, job: runner.check(where, [job])):
        with pytest.raises(LabError, match="iocost runs on the kernel variant 'lab' only, not on 'debug'"):
            action(replace(lab, variant="debug"), Job(MINE, "6.12", "iocost"))
    assert boots.booted == []


def test_an_experiment_that_names_a_variant_runs_on_it_with_any_scheduler(boots: Boots, lab: Lab) -> None:
    stacked = replace(MINE, variant="lab")
    for name in ("mq-deadline", "none", "iocost"):
        runner.run(lab, Job(stacked, "6.12", name))
    assert [b for b in boots.booted if b.startswith("mine")] == [
        "mine-6.12-mq-deadline on lab", "mine-6.12-none on lab", "mine-6.12-iocost on lab"
    ]  # fmt: skip
    for action in (runner.run, lambda where, job: runner.check(where, [job])):
        with pytest.raises(LabError, match="mine runs on the kernel variant 'lab' only, not on 'debug'"):
            action(replace(lab, variant="debug"), Job(stacked, "6.12", "mq-deadline"))


def test_the_quick_bench_needs_the_boards_kernel_only() -> None:
    jobs = bench.plan(experiments.load().values(), quick=True)
    for job in jobs:
        assert job.experiment.variant is None, f"{job.name} would make the quick bench build another kernel"


def test_a_missing_variant_is_named_before_the_first_guest(tmp_path: Path) -> None:
    (tmp_path / "build/6.12").mkdir(parents=True)
    (tmp_path / "build/6.12/bzImage").write_text("")
    with pytest.raises(LabError, match=r"kernel 6\.12 has no variant 'lab'.*make baselines"):
        kernels.find("6.12", "lab", tmp_path)


# ---- what the scripts set

Guest = Callable[[str, str], Path]


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    """Runs controllers/NAME.sh and then a script, with a temporary folder as the guest's root. Returns the folder's cg."""

    def run(name: str, script: str) -> Path:
        (tmp_path / "cg").mkdir()
        (tmp_path / "tmp").mkdir()
        (tmp_path / "sys/block/flash").mkdir(parents=True)
        (tmp_path / "sys/block/flash/dev").write_text("252:0\n")
        controller = schedulers.find(name).controller
        assert controller
        values = {**FIGURES, **controller.variables, "DEV": "flash"}
        text = "\n".join([
            "set -eu", 'fail() { echo "$*" >&2; exit 1; }', "control_device() { :; }", "control_group() { :; }",
            *(f"{k}='{v}'" for k, v in values.items()), controller.file.read_text(),
            'group() { mkdir -p "/cg/$1"; control_group "$1" "$2"; }', script,
        ])  # fmt: skip
        text = re.sub(r"/(?=(cg|tmp|sys/block)\b)", f"{tmp_path}/", text)
        done = subprocess.run(["busybox", "sh", "-c", text], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return tmp_path / "cg"

    return run


def test_iocost_gets_the_model_and_the_quality_of_service(guest: Guest) -> None:
    cg = guest("iocost", "control_device flash")
    assert (cg / "io.cost.model").read_text() == (
        "252:0 ctrl=user model=linear rbps=200000000 rseqiops=50000 rrandiops=10000 wbps=60000000 wseqiops=3000"
        " wrandiops=9000\n"
    )
    assert (cg / "io.cost.qos").read_text() == (
        "252:0 enable=1 ctrl=user rpct=95.00 rlat=75000 wpct=95.00 wlat=150000 min=50.00 max=150.00\n"
    )


def test_io_max_is_the_share_of_what_the_device_does(guest: Guest) -> None:
    cg = guest("iomax", "group a 300; group a/x 100; group a/y 200; group b 100")
    limits = {name: (cg / name / "io.max").read_text() for name in ("a", "a/x", "a/y", "b")}
    assert limits == {
        "a": "252:0 rbps=150000000 wbps=45000000 riops=37501 wiops=6751\n",
        "a/x": "252:0 rbps=50000000 wbps=15000000 riops=12501 wiops=2251\n",
        "a/y": "252:0 rbps=100000000 wbps=30000000 riops=25001 wiops=4501\n",
        "b": "252:0 rbps=50000000 wbps=15000000 riops=12501 wiops=2251\n",
    }


def test_io_latency_protects_the_heaviest_group(guest: Guest) -> None:
    cg = guest("iolatency", "group a 100; group b 200; group c 200; group c/x 900")
    # the target of `a` is taken away again
    assert {f.parent.name: f.read_text() for f in sorted(cg.glob("**/io.latency"))} == {
        "a": "252:0 target=0\n", "b": "252:0 target=1150\n",
    }  # fmt: skip


# ---- where they run


def test_only_the_deep_bench_has_deep_baselines() -> None:
    e = replace(MINE, baselines=("none",), deep_baselines=("iomax",), kernels=("6.12", "7.3"), quick=True)
    jobs = {
        deep: [(j.kernel, j.scheduler) for j in bench.plan([e], quick=False, deep=deep)]
        for deep in (False, True)
    }
    assert ("6.12", "iomax") not in jobs[False]
    assert ("6.12", "iomax") in jobs[True]
    # other kernels have no variant for controllers
    assert ("7.3", "iomax") not in jobs[True]
    assert len(bench.plan([e], quick=True, deep=False)) == 1


@pytest.mark.parametrize("quick", [False, True])
def test_every_baseline_is_known_and_runs_where_its_kernel_is(quick: bool) -> None:
    """Only 6.12 has a kernel variant with iocost. The quick bench cannot use it, because `make test` does not build it."""
    for job in bench.plan(experiments.load().values(), quick=quick, deep=not quick):
        controller = schedulers.find(job.scheduler).controller
        if controller:
            assert not quick, job.name
            assert job.kernel == "6.12", job.name
            assert job.experiment.device, job.name
            assert job.experiment.clock == "virtual", job.name


def test_the_headline_rows_of_the_full_bench_have_iocost() -> None:
    planned = {(j.experiment.name, j.scheduler) for j in bench.plan(experiments.load().values(), quick=False)}
    assert planned >= {
        (name, "iocost")
        for name in (
            "stall.emmc51.direct.write.100m", "stall.emmc51.buffered.write.100m", "fair.emmc51.read.100m",
            "fair.emmc51.write.100m", "fair.emmc51.shares.3-2-2-1", "latency.beside.read", "cost.read",
        )
    }  # fmt: skip
