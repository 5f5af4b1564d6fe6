# SPDX-License-Identifier: Apache-2.0
"""Guests of the lab: their figures repeat, a wrong scheduler is caught, and each failure has a clear message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_run import TOP, Quick, cli, drawn
from lab import bench, experiments, kernels, schedulers
from lab.model import Experiment, Figure, LabError, Output, flashsim
from lab.runner import Job, Lab, run
from manual import target, ten_lines
from sample import sample

KNOWN = experiments.load()


def emulators() -> list[str]:
    """The running QEMU processes. Inside the build root, only this test starts any."""
    found = []
    for p in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"qemu-system" in p.read_bytes().split(b"\0")[0]:
                found.append(p.parent.name)
        except OSError:
            continue
    return found


def tiny(script: str, **more: object) -> Experiment:
    """An experiment without a load."""
    return Experiment("tiny", "for tests", script, lambda _: [], programs=(), baselines=(), **more)  # type: ignore[arg-type]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(workdir=tmp_path / "work", cache=tmp_path / "cache")


def test_a_scheduler_that_ignores_weights_is_caught(tmp_path: Path) -> None:
    done = cli(
        "bench", "--quick", "--only", "fair.read.1m.qd1.depth64", "--source", str(TOP / "tests/lab/baselines/fifo.c"),
        "--out", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 1
    assert "MISSED: fair.read.1m.qd1.depth64.ratio (6.12, fifo)" in done.stderr
    (ratio,) = [r for r in bench.read(tmp_path / "results.json") if r.id.endswith(".ratio")]
    assert ratio.subject == "fifo"
    assert ratio.value < 1.2


# large I/O on a link, reads on flash with channels, an eMMC that collects garbage: at least one in each part of the bench
KINDS = [
    "fair.read.1m.qd1.depth64",
    "fair.read.100m.qd1.depth64",
    "channel.mixed-90-10",
    "fair.emmc51.read.100m",
]


@pytest.mark.parametrize("name", sample("repeated run", [kind for kind in KINDS if kind in drawn()]))
def test_a_run_repeats_the_figures_of_the_quick_bench(lab: Lab, quick: Quick, name: str) -> None:
    job = Job(KNOWN[name], "6.12", "evenkeel")
    first = {row.id: row.value for row in quick.rows}
    again = run(lab, job)
    assert not again.cached, "the lab of this test has a cache of its own"
    for figure in again.figures():
        assert figure.value == pytest.approx(first[f"{name}.{figure.metric}"], rel=0.01), figure.metric
    assert run(lab, job).cached, "the next run takes the report from the cache"


def test_a_submitter_does_not_dispatch_if_the_driver_may_sleep(lab: Lab) -> None:
    """The driver of an eMMC sleeps during a dispatch, so the submitter would wait for requests of others."""
    script = """
device; scheduler "$DEV"
mount -t tracefs t /sys/kernel/tracing
cd /sys/kernel/tracing; echo 1 > events/block/block_rq_issue/enable; cd /
fio --name=load --filename="/dev/$DEV" --direct=1 --ioengine=libaio --rw=write --bs=4m --iodepth=2 --size=64m > /dev/null
grep -c 'kworker.*block_rq_issue' /sys/kernel/tracing/trace | report workers
grep block_rq_issue /sys/kernel/tracing/trace | grep -vc kworker | report others
"""

    def figures(out: Output) -> list[Figure]:
        return [Figure(name, float(out.results[name])) for name in ("workers", "others")]

    load = Experiment(
        "dispatch",
        "for tests",
        script,
        figures,
        programs=("fio",),
        device=flashsim("emmc50-slow"),
        baselines=(),
    )
    seen = {figure.metric: figure.value for figure in run(lab, Job(load, "6.12", "evenkeel")).figures()}
    assert seen["others"] == 0, seen
    assert seen["workers"] >= 128, seen


# --- failures ----------------------------------------------------------


def fails(lab: Lab, experiment: Experiment, scheduler: str = "none") -> str:
    with pytest.raises(LabError) as caught:
        run(lab, Job(experiment, "6.12", scheduler))
    assert emulators() == []
    assert "\n" not in str(caught.value)
    assert not list(lab.workdir.glob("*.cpio")), "the archive is left behind"
    assert not list(lab.cache.glob("*")), "a failed run is in the cache"
    return str(caught.value)


def test_a_guest_panic_names_experiment_and_log(lab: Lab) -> None:
    message = fails(lab, tiny("echo c > /proc/sysrq-trigger"))
    assert message.startswith("tiny-6.12-none: the guest's kernel complained: ")
    assert str(lab.workdir / "tiny-6.12-none.serial.log") in message


def test_a_hang_in_guest_time_ends_at_once(lab: Lab) -> None:
    message = fails(lab, tiny("sleep 1000000", limit=3600.0))
    assert message.startswith("tiny-6.12-none: in the guest: no end within 3600 s of guest time; processes: ")
    assert "sleep 1000000" in message, "it names what hangs"


def test_a_guest_that_spins_ends_by_the_hosts_clock(lab: Lab) -> None:
    message = fails(lab, tiny("while :; do :; done", limit=1e6, timeout=8.0))
    assert message.startswith("tiny-6.12-none: no end within 8 s of host time; the serial log says: ")


def test_a_guest_that_stops_early_is_no_result(lab: Lab) -> None:
    assert "ended without a result" in fails(lab, tiny("poweroff -f"))


def test_a_command_that_fails_in_the_guest_is_named(lab: Lab) -> None:
    message = fails(lab, tiny("device", device=flashsim("pipe", channels=0)))
    assert "cannot load module flashsim" in message
    assert "channels" in message


def test_a_report_that_cannot_be_read_is_an_error(lab: Lab) -> None:
    def figures(out: Output) -> list[Figure]:
        return [Figure("x", float(out.results["absent"]))]

    with pytest.raises(LabError, match=r"tiny-6\.12-none: the guest's report cannot be read: KeyError"):
        run(lab, Job(Experiment("tiny", "", ":", figures, programs=()), "6.12", "none"))


def test_an_unknown_preset_is_named_with_those_that_exist(lab: Lab) -> None:
    message = fails(lab, tiny("device", device=flashsim("emmc99")))
    assert "no flash preset 'emmc99'; there are" in message
    assert "emmc51" in message


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_lab_that_is_ended_leaves_no_guest(how: signal.Signals) -> None:
    args = [sys.executable, "-m", "lab", "run", "fair.read.100m.qd1.depth1", "--fresh"]
    with subprocess.Popen(args, cwd=TOP / "tests/lab", stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 60
        while not emulators():
            assert time.monotonic() < until
            time.sleep(0.1)
        # A terminal sends ^C to all processes in its foreground.
        for pid in [running.pid, *(map(int, emulators()) if how == signal.SIGINT else ())]:
            os.kill(pid, how)
        _, err = running.communicate(timeout=60)
    if how == signal.SIGINT:
        assert "Traceback" not in err
    until = time.monotonic() + 10
    while emulators():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "t", small], check=False)
    assert mounted.returncode == 0, "tests run as root in the build root's own mount namespace"
    try:
        message = fails(Lab(workdir=small / "work", cache=tmp_path / "cache"), tiny(":"))
        assert message.startswith("tiny-6.12-none: the disk of ")
        assert "is full" in message
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "no.such"], "lab: no experiment matches 'no.such'; 'lab list' names all"),
        (
            ["run", "fair.read.1m.qd1.depth64", "--kernel", "4.4"],
            "lab: fair.read.1m.qd1.depth64-4.4-evenkeel: no kernel '4.4' below build/; there ",
        ),
        (
            ["run", "fair.read.1m.qd1.depth64", "--scheduler", "cfq"],
            "lab: fair.read.1m.qd1.depth64-6.12-cfq: no scheduler 'cfq'; there are none, ",
        ),
        (
            ["run", "fair.read.1m.qd1.depth64", "--variant", "tiny"],
            "lab: fair.read.1m.qd1.depth64-6.12-evenkeel: kernel 6.12 has no variant 'tiny'",
        ),
        (["run", "fair.read.1m.qd1.depth64", "--parallel", "0"], "lab: --parallel must be at least 1, not 0"),
        (["run", "fair.read.1m.qd1.depth64", "--source", "/absent.c"], "lab: no scheduler source /absent.c"),
        (["bench", "--quick", "--only", "nothing.*"], "lab: no experiment matches 'nothing.*'"),
        (["compare", "/absent.json", "/absent.json"], "lab: cannot read /absent.json: No such file"),
    ],
)
def test_bad_arguments_end_in_one_line(args: list[str], message: str) -> None:
    done = cli(*args)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(message), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert emulators() == []


def test_a_source_that_is_no_scheduler_is_named(tmp_path: Path) -> None:
    source = tmp_path / "odd.c"
    source.write_text("int main(void) { return 0; }\n")
    done = cli("run", "fair.read.1m.qd1.depth64", "--source", str(source))
    assert done.returncode == 2
    assert "must set .elevator_name once" in done.stderr
    source.write_text('static struct x y = { .elevator_name = "odd" };\n')
    done = cli("run", "fair.read.1m.qd1.depth64", "--source", str(source))
    assert done.returncode == 2
    assert f"{source} does not build against 6.12:" in done.stderr


def test_the_example_of_the_documentation_works(lab: Lab) -> None:
    (mine,) = ten_lines()
    for row in bench.rows_of(run(lab, Job(mine, "6.12", "evenkeel")), target()):
        print(f"{row.id}: {row.value:.3f}, target {row.target}")
        assert row.holds() is True, f"{row.id}: {row.value}, target {row.target}"


def test_a_source_may_have_a_dash_in_its_name(tmp_path: Path) -> None:
    """kbuild keeps the dash in the module's file name, and the guest loads the module by that name."""
    (tmp_path / "board").symlink_to((TOP / "build/6.12/board").resolve())
    source = tmp_path / "my-fifo.c"
    source.write_text((TOP / "tests/lab/baselines/fifo.c").read_text())
    module = schedulers.build(source, kernels.Kernel("6.12", tmp_path))
    scheduler = schedulers.from_source(source)
    assert (module.is_file(), module.stem, scheduler.module) == (True, "my-fifo", "my-fifo")
    assert scheduler.elevator == "fifo"
