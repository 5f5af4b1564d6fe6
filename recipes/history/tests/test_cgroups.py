# SPDX-License-Identifier: Apache-2.0
"""The cgroups that are found, and that unchanged folders are not listed again."""

import os
from pathlib import Path

import pytest
from evenkeel_history.cgroups import Tree
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ("a", "b", "a/c", "a/d", "a/c/e")


def _found(top: Path) -> dict[str, int]:
    return {str(path): path.stat().st_ino for path in (top, *top.rglob("*")) if path.is_dir()}


@settings(deadline=None)
@given(st.lists(st.sampled_from(NAMES), max_size=12))
def test_cgroups_that_appear_and_vanish(tmp_path_factory: pytest.TempPathFactory, changes: list[str]) -> None:
    top = tmp_path_factory.mktemp("cgroups")
    tree = Tree(str(top), 100)
    for name in changes:
        path = top / name
        if not path.exists():
            path.mkdir(parents=True)
        elif not any(path.iterdir()):
            path.rmdir()
        assert tree.find() == _found(top)


def test_a_folder_is_listed_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(path), scandir(path))[1])
    tree = Tree(str(tmp_path), 100)
    tree.find()
    assert len(listed) == 3
    tree.find()
    assert len(listed) == 3
    (tmp_path / "a/c").mkdir()
    assert str(tmp_path / "a/c") in tree.find()
    assert listed[3:] == [str(tmp_path / "a"), str(tmp_path / "a/c")]


def test_a_cgroup_in_the_place_of_another_one(tmp_path: Path) -> None:
    """The folder of a cgroup keeps its number of links then, and its time need not change."""
    (tmp_path / "old").mkdir()
    tree = Tree(str(tmp_path), 100)
    tree.find()
    status = tmp_path.stat()
    (tmp_path / "old").rmdir()
    (tmp_path / "new").mkdir()
    os.utime(tmp_path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert list(tree.find()) == [str(tmp_path)]
    assert tree.stale
    assert list(tree.find()) == [str(tmp_path), str(tmp_path / "new")]
    assert not tree.stale


def test_the_number_of_cgroups_is_limited(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    assert len(Tree(str(tmp_path), 3).find()) == 3
