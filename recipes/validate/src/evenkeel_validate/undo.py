# SPDX-License-Identifier: Apache-2.0
"""What a validation has changed, on the medium before it changes it, so that anyone can undo it later.

The journal is a file with a list of entries. An entry is written, with fsync, before its change is made. So at each
moment every change in force has an entry. `restore` undoes the entries, the latest first, and then removes the journal.
Undoing an entry twice, or one whose change was never made, has no effect. So a restore may be killed and run again.

- value: the old value of a kernel attribute. A reboot resets attributes, and may give a device another name. So these
  entries count only in the boot in which they were written.
- file, folder: a file or folder that the validation creates. A folder that has other files stays. The value is the id of
  the file system (file_system()). The entry is undone only there: if the file system is unmounted, another one is in its place.
- tree: a folder that a program of the validation fills. It is removed with all its content, and so it must be in a folder
  that the validation has created.
- slice: a systemd slice whose units run the loads. The loads outlive a validation that was killed.
- frozen: a systemd slice whose units are paused. A reboot starts them, so the entry counts only in its boot.

An entry is done if the kernel has removed the attribute with its device. All other entries that fail stay in the journal, and
restore() reports them. Only the caller can know that an unmounted file system will not come back; then restore() forgets it.
"""

import contextlib
import errno
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from evenkeel_agent.health import active_scheduler
from evenkeel_common import files
from evenkeel_common.files import read_line, why

from .errors import ValidateError

VERSION = 1
# errors of an attribute whose device is gone
GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO)
# errors of rmdir() for a folder with files of somebody else, or for something else in its place
FOREIGN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
Kind = Literal["value", "file", "folder", "tree", "slice", "frozen"]
KINDS = get_args(Kind)


class Slices(Protocol):
    """What restoring orders of systemd. Both methods raise OSError, and accept a slice that does not need the order."""

    def stop(self, slice_name: str) -> None: ...
    def thaw(self, slice_name: str) -> None: ...


class Unmounted(OSError):
    """The file system of an entry is not mounted."""


def file_system(path: Path) -> str:
    """The id of the file system of PATH, or of its first parent that exists; "" if the kernel does not tell.

    ext4, XFS and btrfs derive it from their UUID, or from the device. So the id stays the same after a reboot, at least if the
    device keeps its number.
    """
    for folder in (path, *path.parents):
        with contextlib.suppress(OSError):
            return f"{os.statvfs(folder).f_fsid:x}"
    return ""


def _text(path: Path) -> str:
    """The value of an attribute, as it must be written back. queue/scheduler lists all schedulers."""
    line = read_line(str(path))
    return active_scheduler(line) if path.name == "scheduler" else line


class Journal:
    """The journal at PATH. One process writes it: the one that holds the lock of the state folder (lock.py)."""

    def __init__(self, path: Path, boot: str) -> None:
        self._path = path
        self._boot = boot
        self._entries: list[dict[str, str]] = []

    @property
    def path(self) -> Path:
        return self._path

    @property
    def entries(self) -> list[dict[str, str]]:
        return list(self._entries)

    def set(self, path: Path, value: str) -> None:
        """Write VALUE into the attribute PATH. Raises OSError, also if the kernel did not take the value."""
        self.note(path)
        write_attribute(path, value)

    def note(self, path: Path) -> None:
        """Record the present value of the attribute PATH. The first value that was recorded is the one to restore."""
        if self.old(path) is None:
            self._add("value", str(path), _text(path))

    def old(self, path: Path) -> str | None:
        """The recorded value of the attribute PATH, or None."""
        return next(
            (e["value"] for e in self._entries if (e["kind"], e["path"]) == ("value", str(path))), None
        )

    def file(self, path: Path) -> None:
        """Record that the file PATH will be created. Raises ValidateError if it exists: it is not ours."""
        if path.exists():
            raise ValidateError(f"{path} exists already; remove it, or choose another folder")
        self._add("file", str(path), file_system(path))

    def folder(self, path: Path) -> None:
        """Record that the folder PATH will be created. Raises ValidateError if it exists: it is not ours."""
        if path.exists():
            raise ValidateError(f"{path} exists already; remove it, or choose another folder")
        self._add("folder", str(path), file_system(path))

    def tree(self, path: Path) -> None:
        """Record that a program will create and fill the folder PATH, in a folder of the validation."""
        self._add("tree", str(path), file_system(path))

    def slice(self, name: str) -> None:
        """Record that units will run in the slice NAME."""
        self._add("slice", name)

    def frozen(self, name: str) -> None:
        """Record that the slice NAME will be frozen."""
        self._add("frozen", name)

    def _add(self, kind: Kind, path: str, value: str = "") -> None:
        added = [*self._entries, {"kind": kind, "path": path, "value": value, "boot": self._boot}]
        _save(self._path, added)
        self._entries = added

    def restore(self, slices: Slices) -> list[str]:
        """Undo all entries. Returns what failed, a line for each."""
        failed = restore(self._path, self._boot, slices)
        self._entries = load(self._path) if failed else []
        return failed


def set_scheduler(journal: Journal, queue: Path, name: str) -> None:
    """Choose the I/O scheduler NAME for the disk with the folder QUEUE. Raises OSError.

    The kernel forgets the tunables of the old scheduler, and sets nr_requests. So both are recorded before the
    scheduler: restore() undoes the latest entry first, and writes them after the old scheduler is back. If NAME is the
    scheduler of the beginning, its tunables get their old values at once.
    """
    scheduler = queue / "scheduler"
    if journal.old(scheduler) is None:
        iosched = queue / "iosched"
        for path in sorted(iosched.iterdir()) if iosched.is_dir() else ():
            if path.stat().st_mode & stat.S_IWUSR:
                journal.note(path)
        journal.note(queue / "nr_requests")
    journal.set(scheduler, name)
    if name == journal.old(scheduler):
        for entry in journal.entries:
            path = Path(entry["path"])
            if entry["kind"] == "value" and queue in path.parents and _text(path) != entry["value"]:
                write_attribute(path, entry["value"])


def recorded(path: Path, boot: str, attribute: Path) -> str:
    """The value of ATTRIBUTE that restore() would write; "" if the journal at PATH has none of this boot, or is damaged."""
    with contextlib.suppress(ValidateError):
        return next(
            (
                e["value"]
                for e in load(path)
                if (e["kind"], e["path"], e["boot"]) == ("value", str(attribute), boot)
            ),
            "",
        )
    return ""


def write_attribute(path: Path, value: str) -> None:
    """Write VALUE into the kernel attribute PATH. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, f"{value}\n".encode())
    finally:
        os.close(fd)


def _save(path: Path, entries: list[dict[str, str]]) -> None:
    content = json.dumps({"version": VERSION, "entries": entries}, indent=1).encode() + b"\n"
    files.replace(str(path), content)


def load(path: Path) -> list[dict[str, str]]:
    """The entries of the journal at PATH, the oldest first. Raises ValidateError if it is damaged."""
    try:
        content: Any = json.loads(path.read_bytes())
        entries: list[dict[str, str]] = content["entries"]
        if content["version"] != VERSION or not all(
            e["kind"] in KINDS and all(isinstance(e[k], str) for k in ("path", "value", "boot"))
            for e in entries
        ):  # fmt: skip
            raise ValueError("it has an unknown format")
    except FileNotFoundError:
        return []
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ValidateError(
            f"cannot read {path}: {error}. It says what a validation has changed. Reboot the board, which resets"
            f" the kernel's settings, delete the folder .ek-validate of the target, and then {path}"
        ) from error
    return entries


def restore(path: Path, boot: str, slices: Slices, *, forget: bool = False) -> list[str]:
    """Undo the entries of the journal at PATH, and remove it. Returns what failed, a line for each. Raises ValidateError.

    BOOT is the id of the present boot. FORGET: files on a file system that is not mounted are given up.
    """
    entries = load(path)
    kept: list[dict[str, str]] = []
    failed: list[str] = []
    # Apps go on first: what follows may wait for the device. Then loads are stopped, or they would write to a file that
    # was removed.
    order = ("frozen", "slice")
    latest_first = entries[::-1]
    latest_first.sort(key=lambda entry: order.index(entry["kind"]) if entry["kind"] in order else len(order))
    for entry in latest_first:
        try:
            _undo(entry, boot, slices)
        except Unmounted as error:
            if not forget:
                kept.append(entry)
                failed.append(str(error))
        except OSError as error:
            gone = error.errno in GONE if entry["kind"] == "value" else error.errno == errno.ENOENT
            if gone and not _waits(entry, kept):
                continue
            kept.append(entry)
            failed.append(f"cannot restore {entry['path']}: {why(error)}")
    if failed:
        _save(path, [e for e in entries if e in kept])
    elif path.exists():
        files.remove(str(path))
    return failed


def _waits(entry: dict[str, str], kept: list[dict[str, str]]) -> bool:
    """Whether the attribute of ENTRY belongs to a scheduler that could not be restored, so that it is not there yet."""
    scheduler = Path(entry["path"]).parent.with_name("scheduler")
    return entry["kind"] == "value" and any(Path(e["path"]) == scheduler for e in kept)


def _undo(entry: dict[str, str], boot: str, slices: Slices) -> None:
    """Undo ENTRY. Raises OSError."""
    path = Path(entry["path"])
    if entry["kind"] in ("file", "folder", "tree") and entry["value"] and file_system(path) != entry["value"]:
        raise Unmounted(
            f"cannot remove {path}: its file system is not mounted. Mount it first, or give --forget if you no longer have it"
        )
    match entry["kind"]:
        case "slice" if entry["boot"] == boot:
            slices.stop(entry["path"])
        case "frozen" if entry["boot"] == boot:
            slices.thaw(entry["path"])
        case "value" if entry["boot"] == boot and _text(path) != entry["value"]:
            write_attribute(path, entry["value"])
        case "file":
            # never a folder or a device, even if somebody has put one in its place
            if stat.S_ISREG(path.lstat().st_mode):
                files.remove(str(path))
        case "tree":
            # rmtree() does not follow links
            if stat.S_ISDIR(path.lstat().st_mode):
                shutil.rmtree(path)
        case "folder":
            try:
                path.rmdir()
            except OSError as error:
                if error.errno not in FOREIGN:
                    raise
