# SPDX-License-Identifier: Apache-2.0
"""The cache of expensive results: its names depend on content, several clones build a result once, and its removal."""

from __future__ import annotations

import fcntl
import subprocess
import time
from pathlib import Path

import pytest
from project import TOP, clean_environment


def content_hash(tmp_path: Path, content: str, text: str = "") -> str:
    (tmp_path / "input").write_text(content)
    return subprocess.run(
        [TOP / "mk/hash", text, tmp_path / "input"], capture_output=True, text=True, check=True
    ).stdout


def test_a_comment_changes_no_name(tmp_path: Path) -> None:
    plain = content_hash(tmp_path, "CONFIG_A=y\n")
    assert content_hash(tmp_path, "# why\n\n  # and how\nCONFIG_A=y\n") == plain
    assert len(plain) == 13


@pytest.mark.parametrize("change", ["CONFIG_A=m\n", "CONFIG_A=y\n# CONFIG_B is not set\n", ""])
def test_a_change_of_content_changes_the_name(tmp_path: Path, change: str) -> None:
    assert content_hash(tmp_path, change) != content_hash(tmp_path, "CONFIG_A=y\n")
    assert content_hash(tmp_path, change, "more") != content_hash(tmp_path, change)


def test_two_clones_build_a_result_once(tmp_path: Path) -> None:
    result = tmp_path / "cache/kernel-x"
    build = ["sh", "-c", f"echo built >> {tmp_path}/log; sleep 1; touch {result}"]
    both = [
        subprocess.Popen([TOP / "mk/once", result, *build], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=20)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert (tmp_path / "log").read_text() == "built\n"
    assert sum("another build is making kernel-x; waiting for it" in error for error in errors) == 1


def test_a_failed_build_leaves_the_next_one_its_turn(tmp_path: Path) -> None:
    result = tmp_path / "kernel-x"
    assert subprocess.run([TOP / "mk/once", result, "false"], check=False).returncode == 1
    assert subprocess.run([TOP / "mk/once", result, "touch", result], check=False).returncode == 0
    assert result.exists()


def test_what_a_build_leaves_running_does_not_keep_the_lock(tmp_path: Path) -> None:
    result = tmp_path / "x"
    subprocess.run(
        [TOP / "mk/once", result, "sh", "-c", "sleep 20 > /dev/null 2>&1 & true"], check=True, timeout=10
    )
    began = time.monotonic()
    subprocess.run([TOP / "mk/once", result, "touch", result], check=True, timeout=10)
    assert time.monotonic() - began < 5


def clean(cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TOP / "mk/clean-cache", cache], capture_output=True, text=True, check=False)


def test_the_cache_is_removed(tmp_path: Path) -> None:
    cache = tmp_path / "evenkeel"
    for name in ("toolroot-1/etc", "kernel-board-6.12-1", "lab"):
        (cache / name).mkdir(parents=True)
    assert clean(cache).returncode == 0
    assert not cache.exists()
    assert clean(cache).returncode == 0


@pytest.mark.parametrize("entries", [("letters", "toolroot-1"), ("yocto", "lab")])
def test_a_folder_that_is_no_cache_is_not_removed(tmp_path: Path, entries: tuple[str, str]) -> None:
    """The folder has an entry that no cache has, or it has no build root."""
    for name in entries:
        (tmp_path / name).mkdir()
    out = clean(tmp_path)
    assert out.returncode == 1
    assert "may be a wrong folder" in out.stderr
    assert "nothing was removed" in out.stderr
    assert all((tmp_path / name).exists() for name in entries)


def test_a_cache_behind_a_link_is_removed(tmp_path: Path) -> None:
    (tmp_path / "real/toolroot-1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert clean(tmp_path / "link").returncode == 0
    assert not (tmp_path / "real").exists()


def test_a_build_root_in_use_is_not_removed(tmp_path: Path) -> None:
    marker = tmp_path / "evenkeel/toolroot-1/etc/evenkeel-toolroot"
    marker.parent.mkdir(parents=True)
    marker.touch()
    with marker.open() as held:
        # toolroot/enter holds this lock while a command runs.
        fcntl.flock(held, fcntl.LOCK_SH)
        out = clean(tmp_path / "evenkeel")
    assert out.returncode == 1
    assert "a build or a test uses" in out.stderr
    assert marker.exists()


def test_a_cache_that_is_being_filled_is_not_removed(tmp_path: Path) -> None:
    cache = tmp_path / "evenkeel"
    (cache / "toolroot-1").mkdir(parents=True)
    result = cache / "kernel-x"
    with subprocess.Popen([TOP / "mk/once", result, "sleep", "20"]) as building:
        deadline = time.monotonic() + 10
        while not (cache / "kernel-x.lock").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.2)
        out = clean(cache)
        building.terminate()
    assert out.returncode == 1
    assert f"a build or a test uses {result}; nothing was removed" in out.stderr
    assert cache.exists()


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({"EVENKEEL_CACHE": "/somewhere/else"}, "/somewhere/else"),
        ({"XDG_CACHE_HOME": "/xdg", "EVENKEEL_CACHE": ""}, "/xdg/evenkeel"),
        ({"XDG_CACHE_HOME": "", "EVENKEEL_CACHE": "", "HOME": "/home/me"}, "/home/me/.cache/evenkeel"),
    ],
)
def test_where_the_cache_is(environment: dict[str, str], where: str) -> None:
    done = subprocess.run(
        ["make", "-s", "--eval", "show: ; @echo $(EVENKEEL_CACHE)", "show"],
        cwd=TOP, env=clean_environment(**environment), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == where


@pytest.mark.parametrize(("path", "complaint"), [("/a b", "spaces"), ("/a:b", "colons")])
def test_a_path_that_make_cannot_handle_is_named(path: str, complaint: str) -> None:
    done = subprocess.run(
        ["make", "help"], cwd=TOP, env=clean_environment(EVENKEEL_CACHE=path), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert complaint in done.stderr
    assert path in done.stderr
