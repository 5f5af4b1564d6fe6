# SPDX-License-Identifier: Apache-2.0
"""Saved settings survive damaged files, power cuts and full disks."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from disks import fill_up, small_disk
from evenkeel_agent import weight
from evenkeel_agent.store import Store, StoreError
from hypothesis import given
from hypothesis import strategies as st

COMPONENT = Path(__file__).resolve().parent.parent


def store_of(directory: Path) -> Store:
    """A store as the agent creates it for weights."""
    return Store(str(directory), "weight", weight.problem)


def test_weights_are_saved(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    assert (store.get("a"), store.problem) == (None, None)
    store.save("a", 7)
    store.save("gone-app", 8)
    again = store_of(tmp_path)
    assert (again.get("a"), again.get("gone-app"), again.problem) == (7, 8, None)
    assert [path.name for path in tmp_path.iterdir()] == ["weights.json"]
    assert (tmp_path / "weights.json").stat().st_mode & 0o777 == 0o600


def test_a_removed_weight_is_gone(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.save("a", 7)
    store.save("b", 8)
    store.save("a", None)
    store.save("never", None)
    assert (store.get("a"), store_of(tmp_path).get("a"), store_of(tmp_path).get("b")) == (None, None, 8)
    assert json.loads((tmp_path / "weights.json").read_text()) == {"b": 8}


def test_each_noun_has_its_own_file_and_messages(tmp_path: Path) -> None:
    (tmp_path / "fixed-shares.json").write_text("{")
    store = Store(str(tmp_path), "fixed-share", weight.problem)
    assert str(store.problem).startswith("the saved fixed shares were damaged (")
    assert str(store.problem).endswith(
        "fixed-shares.json.corrupt; no app has a fixed share; set the fixed shares again"
    )
    assert store_of(tmp_path).problem is None
    with pytest.raises(StoreError, match="the fixed share cannot be saved in"):
        Store(str(tmp_path / "none"), "fixed-share", weight.problem).save("a", 5)


def test_an_unchanged_weight_costs_no_write(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.save("a", 7)
    before = (tmp_path / "weights.json").stat().st_ino
    store.save("a", 7)
    assert (tmp_path / "weights.json").stat().st_ino == before


DAMAGE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"a": 0}',
    b'{"a": 10001}',
    b'{"a": true}',
    b'{"a": 1.0}',
    b'{"a": "1"}',
    b'{"../a": 1}',
    b"\xff",
    b'{"a": 1',
    b'{"a": NaN}',
    b"[" * 100000,
    b'{"a": ' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("content", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_file_is_renamed_and_reported(tmp_path: Path, content: bytes) -> None:
    path, corrupt = tmp_path / "weights.json", tmp_path / "weights.json.corrupt"
    path.write_bytes(content)
    store = store_of(tmp_path)
    assert store.get("a") is None
    assert "damaged" in str(store.problem)
    assert "\n" not in str(store.problem)
    assert corrupt.read_bytes() == content
    assert not path.exists()
    assert "damaged" in str(store_of(tmp_path).problem), "a restart must not hide the problem"
    store.save("a", 5)
    assert store.problem is None
    assert store_of(tmp_path).get("a") == 5
    assert store_of(tmp_path).problem is None
    assert corrupt.read_bytes() == content


@given(st.one_of(st.binary(max_size=60), st.text(alphabet='{}[]":,a19.-etru ', max_size=40).map(str.encode)))
def test_any_file_is_read_or_renamed(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "weights.json")
        path.write_bytes(content)
        store = store_of(Path(directory))
        assert bool(store.problem) != path.exists()


def test_an_unreadable_file_is_reported_and_not_renamed(tmp_path: Path) -> None:
    (tmp_path / "weights.json").mkdir()
    store = store_of(tmp_path)
    assert "not a regular file" in str(store.problem)
    with pytest.raises(StoreError, match="Is a directory"):
        store.save("a", 5)
    assert store.get("a") is None
    assert not (tmp_path / "weights.json.new").exists()


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        store_of(tmp_path / "none").save("a", 5)


def test_the_store_does_not_follow_a_planted_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("keep")
    (tmp_path / "weights.json.new").symlink_to("victim")
    with pytest.raises(StoreError):
        store_of(tmp_path).save("a", 5)
    assert (tmp_path / "victim").read_text() == "keep"


WRITER = """
import sys
from evenkeel_agent import weight
from evenkeel_agent.store import Store
store = Store(sys.argv[1], "weight", weight.problem)
for n in range(1, 10001):
    for app in ("a", "b", "c"):
        store.save(app, n)
    print(n, flush=True)
"""


def test_kill_at_any_moment_leaves_a_complete_set(tmp_path: Path) -> None:
    chance = random.Random(5)  # noqa: S311  chooses when to kill
    for _ in range(12):
        (tmp_path / "weights.json").unlink(missing_ok=True)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(COMPONENT / "src")},
        )
        assert writer.stdout
        printed = int(writer.stdout.readline())
        time.sleep(chance.random() * 0.05)
        writer.send_signal(signal.SIGKILL)
        printed = max([printed, *map(int, writer.stdout.read().split())])
        writer.wait()
        weights = json.loads((tmp_path / "weights.json").read_text())
        store = store_of(tmp_path)
        assert store.problem is None
        assert weights["a"] >= weights["b"] >= weights["c"] >= weights["a"] - 1
        assert weights["c"] >= printed, "a weight is on disk when save() returns"


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "8k"):
        store = store_of(disk)
        store.save("a", 5)
        filler = fill_up(disk)
        with pytest.raises(StoreError, match="No space left on device"):
            store.save("a", 6)
        assert store.get("a") == 5
        assert store_of(disk).get("a") == 5
        assert not (disk / "weights.json.new").exists()
        filler.unlink()
        store.save("a", 6)
        assert store_of(disk).get("a") == 6
