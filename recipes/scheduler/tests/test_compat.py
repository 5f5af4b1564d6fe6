# SPDX-License-Identifier: GPL-2.0-only
"""compat.h refuses an unsuitable kernel with the reason, and adapts to the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
GOOD = ("CONFIG_BLK_CGROUP=1", "CONFIG_64BIT=1")


def preprocess(tmp_path: Path, version: tuple[int, int], *options: str) -> tuple[int, str]:
    """Preprocess compat.h for a kernel with that version and options; its other headers are empty.

    Returns the exit status and the output: all macros, or the error.
    """
    headers = tmp_path / "linux"
    (headers / "sched").mkdir(parents=True)
    (headers / "version.h").write_text(
        "#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))\n"
        f"#define LINUX_VERSION_CODE KERNEL_VERSION({version[0]}, {version[1]}, 0)\n"
    )
    (headers / "hrtimer.h").touch()
    (headers / "sched/mm.h").touch()
    command = [
        "gcc",
        "-E",
        "-dM",
        "-I",
        str(tmp_path),
        *(f"-D{option}" for option in options),
        str(SOURCE / "blk/compat.h"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_weights_are_where_systemd_writes_them(tmp_path: Path) -> None:
    status, macros = preprocess(tmp_path, (6, 12), *GOOD)
    assert status == 0, macros
    assert '#define EK_WEIGHT_FILE "weight"' in macros


def test_on_a_kernel_with_iocost_weights_have_their_own_file(tmp_path: Path) -> None:
    status, macros = preprocess(tmp_path, (6, 12), *GOOD, "CONFIG_BLK_CGROUP_IOCOST=1")
    assert status == 0, macros
    assert '#define EK_WEIGHT_FILE "evenkeel.weight"' in macros


@pytest.mark.parametrize(
    ("version", "options", "reason"),
    [
        ((6, 11), GOOD, "needs Linux 6.12 or later"),
        ((6, 12), GOOD[1:], "needs CONFIG_BLK_CGROUP=y"),
        ((6, 12), GOOD[:1], "needs a 64-bit kernel"),
    ],
)
def test_an_unsuitable_kernel_is_refused(
    tmp_path: Path, version: tuple[int, int], options: tuple[str, ...], reason: str
) -> None:
    status, output = preprocess(tmp_path, version, *options)
    assert status != 0
    assert reason in output


@pytest.mark.parametrize(
    ("version", "given", "outlives"),
    [((6, 12), (), False), ((6, 15), (), False), ((6, 16), (), True), ((6, 14), ("EK_GIVEN_QUEUE",), True)],
)
def test_debugfs_files_may_outlive_the_elevator_on_newer_kernels(
    tmp_path: Path, version: tuple[int, int], given: tuple[str, ...], outlives: bool
) -> None:
    status, macros = preprocess(tmp_path, version, *GOOD, *given)
    assert status == 0, macros
    assert ("EK_DEBUGFS_OUTLIVES" in macros) == outlives


@pytest.mark.parametrize(
    ("text", "macros"),
    [
        # 6.12
        (
            "int (*init_sched)(struct request_queue *, struct elevator_type *);\n"
            "void (*exit_sched)(struct elevator_queue *);\n"
            "void (*depth_updated)(struct blk_mq_hw_ctx *);\n",
            set(),
        ),
        # 6.18.2
        (
            "int (*init_sched)(struct request_queue *, struct elevator_queue *);\n"
            "void (*depth_updated)(struct request_queue *);\n",
            {"EK_GIVEN_QUEUE", "EK_DEPTH_OF_QUEUE"},
        ),
        # 6.18.35, 7.3
        (
            "int (*init_sched)(struct request_queue *, struct elevator_queue *);\n"
            "void (*depth_updated)(struct request_queue *);\n"
            "void *(*alloc_sched_data)(struct request_queue *);\n",
            {"EK_GIVEN_QUEUE", "EK_DEPTH_OF_QUEUE", "EK_GIVEN_DATA"},
        ),
    ],
)
def test_kbuild_detects_the_elevator_interface(tmp_path: Path, text: str, macros: set[str]) -> None:
    (tmp_path / "block").mkdir()
    (tmp_path / "block/elevator.h").write_text(text)
    makefile = f"srctree := {tmp_path}\ninclude {SOURCE}/Kbuild\nall:\n\t@echo $(ccflags-y)\n"
    done = subprocess.run(
        ["make", "-s", "-f", "-", "all"], input=makefile, capture_output=True, text=True, check=True
    )
    assert {word.removeprefix("-D") for word in done.stdout.split() if word.startswith("-D")} == macros
