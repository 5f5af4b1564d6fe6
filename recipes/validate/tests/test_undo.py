# SPDX-License-Identifier: Apache-2.0
"""What a validation changes is undone: after kill -9, after a power cut at any moment, and if a part of it fails."""

import errno
import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fake_board as board
import pytest
from evenkeel_common import files
from evenkeel_validate import undo
from evenkeel_validate.errors import ValidateError

BOOT = "boot-1"


@dataclass
class Slices:
    """A fake systemd, which records its orders."""

    orders: list[tuple[str, str]] = field(default_factory=list)
    refuses: str = ""

    def _order(self, what: str, slice_name: str) -> None:
        if what == self.refuses:
            raise OSError("systemd does not answer")
        self.orders.append((what, slice_name))

    def stop(self, slice_name: str) -> None:
        self._order("stop", slice_name)

    def thaw(self, slice_name: str) -> None:
        self._order("thaw", slice_name)


@pytest.fixture
def sys_(tmp_path: Path) -> Path:
    return board.make_tree(tmp_path)


def queue(sys_: Path) -> Path:
    return sys_ / "block" / board.DISK / "queue"


def test_each_change_is_undone(tmp_path: Path, sys_: Path) -> None:
    before = board.values(sys_)
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    undo.set_scheduler(journal, queue(sys_), "bfq")
    # the kernel forgets the tunables, and sets the number of requests
    (queue(sys_) / "iosched/channels").write_text("1\n")
    (queue(sys_) / "nr_requests").write_text("256\n")
    undo.set_scheduler(journal, queue(sys_), "none")
    journal.folder(tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    journal.file(tmp_path / "folder/data")
    (tmp_path / "folder/data").write_bytes(b"x")
    slices = Slices()
    journal.slice("x.slice")
    journal.frozen("apps.slice")
    assert journal.restore(slices) == []
    after = board.values(sys_)
    # sysfs shows the active scheduler in brackets; the fake file has its name only
    assert after.pop("scheduler") == "evenkeel\n"
    assert before.pop("scheduler") == board.SCHEDULERS + "\n"
    assert after == before
    assert not (tmp_path / "folder").exists()
    # apps do not wait for the rest
    assert slices.orders == [("thaw", "apps.slice"), ("stop", "x.slice")]
    assert not (tmp_path / "undo.json").exists()
    assert journal.entries == []


def test_the_tunables_come_back_with_their_scheduler(tmp_path: Path, sys_: Path) -> None:
    """A promise measures each load alone without a scheduler. Then evenkeel must have the owner's tunables again."""
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    undo.set_scheduler(journal, queue(sys_), "none")
    (queue(sys_) / "iosched/channels").write_text("1\n")
    undo.set_scheduler(journal, queue(sys_), "evenkeel")
    assert (queue(sys_) / "iosched/channels").read_text() == "2\n"


def test_an_entry_is_on_the_medium_before_its_change(
    tmp_path: Path, sys_: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)

    def write(path: Path, value: str) -> None:
        entries = json.loads((tmp_path / "undo.json").read_text())["entries"]
        assert entries[-1]["path"] == str(path)
        assert entries[-1]["value"] == "128"

    monkeypatch.setattr(undo, "write_attribute", write)
    journal.set(queue(sys_) / "nr_requests", "64")


def test_a_change_is_not_made_if_its_entry_cannot_be_saved(
    tmp_path: Path, sys_: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)

    def full(path: str, content: bytes, mode: int = 0) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "replace", full)
    with pytest.raises(OSError, match="No space"):
        journal.set(queue(sys_) / "nr_requests", "64")
    assert (queue(sys_) / "nr_requests").read_text() == "128\n"


def test_the_first_recorded_value_is_the_one_to_restore(tmp_path: Path, sys_: Path) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    for value in ("64", "32"):
        journal.set(queue(sys_) / "nr_requests", value)
    assert len(journal.entries) == 1
    journal.restore(Slices())
    assert (queue(sys_) / "nr_requests").read_text() == "128\n"


def test_after_a_reboot_only_files_are_undone(tmp_path: Path, sys_: Path) -> None:
    """After a reboot, the same name may stand for another disk. The kernel has reset the attributes anyway."""
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    journal.set(queue(sys_) / "nr_requests", "64")
    journal.slice("x.slice")
    journal.frozen("apps.slice")
    journal.file(tmp_path / "data")
    (tmp_path / "data").write_bytes(b"x")
    slices = Slices()
    assert undo.restore(tmp_path / "undo.json", "boot-2", slices) == []
    assert (queue(sys_) / "nr_requests").read_text() == "64\n"
    assert not (tmp_path / "data").exists()
    assert slices.orders == []


def test_a_removed_device_is_no_failure(tmp_path: Path, sys_: Path) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    journal.set(queue(sys_) / "nr_requests", "64")
    (queue(sys_) / "nr_requests").unlink()
    assert journal.restore(Slices()) == []
    assert not (tmp_path / "undo.json").exists()


@pytest.mark.parametrize(("refuses", "name"), [("stop", "x.slice"), ("thaw", "apps.slice")])
def test_what_fails_is_reported_and_kept(tmp_path: Path, sys_: Path, refuses: str, name: str) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    journal.set(queue(sys_) / "nr_requests", "64")
    journal.slice("x.slice")
    journal.frozen("apps.slice")
    slices = Slices(refuses=refuses)
    assert journal.restore(slices) == [f"cannot restore {name}: systemd does not answer"]
    assert [e["path"] for e in undo.load(tmp_path / "undo.json")] == [name]
    assert len(slices.orders) == 1
    assert (queue(sys_) / "nr_requests").read_text() == "128\n"
    assert journal.restore(Slices()) == []


def test_tunables_wait_for_a_scheduler_that_could_not_be_restored(
    tmp_path: Path, sys_: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not there yet, as on a device that is gone. A later restore must find them."""
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    undo.set_scheduler(journal, queue(sys_), "bfq")
    tunable = next((queue(sys_) / "iosched").iterdir())
    old = tunable.read_text()
    tunable.unlink()
    write = undo.write_attribute

    def busy(path: Path, value: str) -> None:
        if path.name == "scheduler":
            raise OSError(errno.EBUSY, "busy")
        write(path, value)

    with monkeypatch.context() as patched:
        patched.setattr(undo, "write_attribute", busy)
        assert len(journal.restore(Slices())) >= 1
    tunable.write_text("7\n")
    assert undo.restore(tmp_path / "undo.json", BOOT, Slices()) == []
    assert tunable.read_text() == old


def test_a_file_of_somebody_else_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"mine")
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    for record in (journal.file, journal.folder):
        with pytest.raises(ValidateError, match="exists already"):
            record(tmp_path / "data")
    assert journal.restore(Slices()) == []
    assert (tmp_path / "data").read_bytes() == b"mine"


def test_a_folder_with_other_files_stays(tmp_path: Path) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    journal.folder(tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine").touch()
    assert journal.restore(Slices()) == []
    assert (tmp_path / "folder/mine").exists()


def test_a_folder_of_a_program_is_removed_with_its_content(tmp_path: Path) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    journal.folder(tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine").write_bytes(b"mine")
    journal.tree(tmp_path / "folder/recorder")
    assert journal.restore(Slices()) == []
    journal.folder(tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    journal.tree(tmp_path / "folder/recorder")
    (tmp_path / "folder/recorder/bench").mkdir(parents=True)
    (tmp_path / "folder/recorder/bench/00000000.seg").write_bytes(b"x")
    (tmp_path / "folder/recorder/link").symlink_to(tmp_path / "mine")
    assert journal.restore(Slices()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine"]


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    journal.file(tmp_path / "data")
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "data").symlink_to(tmp_path / "mine")
    assert journal.restore(Slices()) == []
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert (tmp_path / "data").is_symlink()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'{"version": 2, "entries": []}',
        b'{"version": 1, "entries": [{"kind": "command", "path": "a", "value": "", "boot": ""}]}',
    ],
)  # fmt: skip
def test_a_damaged_journal_is_reported_and_stays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "undo.json").write_bytes(content)
    with pytest.raises(ValidateError, match="Reboot the board"):
        undo.restore(tmp_path / "undo.json", BOOT, Slices())
    assert (tmp_path / "undo.json").read_bytes() == content


# ---- file systems that are not mounted


@pytest.fixture
def medium(tmp_path: Path) -> Iterator[Path]:
    """A mounted file system of its own. The test may unmount it."""
    folder = tmp_path / "medium"
    folder.mkdir()
    if call("mount", "-t", "tmpfs", "medium", str(folder)):
        pytest.skip("mount(8) needs root")
    yield folder
    call("umount", str(folder))


def call(*command: str) -> int:
    return subprocess.run(command, capture_output=True, check=False).returncode


def filled(journal: undo.Journal, folder: Path) -> None:
    """Files as a validation makes them in FOLDER."""
    journal.folder(folder / "folder")
    (folder / "folder").mkdir()
    journal.file(folder / "folder/data")
    (folder / "folder/data").write_bytes(b"x")
    journal.file(folder / "folder/never-made")


def test_files_on_an_unmounted_file_system_stay_in_the_journal(
    tmp_path: Path, sys_: Path, medium: Path
) -> None:
    """Everything else is restored. After the file system is mounted again, its files are removed, too."""
    path = tmp_path / "undo.json"
    journal = undo.Journal(path, BOOT)
    journal.set(queue(sys_) / "nr_requests", "64")
    journal.frozen("apps.slice")
    filled(journal, medium)
    # the same file system elsewhere, as on a medium that somebody has unmounted and mounts again later
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert call("mount", "--bind", str(medium), str(elsewhere)) == 0
    try:
        assert call("umount", str(medium)) == 0
        slices = Slices()
        failed = journal.restore(slices)
        assert [line.partition(":")[0] for line in failed] == [
            f"cannot remove {medium / 'folder' / name}" for name in ("never-made", "data")
        ] + [f"cannot remove {medium / 'folder'}"]
        assert "not mounted" in failed[0]
        assert "--forget" in failed[0]
        assert (queue(sys_) / "nr_requests").read_text() == "128\n"
        assert slices.orders == [("thaw", "apps.slice")]
        assert [e["kind"] for e in undo.load(path)] == ["folder", "file", "file"]
        # a reboot does not change that
        assert len(undo.restore(path, "boot-2", Slices())) == 3
        assert call("mount", "--bind", str(elsewhere), str(medium)) == 0
        assert undo.restore(path, "boot-2", Slices()) == []
        assert list(elsewhere.iterdir()) == []
        assert not path.exists()
    finally:
        call("umount", str(elsewhere))


def test_files_on_another_file_system_in_its_place_are_not_touched(tmp_path: Path, medium: Path) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    filled(journal, medium)
    assert call("umount", str(medium)) == 0
    assert call("mount", "-t", "tmpfs", "another", str(medium)) == 0
    (medium / "folder").mkdir()
    (medium / "folder/data").write_bytes(b"mine")
    assert len(journal.restore(Slices())) == 3
    assert (medium / "folder/data").read_bytes() == b"mine"


def test_a_lost_file_system_can_be_forgotten(tmp_path: Path, sys_: Path, medium: Path) -> None:
    """But nothing else that could not be restored."""
    path = tmp_path / "undo.json"
    journal = undo.Journal(path, BOOT)
    journal.slice("x.slice")
    filled(journal, medium)
    assert call("umount", str(medium)) == 0
    assert undo.restore(path, BOOT, Slices(refuses="stop"), forget=True) == [
        "cannot restore x.slice: systemd does not answer"
    ]
    assert [e["kind"] for e in undo.load(path)] == ["slice"]


def test_a_folder_that_cannot_be_removed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = undo.Journal(tmp_path / "undo.json", BOOT)
    journal.folder(tmp_path / "folder")
    (tmp_path / "folder").mkdir()

    def refused(self: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rmdir", refused)
        failed = journal.restore(Slices())
    assert failed == [f"cannot restore {tmp_path / 'folder'}: Read-only file system"]
    assert journal.restore(Slices()) == []
    assert not (tmp_path / "folder").exists()


# ---- power cuts


@dataclass
class Medium:
    """Records what the journal does to the file system, and knows what a power cut leaves of it.

    Names change in the order of the calls; those after the last flush of the folder may or may not be on the medium.
    The content of a file is safe once it is flushed; before, the file may be empty or have only a part.
    """

    root: Path
    operations: list[tuple[str, Any, Any]] = field(default_factory=list)
    descriptors: dict[int, str] = field(default_factory=dict)
    folders: set[int] = field(default_factory=set)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real_open, real_write, real_fsync = os.open, os.write, os.fsync
        real_replace, real_unlink = os.replace, os.unlink

        def open_(path: str, flags: int, mode: int = 0o777) -> int:
            fd = real_open(path, flags, mode)
            if Path(path).is_dir():
                self.folders.add(fd)
            elif flags & os.O_CREAT:
                self.folders.discard(fd)
                self.descriptors[fd] = f"{path}#{len(self.operations)}"
                self.operations.append(("create", str(path), self.descriptors[fd]))
            return fd

        def write(fd: int, content: bytes) -> int:
            done = real_write(fd, content)
            if fd in self.descriptors:
                self.operations.append(("write", self.descriptors[fd], bytes(content[:done])))
            return done

        def fsync(fd: int) -> None:
            real_fsync(fd)
            self.operations.append(
                ("flush folder", None, None) if fd in self.folders else ("flush", self.descriptors[fd], None)
            )

        def replace(a: str, b: str) -> None:
            real_replace(a, b)
            self.operations.append(("rename", str(a), str(b)))

        def unlink(path: str) -> None:
            real_unlink(path)
            self.operations.append(("unlink", str(path), None))

        def close(fd: int, real: Callable[[int], None] = os.close) -> None:
            self.descriptors.pop(fd, None)
            self.folders.discard(fd)
            real(fd)

        for name, function in {
            "open": open_, "write": write, "fsync": fsync, "replace": replace, "unlink": unlink, "close": close,
        }.items():  # fmt: skip
            monkeypatch.setattr(files.os, name, function)

    def created(self, path: Path) -> None:
        """A file that the validation creates without a flush. It may survive a power cut or not."""
        inode = f"{path}#{len(self.operations)}"
        self.operations.append(("create", str(path), inode))

    def states(self, count: int) -> Iterator[dict[str, bytes]]:
        """What the medium may have after a power cut behind the first COUNT operations: content by path."""
        done = self.operations[:count]
        names = [op for op in done if op[0] in ("create", "rename", "unlink")]
        flushed = max((i for i, op in enumerate(done) if op[0] == "flush folder"), default=-1)
        safe = sum(op[0] in ("create", "rename", "unlink") for op in done[: flushed + 1])
        full: dict[str, bytes] = {}
        kept: dict[str, bytes] = {}
        for op, a, b in done:
            if op == "create":
                full[b] = kept[b] = b""
            elif op == "write":
                full[a] += b
            elif op == "flush":
                kept[a] = full[a]
        for applied, content in itertools.product(range(safe, len(names) + 1), (kept, full)):
            tree: dict[str, str] = {}
            for op, a, b in names[:applied]:
                if op == "create":
                    tree[a] = b
                elif op == "rename":
                    tree[b] = tree.pop(a)
                else:
                    tree.pop(a, None)
            yield {path: content[inode] for path, inode in tree.items()}


def test_after_a_power_cut_at_any_moment_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every prefix of the operations on the medium, with each state that a power cut may leave."""
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "folder").mkdir(parents=True)
    medium = Medium(old)
    with monkeypatch.context() as patch:
        medium.install(patch)
        journal = undo.Journal(old / "undo.json", BOOT)
        journal.slice("x.slice")
        journal.frozen("apps.slice")
        for name in ("data", "movie"):
            journal.file(old / "folder" / name)
            (old / "folder" / name).write_bytes(b"")
            medium.created(old / "folder" / name)
        journal.restore(Slices())
    assert len(medium.operations) > 15
    seen = 0
    for count in range(len(medium.operations) + 1):
        for state in medium.states(count):
            for path in new.rglob("*") if new.exists() else ():
                if path.is_file():
                    path.unlink()
            for path, content in state.items():
                there = new / Path(path).relative_to(old)
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(content.replace(str(old).encode(), str(new).encode()))
            new.mkdir(exist_ok=True)
            slices = Slices()
            assert undo.restore(new / "undo.json", "boot-2", slices) == []
            # after a power cut, nothing is frozen
            assert slices.orders == []
            left = {p.name for p in new.rglob("*") if p.is_file()}
            assert left <= {"undo.json.new"}, (count, medium.operations[:count][-3:], left)
            seen += 1
    assert seen > 40
