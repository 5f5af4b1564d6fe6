# SPDX-License-Identifier: Apache-2.0
"""make creates the link build/toolroot, by which toolroot/enter finds the build root when a person calls it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
Make = Callable[..., str]


def _make(cache: Path, build: Path, *args: str) -> str:
    # Remove the variables that a make sets when it runs these tests.
    own = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    done = subprocess.run(
        ["make", "--no-print-directory", f"B={build}", *args], cwd=TOP, capture_output=True, text=True,
        env={**own, "EVENKEEL_CACHE": str(cache)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of a build root (here only its marker file) in a cache that another clone has filled."""
    cache = tmp_path_factory.mktemp("cache")
    found = Path(
        _make(cache, cache / "build", "--eval", "root: ; @echo $(EVENKEEL_TOOLROOT)", "root").strip()
    )
    assert found.parent == cache
    (found / "etc").mkdir(parents=True)
    (found / "etc/evenkeel-toolroot").touch()
    return found


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """The path of the build folder of a new clone. The folder does not exist yet."""
    return tmp_path / "build"


@pytest.fixture
def make(root: Path, build: Path) -> Make:
    return partial(_make, root.parent, build)


def test_the_build_root_of_another_clone_is_linked(make: Make, build: Path, root: Path) -> None:
    make("toolroot")
    assert (build / "toolroot").readlink() == root
    # The link is up to date, so a second make does not set it again.
    assert "ln " not in make("-n", "toolroot")


def test_a_link_to_an_earlier_build_root_is_renewed(
    make: Make, build: Path, root: Path, tmp_path: Path
) -> None:
    before = tmp_path / "toolroot-before"
    (before / "etc").mkdir(parents=True)
    (before / "etc/evenkeel-toolroot").touch()
    build.mkdir()
    (build / "toolroot").symlink_to(before)
    make("toolroot")
    assert (build / "toolroot").readlink() == root


@pytest.mark.parametrize("goal", ["module", "kernel KERNEL=5.10", "loads"])
def test_every_target_that_needs_the_build_root_leaves_the_link(
    make: Make, build: Path, root: Path, goal: str
) -> None:
    assert make("-n", *goal.split()).count(f"ln -sfnT {root} {build}/toolroot\n") == 1


def test_every_command_has_the_same_time_zone() -> None:
    """A kernel that is built east of Greenwich would otherwise have a file from before 1970, which its initramfs refuses."""
    done = subprocess.run(
        [TOP / "toolroot/enter", "date", "+%Z"],
        env={**os.environ, "TZ": "Asia/Tokyo"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "UTC\n"
