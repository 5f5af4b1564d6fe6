# SPDX-License-Identifier: Apache-2.0
"""Faults of users and guests: each ends in a LabError of one line. These tests boot no guest."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import bench, experiments, kernels, qemu, runner, schedulers, sight
from lab.model import Device, Experiment, Figure, LabError, Output, Row, flashsim

ROW = Row("fair.x.ratio", 2.0, "", None, (1.9, 2.1), None, "virtual", "6.12", "evenkeel").as_json()
OK = Experiment("fair.mine", "", ":", lambda _: [])


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([1], "row 1 is no object"),
        ([ROW, {"id": "x"}], "row 2: not a row of results: "),
        ([{**ROW, "value": "2"}], "row 1: not a row of results: value is '2'"),
        ([{**ROW, "target": [1]}], "row 1: not a row of results: target is [1]"),
        ([{**ROW, "peers": [1]}], "row 1: not a row of results: peers is [1]"),
        ([{**ROW, "better": "more"}], "row 1: not a row of results: better is 'more'"),
    ],
)
def test_an_invalid_row_is_named(tmp_path: Path, listed: object, message: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps([ROW]))
    assert bench.read(file)[0].target == (1.9, 2.1)
    file.write_text(json.dumps(listed))
    with pytest.raises(LabError) as caught:
        bench.read(file)
    assert str(caught.value).startswith(f"{file}, {message}")


def boom() -> object:
    raise ValueError("'a b' cannot name a group")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: SimpleNamespace(), "has no list EXPERIMENTS"),
        (lambda: SimpleNamespace(EXPERIMENTS=[1]), "1 in EXPERIMENTS is not an experiment"),
        (lambda: SimpleNamespace(EXPERIMENTS=[OK, OK]), "already has an experiment fair.mine"),
        (lambda: SimpleNamespace(EXPERIMENTS=[replace(OK, name="../x")]), "'../x' cannot name an experiment"),
        (boom, "ValueError: 'a b' cannot name a group"),
    ],
)
def test_an_unusable_experiment_is_named(
    monkeypatch: pytest.MonkeyPatch, module: Callable[[], object], message: str
) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda _: module())
    with pytest.raises(LabError, match=r"^experiments/\w+\.py(:| has no) ") as caught:
        experiments.load()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        ("@@@ kernel\n6.12\n@@@ end\n\n", None),
        ("@@@ failed\nno device\n@@@ end\n\n", "no device"),
        ("@@@ failed\n\n@@@ end\n\n", "a command failed without a message"),
        ("@@@ x\nhalf a line@@@ failed\noops\n@@@ end\n\n", "oops"),
        ("@@@ failed\na\n\x1b[1mb\n@@@ end\n\n", "a [1mb"),
    ],
)
def test_the_reason_of_a_failed_guest_is_read_from_its_report(reported: str, why: str | None) -> None:
    assert qemu.failure(reported) == why


def test_a_variant_without_an_image_is_refused(tmp_path: Path) -> None:
    build = tmp_path / "build/6.12"
    (build / "module").mkdir(parents=True)
    (build / "bzImage").touch()
    kernels.find("6.12", top=tmp_path)
    for variant in ("", "module", "debug", "../6.12"):
        with pytest.raises(LabError, match=r"kernel 6\.12 has no variant"):
            kernels.find("6.12", variant, top=tmp_path)
    (build / "debug/arch/x86/boot").mkdir(parents=True)
    (build / "debug/arch/x86/boot/bzImage").touch()
    assert kernels.find("6.12", "debug", top=tmp_path).image.is_relative_to(build / "debug")


def test_two_labs_may_use_the_same_file_name(tmp_path: Path) -> None:
    with qemu._new_file(tmp_path / "report") as one, qemu._new_file(tmp_path / "report") as other:
        os.write(one.fileno(), b"one")
        os.write(other.fileno(), b"other")
        one.seek(0)
        assert one.read() == b"one"
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


def test_a_lab_that_is_ending_kills_its_guests_and_starts_no_new_ones() -> None:
    guest = qemu._started(["sleep", "100"], [], "x")
    with qemu.ending():
        assert guest.wait(10) < 0
        with pytest.raises(LabError, match=r"^y: not started"):
            qemu._started(["sleep", "100"], [], "y")
    qemu._guests.discard(guest)
    assert guest.communicate() == (None, "")


@pytest.mark.parametrize("under", ["file", "file/below"])
def test_an_unwritable_output_folder_is_found_before_the_first_guest(tmp_path: Path, under: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=r"^cannot write to "):
        bench._check_out(tmp_path / under)
    bench._check_out(tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


def test_a_build_failure_is_one_line_with_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "board").mkdir()
    source = tmp_path / "odd.c"
    source.write_text('.elevator_name = "odd"')
    text = (
        "make: Entering\n/x/odd.c:3:1: error: no struct\n/x/odd.c:9:1: error: more\nmake: *** [all] Error 2\n"
    )
    monkeypatch.setattr(
        subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=2, stdout="", stderr=text)
    )
    with pytest.raises(LabError) as caught:
        schedulers.build(source, kernels.Kernel("6.12", tmp_path))
    assert str(caught.value) == f"{source} does not build against 6.12: /x/odd.c:3:1: error: no struct"
    odd = tmp_path / "my sched.c"
    odd.write_text(source.read_text())
    with pytest.raises(LabError, match="cannot name a module"):
        schedulers.from_source(odd)


def unpacked(tmp_path: Path) -> kernels.Kernel:
    """A binary kernel as `make kernel KERNEL=5.10` unpacks it."""
    (tmp_path / "modules/kernel/block").mkdir(parents=True)
    (tmp_path / "modules/kernel/block/bfq.ko").write_bytes(b"\0depends=\0")
    (tmp_path / "bzImage").touch()
    return kernels.Kernel("5.10", tmp_path)


@pytest.mark.parametrize(
    ("scheduler", "device", "message"),
    [
        ("evenkeel", None, "evenkeel.ko: it is a binary kernel of Debian, for which this project builds no modules"),
        ("bfq", flashsim("pipe"), "flashsim.ko: it is a binary kernel of Debian, for which this project builds no modules"),
        ("odd", None, "kernel 5.10 is a binary kernel of Debian: odd.c cannot be built for it"),
    ],
)  # fmt: skip
def test_a_module_that_a_binary_kernel_cannot_have_is_found_before_the_first_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str, device: Device | None, message: str
) -> None:
    kernel = unpacked(tmp_path)
    monkeypatch.setattr(kernels, "find", lambda *_: kernel)
    monkeypatch.setattr(qemu, "version", lambda: "an emulator")
    odd = schedulers.Scheduler("odd", "odd", "odd", source=tmp_path / "odd.c")
    (tmp_path / "odd.c").touch()
    lab = runner.Lab(workdir=tmp_path, cache=tmp_path, extra={"odd": odd})
    runner.check(lab, [runner.Job(OK, "5.10", "bfq")])
    with pytest.raises(LabError) as caught:
        runner.run_all(lab, [runner.Job(replace(OK, device=device), "5.10", scheduler)], lambda *_: None)
    assert str(caught.value).startswith(f"fair.mine-5.10-{scheduler}: kernel 5.10 ")
    assert message in str(caught.value)
    assert "'make module" not in str(caught.value)


@pytest.mark.parametrize("shown", ["", "/elsewhere:{}"])
def test_an_error_about_a_file_outside_the_build_root_has_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    monkeypatch.setenv("EVENKEEL_INSIDE", "/a/build/root")
    monkeypatch.setenv("EVENKEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVENKEEL_SHOW", shown.format(tmp_path))
    hidden = [
        (schedulers.from_source, tmp_path / "x.c"),
        (bench.read, tmp_path / "results.json"),
    ]
    for use, path in hidden:
        with pytest.raises(LabError) as caught:
            use(path)
        assert str(path) in str(caught.value)
        assert ("name its folder in EVENKEEL_SHOW" in str(caught.value)) == (not shown)
    for place in (tmp_path / "cache", kernels.TOP / "build"):
        with pytest.raises(LabError) as caught:
            bench.read(place / "absent.json")
        assert "EVENKEEL_SHOW" not in str(caught.value)
    monkeypatch.delenv("EVENKEEL_INSIDE")
    assert sight.hint(tmp_path) == ""


def test_any_exception_while_reading_figures_is_an_error_of_the_report() -> None:
    def figures(_: Output) -> list[Figure]:
        raise NameError("nope")

    with pytest.raises(LabError, match="report cannot be read: NameError"):
        runner.Result(
            runner.Job(replace(OK, figures=figures), "6.12", "none"), Output({}), 1.0, False
        ).figures()
