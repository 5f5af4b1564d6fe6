# SPDX-License-Identifier: GPL-2.0-only
"""What compat.h makes of a kernel: refused with the reason, or where its weights are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
GOOD = ("CONFIG_BLK_CGROUP=1", "CONFIG_64BIT=1")


def preprocess(tmp_path: Path, version: tuple[int, int], *options: str) -> tuple[int, str]:
    """Status and macros of compat.h on a kernel of that version and options, whose other headers are empty."""
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
        str(SOURCE / "compat.h"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_weights_are_where_systemd_writes_them(tmp_path: Path) -> None:
    status, macros = preprocess(tmp_path, (6, 12), *GOOD)
    assert status == 0, macros
    assert '#define EK_WEIGHT_FILE "weight"' in macros


def test_beside_iocost_weights_have_a_file_of_their_own(tmp_path: Path) -> None:
    status, macros = preprocess(tmp_path, (6, 12), *GOOD, "CONFIG_BLK_CGROUP_IOCOST=1")
    assert status == 0, macros
    assert '#define EK_WEIGHT_FILE "evenkeel.weight"' in macros


@pytest.mark.parametrize(
    ("version", "options", "says"),
    [
        ((6, 11), GOOD, "needs Linux 6.12 or later"),
        ((6, 12), GOOD[1:], "needs CONFIG_BLK_CGROUP=y"),
        ((6, 12), GOOD[:1], "needs a 64-bit kernel"),
    ],
)
def test_a_kernel_that_will_not_do_is_refused(
    tmp_path: Path, version: tuple[int, int], options: tuple[str, ...], says: str
) -> None:
    status, said = preprocess(tmp_path, version, *options)
    assert status != 0
    assert says in said


@pytest.mark.parametrize(
    ("version", "given", "outlives"),
    [((6, 12), (), False), ((6, 15), (), False), ((6, 16), (), True), ((6, 14), ("EK_GIVEN_QUEUE",), True)],
)
def test_a_reader_of_debugfs_takes_the_lock_where_the_files_outlive_the_elevator(
    tmp_path: Path, version: tuple[int, int], given: tuple[str, ...], outlives: bool
) -> None:
    status, macros = preprocess(tmp_path, version, *GOOD, *given)
    assert status == 0, macros
    assert ("EK_DEBUGFS_OUTLIVES" in macros) == outlives


@pytest.mark.parametrize(
    ("text", "asks"),
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
def test_kbuild_sees_what_a_kernel_asks(tmp_path: Path, text: str, asks: set[str]) -> None:
    (tmp_path / "block").mkdir()
    (tmp_path / "block/elevator.h").write_text(text)
    makefile = f"srctree := {tmp_path}\ninclude {SOURCE}/Kbuild\nall:\n\t@echo $(ccflags-y)\n"
    done = subprocess.run(
        ["make", "-s", "-f", "-", "all"], input=makefile, capture_output=True, text=True, check=True
    )
    assert {word.removeprefix("-D") for word in done.stdout.split() if word.startswith("-D")} == asks
