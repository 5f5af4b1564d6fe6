# SPDX-License-Identifier: Apache-2.0
"""Each baseline is in force in the guest: the kernel says so, and the device's counters show its effect.

If the set-up did not switch a controller on, the bench would measure mq-deadline under the
controller's name. So each check runs once more with the controller left out, and must then
fail. `make baselines` runs this file. `make test` does not, because the kernel with all
controllers takes as long to build as the board's.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))

from lab import coefficients, schedulers
from lab.competing import competing, fio, served
from lab.model import Experiment, Output, flashsim
from lab.runner import Job, Lab, run

# a device that serves few requests a second, so that the host can measure it quickly
DEVICE = flashsim("emmc50-slow", capacity_mb=1024)
WITHOUT = {
    f"{name}-left-out": replace(s, controller=None) for name, s in schedulers.KNOWN.items() if s.controller
}
LAB = Lab(extra=WITHOUT)
SHOWN = """
cat "/sys/block/$DEV/queue/scheduler" | report elevator
cat "/sys/block/$DEV/queue/iosched/low_latency" 2> /dev/null | report low_latency
cat /cg/io.cost.model 2> /dev/null | report model
cat /cg/io.cost.qos 2> /dev/null | report qos
for g in a b; do
	cat "/cg/$g/io.stat" | report "stat-$g"
	cat "/cg/$g/io.max" | report "max-$g"
	cat "/cg/$g/io.latency" 2> /dev/null | report "latency-$g"
done
"""
# makes io.stat show the queue depth that io.latency allows a group
DEBUG = "echo 1 > /sys/module/blk_cgroup/parameters/blkcg_debug_stats"


def pair(*names: str, block: str = "64k", depth: int = 16) -> Experiment:
    """Groups a and b with weights 300:100. Only the groups in `names` have a load: random reads."""
    e = competing(
        "baselines", "for tests", device=DEVICE, groups={"a": 300, "b": 100}, figures=lambda out: [], settle=3,
        loads=[
            fio(g, rw="randread", bs=block, qd=depth, slice_="ab".index(g), device=DEVICE) for g in names
        ],
        seconds=6, prepare=DEBUG,
    )  # fmt: skip
    return replace(e, script=e.script + SHOWN)


def shown(name: str, experiment: Experiment) -> Output:
    """The report of a guest that runs the baseline. A baseline whose controller is left out boots the same kernel variant."""
    controller = schedulers.KNOWN[name.removesuffix("-left-out")].controller
    variant = (controller and controller.variant) or Lab.variant
    return run(replace(LAB, variant=variant), Job(experiment, "6.12", name)).output


def in_force_iocost(name: str) -> bool:
    """The kernel charges both groups for their requests. With the QoS of `iocost`, the device serves them by weight.

    `iocost-auto` allows more than this device serves, so both groups get what they ask for.
    """
    out = shown(name, pair("a", "b", block="1m", depth=16))
    charged = [re.search(r"\bcost\.usage=(\d+)", out.results[f"stat-{g}"]) for g in "ab"]
    s = served(out)
    print(name, out.results["qos"], out.results["model"], charged, s.mbps(0), s.mbps(1))
    return (
        "enable=1" in out.results["qos"]
        and all(c and int(c[1]) > 0 for c in charged)
        and (name != "iocost" or s.mbps(0) / s.mbps(1) > 2)
    )


def in_force_iomax(name: str) -> bool:
    """A group gets no more than its share of the device, even if no other group uses the device."""
    out = shown(name, pair("b", block="1m", depth=4))
    measured = run(LAB, Job(coefficients.experiment(DEVICE), "6.12", "none"))
    limit = coefficients.variables(measured.output)["rbps"] / 4 / 1e6
    print(name, out.results["max-b"], served(out).mbps(1), limit)
    return 0.9 * limit < served(out).mbps(1) < 1.1 * limit


def in_force_iolatency(name: str) -> bool:
    """The heavier group has a latency target and misses it under contention from b, so b has a short queue."""
    out = shown(name, pair("a", "b", block="256k", depth=8))
    a, b = (re.search(r"\bdepth=(\w+)", out.results[f"stat-{g}"]) for g in "ab")
    print(name, out.results["latency-a"], out.results["stat-a"], out.results["stat-b"])
    return (
        "target=" in out.results["latency-a"]
        and a is not None
        and a[1] == "max"
        and b is not None
        and b[1].isdigit()
        and int(b[1]) <= 4
    )


IN_FORCE = {
    "iocost": in_force_iocost, "iocost-auto": in_force_iocost, "iomax": in_force_iomax,
    "iolatency": in_force_iolatency,
}  # fmt: skip


def test_every_controller_has_a_check() -> None:
    assert set(IN_FORCE) == {name for name, s in schedulers.KNOWN.items() if s.controller}


@pytest.mark.parametrize("name", IN_FORCE)
def test_the_controller_is_in_force(name: str) -> None:
    assert IN_FORCE[name](name)


@pytest.mark.parametrize("name", IN_FORCE)
def test_a_controller_that_is_left_out_is_found(name: str) -> None:
    assert not IN_FORCE[name](f"{name}-left-out")


@pytest.mark.parametrize("name", ["none", "mq-deadline", "kyber", "bfq", "bfq-nolowlat", "iocost", "iomax"])
def test_the_elevator_is_the_baselines_own(name: str) -> None:
    out = shown(name, pair("a", "b"))
    assert f"[{schedulers.KNOWN[name].elevator}]" in out.results["elevator"]
    assert out.results["low_latency"].strip() == {"bfq": "1", "bfq-nolowlat": "0"}.get(name, "")


def test_the_model_has_the_figures_of_the_device() -> None:
    kernel = replace(LAB, variant="lab")
    measured = run(kernel, Job(coefficients.experiment(DEVICE), "6.12", "none")).output
    wanted = coefficients.variables(measured)
    model = dict(re.findall(r"(\w+)=(\w+)", shown("iocost", pair("a", "b")).results["model"]))
    assert {n: int(model[n]) for n in coefficients.JOBS} == {n: wanted[n] for n in coefficients.JOBS}
    assert model["ctrl"] == "user"
