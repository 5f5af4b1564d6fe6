# SPDX-License-Identifier: Apache-2.0
"""preinit: its medium, the identity of a new board, and its preseed file.

The functions run in a folder; the boot tests run the whole.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
PROGRAM = TOP / "recipes/image/data/rootfs/usr/lib/evenkeel/preinit"
PRESEED_API = TOP / "recipes/agent/src/evenkeel_api/features/preseed.py"


def run(function: str, folder: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run FUNCTION of preinit, with /etc, /data, /run, /var, /bootstate and /usr/lib/evenkeel below FOLDER.

    Programs in PATH come before those of the system.
    """
    text = PROGRAM.read_text()
    found = [
        re.search(rf"^{name}\(\) \{{\n.*?^\}}$", text, re.MULTILINE | re.DOTALL)
        for name in (
            "link_partitions",
            "started_here",
            "fit_medium",
            "make_writable",
            "find_changes",
            "find_last",
            "fingerprint",
            "copy_changes",
            "add_users",
            "make_identity",
            "find_preseed",
        )
    ]
    preseed = re.search(r"^PRESEED=.*$", text, re.MULTILINE)
    functions = "\n".join(match[0] for match in (preseed, *found) if match)
    functions = re.sub(
        r"(?<![\w}])/(etc|data|run|var|bootstate|usr/lib/evenkeel/(?:migrations|fit-medium|make-empty))\b",
        lambda match: f"{folder}{match[0]}",
        functions,
    )
    fakes = "mount() { :; }; umount() { :; }; say() { :; }; find_partition() { echo /dev/$1; }"
    fakes += "; disk=/sys/devices/pci0/block/mmcblk0"
    if not (folder / "fakes").exists():
        fake(folder, "ek-etc", "")
    environment = {"PATH": f"{path}:{folder}/fakes:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-c", f"{fakes}\n{functions}\n{function}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def fake(folder: Path, name: str, text: str) -> None:
    """A program that all functions find."""
    file = folder / "fakes" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("evenkeel\n")
    return tmp_path / "etc"


def name(etc: Path) -> str:
    return (etc / "hostname").read_text()


def program(etc: Path, name: str, text: str) -> str:
    """The folder of a program NAME."""
    file = etc.parent / "bin" / name
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file.parent)


def test_a_new_board_has_a_name_of_its_own(etc: Path) -> None:
    names = set()
    for _ in range(3):
        done = run("make_identity", etc.parent)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"[0-9a-f]{32}\n", (etc / "machine-id").read_text())
        assert re.fullmatch(r"evenkeel-[0-9a-f]{6}\n", name(etc))
        names.add(name(etc))
    assert len(names) > 1
    assert {path.name for path in etc.iterdir()} == {"hostname", "machine-id"}


def test_the_name_follows_from_the_machine_id_by_a_hash(etc: Path) -> None:
    path = program(etc, "tr", "echo 0123456789abcdef0123456789abcdef")
    for _ in range(2):
        assert run("make_identity", etc.parent, path).returncode == 0
        assert name(etc) == "evenkeel-94df08\n"


@pytest.mark.parametrize("broken", ["tr", "sha256sum", "sync", "mv"])
def test_a_boot_that_was_cut_makes_no_machine_id(etc: Path, broken: str) -> None:
    """So the next boot makes both files again, and they belong together."""
    path = program(etc, broken, "exit 1")
    assert run("make_identity", etc.parent, path).returncode != 0
    assert not (etc / "machine-id").exists()
    assert run("make_identity", etc.parent).returncode == 0


def test_a_data_partition_that_takes_no_file_does_not_end_the_first_process(etc: Path, esp: Path) -> None:
    """preinit is process 1: if its shell ended, the kernel would panic."""
    (etc.parent / NEW).parent.mkdir(parents=True)
    (etc.parent / NEW).symlink_to("missing/file")
    done = run("make_identity && echo done || echo failed", etc.parent)
    assert (done.returncode, done.stdout) == (0, "failed\n")
    assert not (etc / "machine-id").exists()


@pytest.mark.parametrize("known", [False, True])
def test_a_board_with_a_machine_id_keeps_its_name(etc: Path, known: bool) -> None:
    """An update brings no new name either: people have bookmarks, and the name may be their own."""
    machine_id = "0123456789abcdef0123456789abcdef\n" if known else ""
    (etc / "machine-id").write_text(machine_id)
    (etc.parent / "run/evenkeel").mkdir(parents=True)
    done = run("make_writable", etc.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert (name(etc) == "evenkeel\n") == known
    assert ((etc / "machine-id").read_text() == machine_id) == known


@pytest.fixture
def esp(tmp_path: Path) -> Path:
    """The EFI system partition, where find_preseed() mounts it."""
    (tmp_path / "run/evenkeel/esp").mkdir(parents=True)
    return tmp_path / "run/evenkeel/esp"


WANTED = "run/systemd/system/multi-user.target.wants/evenkeel-preseed.service"
NEW = "var/lib/evenkeel-preseed/new"


def test_the_file_of_a_new_board_is_passed_on(etc: Path, esp: Path) -> None:
    folder = etc.parent
    (esp / "evenkeel.toml").write_text("name = 'a'\n" + "#" * 20000)
    limit = re.search(r"^MAX_BYTES = (\d+) \* 1024$", PRESEED_API.read_text(), re.MULTILINE)
    assert limit
    assert run("make_identity", folder).returncode == 0
    assert (folder / NEW).exists()
    for _ in range(2):  # also after a power cut
        done = run("find_preseed", folder)
        assert (done.returncode, done.stderr) == (0, "")
        unit = folder / WANTED
        assert str(unit.readlink()) == "/usr/lib/systemd/system/evenkeel-preseed.service"
        copy = folder / "run/evenkeel/preseed.toml"
        assert copy.read_text().startswith("name = 'a'\n")
        assert (copy.stat().st_size, copy.stat().st_mode & 0o777) == (int(limit[1]) * 1024 + 1, 0o600)
        assert (folder / "run/evenkeel/preseed-device").read_text() == "/dev/esp\n"
        assert not (folder / "run/evenkeel/preseed-message").exists()
        unit.unlink()


def test_a_board_that_has_booted_without_a_file_is_not_new(etc: Path, esp: Path) -> None:
    folder = etc.parent
    assert run("make_identity", folder).returncode == 0
    assert run("find_preseed", folder).returncode == 0
    assert not (folder / NEW).exists()
    (esp / "evenkeel.toml").write_text("name = 'a'\n")
    assert run("find_preseed", folder).returncode == 0
    assert not (folder / WANTED).is_symlink()
    assert not (folder / "run/evenkeel/preseed.toml").exists()
    assert (
        "is ignored, because this board is not new" in (folder / "run/evenkeel/preseed-message").read_text()
    )
    assert (esp / "evenkeel.toml").exists()


def test_a_board_whose_file_had_an_error_stays_new(etc: Path, esp: Path) -> None:
    """The owner may correct the file after any number of boots."""
    folder = etc.parent
    (esp / "evenkeel.toml.failed").write_text("name = 7\n")
    assert run("make_identity", folder).returncode == 0
    assert run("find_preseed", folder).returncode == 0
    assert (folder / NEW).exists()
    (esp / "evenkeel.toml.failed").rename(esp / "evenkeel.toml")
    assert run("find_preseed", folder).returncode == 0
    assert (folder / WANTED).is_symlink()


def test_a_file_that_cannot_be_read_is_not_applied(etc: Path, esp: Path) -> None:
    """Otherwise a part of it would be applied, and the whole file removed. The board stays new."""
    folder = etc.parent
    (esp / "evenkeel.toml").write_text("name = 'a'\n")
    path = program(etc, "head", 'echo "name = \'a"; exit 1')
    assert run("make_identity", folder).returncode == 0
    done = run("umount() { echo umount; }; find_preseed", folder, path)
    assert (done.returncode, done.stdout) == (0, "umount\n")
    assert (folder / NEW).exists()
    assert not (folder / WANTED).is_symlink()
    assert not (folder / "run/evenkeel/preseed.toml").exists()
    message = (folder / "run/evenkeel/preseed-message").read_text()
    assert message.startswith("evenkeel.toml on the EFI system partition cannot be read. Restart the board")


def test_a_partition_that_cannot_be_mounted_does_no_harm(etc: Path, esp: Path) -> None:
    """The board stays new: nobody knows whether there is a file."""
    folder = etc.parent
    assert run("make_identity", folder).returncode == 0
    for fake in ("mount() { return 1; }", "find_partition() { return 1; }"):
        assert run(f"{fake}; find_preseed", folder).returncode == 0
        assert (folder / NEW).exists()


def test_a_board_without_its_data_partition_takes_no_file() -> None:
    """It would lose the settings at the next boot."""
    assert "\nif mount_data; then\n\tfind_preseed\nelse\n" in PROGRAM.read_text()


@pytest.fixture
def board(etc: Path) -> Path:
    """A board with a machine-id, which has started once."""
    (etc / "machine-id").write_text("0" * 32 + "\n")
    (etc.parent / "run/evenkeel").mkdir(parents=True)
    start(etc.parent)
    return etc.parent


def start(board: Path, path: str = "") -> None:
    done = run("make_writable", board, path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_owners_users_are_added_if_a_list_of_them_is_kept(board: Path) -> None:
    ran = board / "ran"
    path = program(board / "etc", "systemd-sysusers", f"touch {ran}")
    (board / "etc/sysusers.d").mkdir()
    start(board, path)
    assert not ran.exists()
    (board / "etc/sysusers.d/mine.conf").touch()
    start(board, path)
    assert ran.exists()


def test_changes_that_no_list_names_are_removed_before_etc_is_mounted(board: Path) -> None:
    fake(board, "ek-etc", "echo /etc/x; echo ek-etc $* >&2")
    done = run("mount() { echo mount $*; }; say() { echo $*; }; make_writable", board)
    assert done.stdout.splitlines()[:1] == [
        f"no list names these, so they are now in {board}/data/etc/1/removed: /etc/x"
    ]
    assert f"upperdir={board}/data/etc/1/upper" in done.stdout.splitlines()[1]
    assert (board / "run/evenkeel/etc-removed").read_text() == "/etc/x\n"
    assert (board / "run/evenkeel/etc").readlink() == board / "data/etc/1"
    folders = [f"{board}/data/etc/1/upper", f"{board}/data/etc/1/removed", f"{board}/etc"]
    lists = ["/usr/lib/evenkeel/keep.d", f"{board}/etc/evenkeel/keep.d", f"{folders[0]}/evenkeel/keep.d"]
    called = (board / "run/evenkeel/etc-problems").read_text()
    assert called == f"ek-etc clean {' '.join([*folders, *lists])}\n"


class Versions:
    """A board whose slots have changes in /etc in several versions of their form."""

    def __init__(self, board: Path) -> None:
        self.board = board
        self.programs = board / "usr/lib/evenkeel/migrations"
        self.programs.mkdir(parents=True)
        (self.programs / "README").touch()
        self.upper(1).mkdir(exist_ok=True)

    def upper(self, version: int) -> Path:
        return self.board / f"data/etc/{version}/upper"

    def slot(self, version: int) -> None:
        """Start a slot with this version. Its programs add their number to the file `steps`."""
        for file in self.programs.glob("[0-9]*"):
            file.unlink()
        for number in range(2, version + 1):
            file = self.programs / str(number)
            file.write_text(f'#!/bin/sh\nset -eu\n[ ! -e "$1/fail{number}" ]\necho {number} >> "$1/steps"\n')
            file.chmod(0o755)
        start(self.board)
        assert (self.board / "data/etc/last").read_text() == f"{version}\n"
        assert (self.board / "run/evenkeel/etc").readlink() == self.upper(version).parent


@pytest.fixture
def versions(board: Path) -> Versions:
    return Versions(board)


def test_a_new_version_gets_the_changes_and_the_old_one_finds_its_own(versions: Versions) -> None:
    one, three = versions.upper(1), versions.upper(3)
    (one / "hostname").write_text("press-7")
    versions.slot(3)
    assert ((three / "hostname").read_text(), (three / "steps").read_text()) == ("press-7", "2\n3\n")
    (three / "hostname").write_text("press-8")
    versions.slot(3)  # it is not done again
    assert (three / "hostname").read_text() == "press-8"
    versions.slot(1)  # the roll-back
    assert (one / "hostname").read_text() == "press-7"
    assert not (one / "steps").exists()
    (one / "hostname").write_text("press-9")
    versions.slot(3)  # the next update takes what the board had at the end
    assert ((three / "hostname").read_text(), (three / "steps").read_text()) == ("press-9", "2\n3\n")


def test_a_visit_of_the_old_version_takes_nothing_from_the_new_one(versions: Versions) -> None:
    one, two = versions.upper(1), versions.upper(2)
    (one / "hostname").write_text("press-7")
    versions.slot(2)
    (two / "hostname").write_text("press-8")
    versions.slot(1)
    versions.slot(2)
    assert (two / "hostname").read_text() == "press-8"
    # after a change in the old version, its changes count, and those of the new one are put away
    versions.slot(1)
    (one / "hostname").write_text("press-9")
    versions.slot(2)
    assert (two / "hostname").read_text() == "press-9"
    assert (versions.board / "data/etc/2.before/upper/hostname").read_text() == "press-8"


def test_a_full_partition_does_not_take_the_changes_from_the_board(versions: Versions) -> None:
    """After a roll-back, only the note of the version cannot be written. The board must not start as a new one."""
    (versions.upper(1) / "hostname").write_text("press-7")
    versions.slot(2)
    for file in versions.programs.glob("[0-9]*"):
        file.unlink()
    path = program(versions.board / "etc", "sync", "exit 1")
    start(versions.board, path)
    assert (versions.board / "run/evenkeel/etc").readlink() == versions.board / "data/etc/1"


def test_an_older_version_that_was_never_there_gets_the_changes_as_they_are(versions: Versions) -> None:
    shutil.rmtree(versions.upper(1).parent)
    versions.upper(3).mkdir(parents=True)
    (versions.upper(3) / "hostname").write_text("press-7")
    (versions.board / "data/etc/last").write_text("3\n")
    versions.slot(2)
    assert (versions.upper(2) / "hostname").read_text() == "press-7"
    assert not (versions.upper(2) / "steps").exists()


@pytest.mark.parametrize("broken", ["cp", "mv", "sync", "mkdir"])
def test_an_interrupted_step_leaves_the_old_changes_and_is_done_again(
    versions: Versions, broken: str
) -> None:
    one, two = versions.upper(1), versions.upper(2)
    (one / "hostname").write_text("press-7")
    (two / "old").mkdir(parents=True)
    (versions.programs / "2").write_text("#!/bin/sh\ntrue\n")
    (versions.programs / "2").chmod(0o755)
    path = program(versions.board / "etc", broken, "exit 1")
    assert run("make_writable", versions.board, path).returncode != 0
    assert (versions.board / "data/etc/last").read_text() == "1\n"
    assert (one / "hostname").read_text() == "press-7"
    versions.slot(2)
    assert ((two / "hostname").read_text(), (two / "steps").read_text()) == ("press-7", "2\n")
    assert not (two / "old").exists()


def test_a_step_that_fails_is_the_reason_that_the_data_partition_is_not_used(versions: Versions) -> None:
    """The health check `data` then fails, and the board goes back to the old version."""
    (versions.upper(1) / "fail2").touch()
    (versions.programs / "2").write_text('#!/bin/sh\n[ ! -e "$1/fail2" ]\n')
    (versions.programs / "2").chmod(0o755)
    done = run("make_writable; echo $? $reason", versions.board)
    assert done.stdout == "1 cannot bring the changes of the configuration from version 1 to 2\n"
    assert not versions.upper(2).parent.exists()
    assert not (versions.board / "data/etc/2.new").exists()
    assert "reason=${reason:-cannot write to $device}" in PROGRAM.read_text()


def test_the_first_version_lists_the_units_of_the_owners_apps(etc: Path) -> None:
    board, old = etc.parent, etc.parent / "data/etc/upper"
    (board / "run/evenkeel").mkdir(parents=True)
    for path, text in {
        "etc/machine-id": "0" * 32,
        "data/etc/upper/hostname": "press-7",
        "data/etc/upper/evenkeel/apps.d/player.toml": 'title = "x"\nunit = "player.service" # unit = "y"\nweight = 1\n',
        "data/etc/upper/evenkeel/apps.d/other.toml": "unit = 'in-the-slot.service'\n",
        "data/etc/upper/evenkeel/apps.d/wrong.toml": 'unit = "../../../hostname"\n',
        "data/var/lib/evenkeel-apps/cam-1.toml": 'unit="cam@1.service"\n',
        "data/etc/upper/systemd/system/player.service": "[Service]\n",
        "data/etc/upper/systemd/system/cam@1.service": "[Service]\n",
        "data/etc/upper/systemd/system/planted.service": "[Service]\n",
        "data/etc/upper/systemd/network/10-mine.network": "[Match]\n",
    }.items():
        (board / path).parent.mkdir(parents=True, exist_ok=True)
        (board / path).write_text(text)
    programs = board / "usr/lib/evenkeel/migrations"
    programs.parent.mkdir(parents=True)
    programs.symlink_to(PROGRAM.parent / "migrations")
    start(board)
    new = board / "data/etc/1/upper"
    assert (new / "hostname").read_text() == (old / "hostname").read_text() == "press-7"
    lists = {file.name: file.read_text().split() for file in (new / "evenkeel/keep.d").iterdir()}
    assert lists.keys() == {"player", "cam-1", "other", "network"}
    wanted = {
        "player": ["player.service", "player.service.d", "*/player.service", "player.socket"],
        "cam-1": ["cam@1.service", "*/cam@1.service", "cam@.service"],
        "other": ["in-the-slot.service.d", "*/in-the-slot.service"],
    }
    for app, names in wanted.items():
        assert {f"/etc/systemd/system/{name}" for name in names} <= set(lists[app])
    assert lists["network"] == ["/etc/systemd/network"]
    assert not (old / "evenkeel/keep.d").exists()
    (new / "hostname").write_text("press-8")
    start(board)
    assert (new / "hostname").read_text() == "press-8"


@pytest.mark.parametrize("text", ["", "x\n", "7\n", "1 2\n"])
def test_a_damaged_note_of_the_last_version_does_no_harm(versions: Versions, text: str) -> None:
    (versions.upper(1) / "hostname").write_text("press-7")
    stale = versions.board / "data/etc/upper"  # version 0, from which the board came
    stale.mkdir()
    (stale / "hostname").write_text("press-0")
    (versions.board / "data/etc/last").write_text(text)
    versions.slot(1)
    assert (versions.upper(1) / "hostname").read_text() == "press-7"
    (versions.board / "data/etc/last").write_text(text)
    versions.slot(2)
    assert (versions.upper(2) / "hostname").read_text() == "press-7"


def test_what_version_0_has_changed_after_a_roll_back_is_not_lost(etc: Path) -> None:
    board = etc.parent
    for folder in ("data/etc/upper", "data/etc/work", "run/evenkeel"):
        (board / folder).mkdir(parents=True)
    (etc / "machine-id").write_text("0" * 32 + "\n")
    (board / "data/etc/upper/hostname").write_text("press-7")
    start(board)
    (board / "data/etc/work").mkdir()  # version 0 runs
    (board / "data/etc/upper/hostname").write_text("press-8")
    start(board)
    assert (board / "data/etc/1/upper/hostname").read_text() == "press-8"
    (board / "data/etc/1/upper/hostname").write_text("press-9")
    start(board)
    assert (board / "data/etc/1/upper/hostname").read_text() == "press-9"


def test_lists_of_users_that_the_last_boot_made_are_no_changes_of_the_owner(board: Path) -> None:
    upper = board / "data/etc/1/upper"
    path = program(
        board / "etc", "systemd-sysusers", f"touch {upper}/passwd {upper}/passwd- {upper}/.pwd.lock"
    )
    (board / "etc/sysusers.d").mkdir()
    (board / "etc/sysusers.d/mine.conf").touch()
    start(board, path)
    assert (upper / "passwd").exists()
    (board / "etc/sysusers.d/mine.conf").unlink()
    start(board, path)
    assert list(upper.iterdir()) == []


@pytest.fixture
def medium(tmp_path: Path) -> Path:
    """A folder in which fit-medium writes its arguments to the file called, and then does what the file answer says."""
    for folder in ("run/evenkeel", "usr/lib/evenkeel", "bootstate"):
        (tmp_path / folder).mkdir(parents=True)
    program = tmp_path / "usr/lib/evenkeel/fit-medium"
    program.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/called\n. {tmp_path}/answer\n')
    program.chmod(0o755)
    (tmp_path / "answer").touch()
    grubenv(tmp_path, "STARTED=2026-11-28-21-35-7")
    return tmp_path


def grubenv(medium: Path, *settings: str) -> None:
    file = medium / "bootstate/grubenv"
    subprocess.run(["grub-editenv", file, "create"], check=True)
    subprocess.run(["grub-editenv", file, "set", "ORDER=A B", *settings, "B_TRY=0"], check=True)


@pytest.mark.parametrize(
    ("time", "stored", "renewed"),
    [
        ("2026-11-28-21-35-7", ["STARTED=2026-11-28-21-35-7"], False),
        ("2026-11-28-21-35-8", ["STARTED=2026-11-28-21-35-7"], True),
        # GRUB has never started from this medium
        ("2026-11-28-21-35-7", [], True),
        # GRUB cannot write to its medium, and has never written to it
        ("", [], False),
        # the last try: nothing that could restart the board
        ("unchecked", ["STARTED=2026-11-28-21-35-7"], False),
    ],
)
def test_the_medium_of_the_slot_must_be_that_of_grub(
    medium: Path, time: str, stored: list[str], renewed: bool
) -> None:
    grubenv(medium, *stored)
    done = run(f"fit_medium '{time}'", medium)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    words = ["--renew"] if renewed else []
    words += ["/dev/mmcblk0", f"{medium}/usr/lib/evenkeel/make-empty"]
    assert (medium / "called").read_text().split() == words


def test_a_damaged_bootstate_does_not_restart_the_board(medium: Path) -> None:
    for fake in ("mount() { return 1; }", "find_partition() { return 1; }", f"rm {medium}/bootstate/grubenv"):
        assert run(f"{fake}; fit_medium 2026-11-28-21-35-8", medium).returncode == 0
        assert "--renew" not in (medium / "called").read_text()


@pytest.mark.parametrize("status", [0, 1, 3])
def test_the_board_starts_again_only_if_the_kernel_must_read_the_table_again(
    medium: Path, status: int
) -> None:
    (medium / "answer").write_text(f"echo new UUIDs\nexit {status}\n")
    done = run('reboot() { echo "reboot $*"; }; say() { echo "said $*"; }; fit_medium unchecked', medium)
    # If the restart fails, the first process ends, and the kernel restarts the board (panic=).
    assert (done.returncode, done.stderr) == (1 if status == 3 else 0, "")
    said, *restart = done.stdout.splitlines()
    assert said == "said new UUIDs"
    assert restart == (
        [
            "evenkeel: this medium has new partitions or UUIDs, so the board starts again",
            "reboot -f -f",
        ]
        if status == 3
        else []
    )


def test_only_a_grub_that_finds_its_own_slot_lets_the_uuids_change() -> None:
    """The GRUB of an older image names the UUIDs of the image: with other ones, the board would never start again."""
    text = PROGRAM.read_text()
    assert "\n*' evenkeel.started='*)\n\tstarted=${cmdline#*evenkeel.started=}\n\tfit_medium " in text
    assert len(re.findall(r"^\s*fit_medium ", text, re.MULTILINE)) == 1
    grub = (TOP / "recipes/image/data/grub.cfg").read_text()
    assert "root=PARTUUID=$uuid rauc.slot=$slot evenkeel.started=$started $order" in grub
    assert 'probe --set=uuid --part-uuid "($disk,$part)"' in grub


def test_a_factory_reset_waits_until_the_medium_is_the_right_one() -> None:
    """If the kernel has taken the slot of a copy, a reset would erase the data of the copy."""
    text = PROGRAM.read_text()
    assert text.index('\tfit_medium "${started%% *}"') < text.index("evenkeel/factory-reset ")


def test_systemd_extends_a_file_system_whose_partition_has_grown(medium: Path) -> None:
    wants = medium / "run/systemd/system/local-fs.target.wants"
    (medium / "answer").write_text("echo new UUIDs; echo grow recorder; echo grow data\n")
    done = run("fit_medium unchecked", medium)
    assert (done.returncode, done.stderr) == (0, "")
    assert {file.name: str(file.readlink()) for file in wants.iterdir()} == {
        f"systemd-growfs@{name}.service": "/usr/lib/systemd/system/systemd-growfs@.service"
        for name in ("data", "recorder")
    }


def test_links_lead_to_the_partitions_of_this_disk(medium: Path) -> None:
    rules = medium / "run/udev/rules.d/61-evenkeel-medium.rules"
    done = run("link_partitions", medium)
    assert (done.returncode, done.stderr) == (0, "")
    assert rules.read_text() == (
        'SUBSYSTEM=="block", KERNELS=="mmcblk0", ENV{PARTNAME}=="?*", SYMLINK+="disk/evenkeel/$env{PARTNAME}"\n'
    )
    check = subprocess.run(["udevadm", "verify", rules], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr


def test_fstab_and_rauc_use_the_links() -> None:
    for file in ("conf/fstab", "recipes/update/data/system.conf.in"):
        text = (TOP / file).read_text()
        assert (
            re.findall(r"^(?:device=)?(?:PARTLABEL|PARTUUID|LABEL|UUID|/dev/disk/by-)", text, re.MULTILINE)
            == []
        )
        assert "/dev/disk/evenkeel/" in text
