# SPDX-License-Identifier: Apache-2.0
"""ek-etc: which changes of the board in /etc a start keeps, on folders."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SOURCE = Path(__file__).resolve().parents[1] / "src/ek-etc.c"
FLAGS = (
    "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wmissing-prototypes",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("build") / "ek-etc"
    subprocess.run(["gcc", *FLAGS, "-o", out, SOURCE], check=True)
    return out


class Etc:
    """The folders of a board: the lists of the image and of the owner, UPPER, REMOVED, and the slot's /etc."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.program = program
        self.image, self.owner = folder / "keep.d", folder / "upper/evenkeel/keep.d"
        self.upper, self.removed, self.lower = folder / "upper", folder / "removed", folder / "lower"
        for made in (self.image, self.owner, self.lower):
            made.mkdir(parents=True)
        (self.image / "board").write_text("# what the board changes\n/etc/hostname\n/etc/evenkeel/keep.d/\n")

    def add(self, *paths: str) -> None:
        for path in paths:
            file = self.upper / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(path)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
        )

    def clean(self) -> list[str]:
        done = self.run("clean", self.upper, self.removed, self.lower, self.image, self.owner)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    def shown(self) -> list[str]:
        done = self.run("list", self.upper, self.image, self.owner)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()


@pytest.fixture
def etc(tmp_path: Path, program: Path) -> Etc:
    return Etc(tmp_path, program)


def files(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()
    )


def test_what_no_list_names_is_moved_away(etc: Etc) -> None:
    (etc.owner / "apps").write_text(
        "/etc/systemd/system/player.service  # an app\n/etc/systemd/system/*/player.service\n"
    )
    kept = [
        "hostname",
        "systemd/system/player.service",
        "systemd/system/multi-user.target.wants/player.service",
    ]
    lost = [
        "passwd",
        "systemd/system/planted.service",
        "systemd/system/multi-user.target.wants/planted.service",
    ]
    etc.add(*kept, *lost)
    assert etc.shown() == [
        f"kept /etc/evenkeel/keep.d/apps  ({etc.image}/board)",
        f"kept /etc/hostname  ({etc.image}/board)",
        "lost /etc/passwd",
        "lost /etc/systemd/system/multi-user.target.wants/planted.service",
        f"kept /etc/systemd/system/multi-user.target.wants/player.service  ({etc.owner}/apps)",
        "lost /etc/systemd/system/planted.service",
        f"kept /etc/systemd/system/player.service  ({etc.owner}/apps)",
    ]
    assert files(etc.upper) == sorted([*kept, *lost, "evenkeel/keep.d/apps"]), "list must change nothing"
    assert sorted(etc.clean()) == sorted(f"/etc/{path}" for path in lost)
    assert files(etc.upper) == sorted([*kept, "evenkeel/keep.d/apps"])
    assert files(etc.removed) == sorted(lost)
    assert (etc.removed / "passwd").read_text() == "passwd"
    assert etc.clean() == []


def test_folders_that_became_empty_go_too(etc: Etc) -> None:
    (etc.image / "network").write_text("/etc/systemd/network/10-*.network\n")
    etc.add("systemd/network/20-x.network")
    assert etc.clean() == ["/etc/systemd/network/20-x.network"]
    assert not (etc.upper / "systemd").exists()


def test_a_later_change_replaces_an_earlier_one_also_of_another_kind(etc: Etc) -> None:
    etc.add("a/b/c", "d")
    etc.clean()
    etc.add("a", "d/e")
    assert etc.clean() == ["/etc/a", "/etc/d"]
    assert files(etc.removed) == ["a", "d/e"]
    etc.add("a/b")
    assert etc.clean() == ["/etc/a"]
    assert files(etc.removed) == ["a/b", "d/e"]


def test_links_are_not_followed(etc: Etc, tmp_path: Path) -> None:
    """A link in place of a folder above a kept file would lead out of UPPER."""
    (etc.image / "x").write_text("/etc/x/kept\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "other").write_text("")
    (etc.upper / "x").symlink_to(outside)
    (etc.upper / "y").symlink_to(outside)
    assert etc.clean() == ["/etc/x", "/etc/y"]
    assert files(outside) == ["other"]
    assert (etc.removed / "y").is_symlink()
    (etc.removed / "z").symlink_to(outside)
    etc.add("z/kept/f")
    etc.clean()
    assert files(outside) == ["other"]


def test_a_folder_above_a_kept_file_has_the_mode_of_the_slot(etc: Etc) -> None:
    (etc.image / "x").write_text("/etc/x/y/kept\n")
    etc.add("x/y/kept")
    (etc.lower / "x").mkdir(mode=0o750)
    for folder in (etc.upper, etc.upper / "x", etc.upper / "x/y"):
        folder.chmod(0o777)
    (etc.upper / "x/y/kept").chmod(0o606)
    etc.lower.chmod(0o755)
    assert etc.clean() == []
    modes = [(etc.upper / path).stat().st_mode & 0o7777 for path in ("", "x", "x/y", "x/y/kept")]
    assert modes == [0o755, 0o750, 0o755, 0o606]


def test_what_a_power_cut_left_of_a_write_goes_without_a_message(etc: Etc) -> None:
    (etc.image / "x").write_text(
        "!/etc/.#*  # of systemd\n!/etc/*.new\n! /etc/a b\n!/etc/evenkeel/keep.d/x\n/etc/.#c/d\n"
    )
    etc.add(
        ".#hostname0123", "machine-id.new", "a.new/b", "hostname", "a b", "other", ".hidden", ".#c/d", ".#c/e"
    )
    assert etc.shown() == [
        f"kept /etc/.#c/d  ({etc.image}/x)",
        "lost /etc/.#c/e",
        f"left over /etc/.#hostname0123  ({etc.image}/x)",
        "lost /etc/.hidden",
        f"left over /etc/a b  ({etc.image}/x)",
        f"left over /etc/a.new/b  ({etc.image}/x)",
        f"kept /etc/hostname  ({etc.image}/board)",
        f"left over /etc/machine-id.new  ({etc.image}/x)",
        "lost /etc/other",
    ]
    assert etc.clean() == ["/etc/.#c/e", "/etc/.hidden", "/etc/other"]
    assert files(etc.upper) == [".#c/d", "hostname"]
    assert {".#hostname0123", "a b", "a.new/b", "machine-id.new"} < set(files(etc.removed))
    assert (etc.removed / "machine-id.new").read_text() == "machine-id.new"


def test_the_list_of_the_board_knows_what_a_power_cut_leaves(etc: Etc) -> None:
    """A cut at the first start left /etc/machine-id.new, and the board reported a problem at the next one."""
    data = SOURCE.parents[1] / "data/rootfs/usr/lib/evenkeel"
    temporary = set(re.findall(r"(?<!/data)/etc/([\w-]+\.new)\b", (data / "preinit").read_text()))
    assert "machine-id.new" in temporary
    etc.image = data / "keep.d"
    etc.add(*temporary, ".#hostname5cbd4d7a1e0f", ".#passwd5cbd4d7a1e0f", "machine-id")
    assert etc.clean() == []
    assert files(etc.upper) == ["machine-id"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes the marks of an overlay")
def test_marks_of_an_overlay_do_not_hide_what_the_slot_has(etc: Etc) -> None:
    try:
        os.mknod(etc.upper / "passwd", 0o020000, 0)
        (etc.upper / "systemd").mkdir()
        os.setxattr(etc.upper / "systemd", "trusted.overlay.opaque", b"y")
    except PermissionError:
        pytest.skip("this user namespace makes no marks of an overlay")
    (etc.image / "x").write_text("/etc/systemd/system/a\n")
    os.mknod(etc.upper / "hostname", 0o020000, 0)
    etc.add("systemd/system/a")
    assert "lost, deleted /etc/passwd" in etc.shown()
    assert f"kept, deleted /etc/hostname  ({etc.image}/board)" in etc.shown()
    assert etc.clean() == ["/etc/passwd"]
    assert files(etc.removed) == []
    assert os.listxattr(etc.upper / "systemd") == []
    assert files(etc.upper) == ["hostname", "systemd/system/a"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("hostname", "begins with /etc/"),
        ("/etc", "begins with /etc/"),
        ("/etc/", "begins with /etc/"),
        ("/usr/lib/x", "begins with /etc/"),
        ("/etc/../usr", "neither"),
        ("/etc//x", "neither"),
        ("/etc/x/.", "neither"),
        ("/etc/x/..", "neither"),
        ("!", "begins with /etc/"),
        ("!hostname", "begins with /etc/"),
    ],
)
def test_a_wrong_line_is_named_and_the_others_count(etc: Etc, line: str, complaint: str) -> None:
    (etc.owner / "mine").write_text(f"/etc/a\n{line}\n/etc/b\n")
    etc.add("a", "b", "c")
    done = etc.run("clean", etc.upper, etc.removed, etc.lower, etc.image, etc.owner)
    assert (done.returncode, done.stdout) == (0, "/etc/c\n")
    assert f"{etc.owner}/mine, line 2 is ignored: " in done.stderr
    assert complaint in done.stderr


def test_a_list_that_is_no_file_is_ignored(etc: Etc) -> None:
    (etc.owner / "folder").mkdir()
    (etc.owner / "link").symlink_to("/etc/hostname")
    os.mkfifo(etc.owner / "fifo")
    etc.add("a")
    done = etc.run("clean", etc.upper, etc.removed, etc.lower, etc.image, etc.owner, etc.owner / "missing")
    assert (done.returncode, done.stdout) == (0, "/etc/a\n")
    assert done.stderr.count("is ignored: it is no file that can be read") == 3


def test_a_list_of_the_image_that_cannot_be_read_stops_all(etc: Etc) -> None:
    """It might be the one that names the machine-id."""
    (etc.image / "agent").mkdir()
    etc.add("machine-id")
    done = etc.run("clean", etc.upper, etc.removed, etc.lower, etc.image, etc.owner)
    assert (done.returncode, done.stdout) == (1, "")
    assert "so nothing is changed" in done.stderr
    assert files(etc.upper) == ["machine-id"]


def test_a_file_in_place_of_the_folder_does_not_keep_a_change(etc: Etc) -> None:
    etc.add("planted")
    etc.removed.write_text("")
    assert etc.clean() == ["/etc/planted"]
    assert files(etc.removed) == ["planted"]


def test_without_the_lists_of_the_image_nothing_changes(etc: Etc) -> None:
    """Otherwise a damaged slot would take the machine-id from the board."""
    shutil.rmtree(etc.image)
    etc.add("machine-id")
    for _ in range(2):
        done = etc.run("clean", etc.upper, etc.removed, etc.lower, etc.image, etc.owner)
        assert (done.returncode, done.stdout) == (1, "")
        assert "so nothing is changed" in done.stderr
        etc.image.mkdir(exist_ok=True)
    assert files(etc.upper) == ["machine-id"]


def test_a_change_that_cannot_be_moved_is_named_and_the_others_move(etc: Etc) -> None:
    etc.add("a", "b")
    etc.removed.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "x", etc.removed], check=True)
    try:
        done = etc.run("clean", etc.upper, etc.removed, etc.lower, etc.image, etc.owner)
    finally:
        subprocess.run(["umount", etc.removed], check=True)
    assert done.returncode == 1
    assert "cannot move a: Invalid cross-device link" in done.stderr
    assert "cannot move b: Invalid cross-device link" in done.stderr
    assert files(etc.upper) == ["a", "b"]


@pytest.mark.parametrize(
    "arguments", [["clean"], ["list"], ["list", "x"], ["nonsense"], ["clean", "a", "b", "c"]]
)
def test_wrong_arguments_show_the_usage(etc: Etc, arguments: list[str]) -> None:
    done = etc.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ek-etc")


NAMES = st.sampled_from(["a", "b", "ab", "a b", "é"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "ab", "*", "a*", "[ab]", "é"]), min_size=1, max_size=3).map(
    "/".join
)


def matches(pattern: str, path: str) -> bool:
    """Whether PATTERN names PATH, or a folder that it is in."""
    wanted, found = pattern.split("/"), path.split("/")
    return len(found) >= len(wanted) and all(
        fnmatch.fnmatchcase(name, part) for part, name in zip(wanted, found, strict=False)
    )


@settings(deadline=None)
@given(paths=st.lists(PATHS, max_size=12, unique=True), patterns=st.lists(PATTERNS, max_size=4))
def test_a_file_stays_exactly_if_a_list_names_it(
    program: Path, paths: list[str], patterns: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        etc = Etc(Path(folder), program)
        (etc.image / "board").write_text("".join(f"/etc/{pattern}\n" for pattern in ["evenkeel", *patterns]))
        made = []
        for path in paths:
            if any(other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in made):
                continue  # it would be a file and a folder
            etc.add(path)
            made.append(path)
        kept = sorted(path for path in made if any(matches(pattern, path) for pattern in patterns))
        removed = etc.clean()
        assert files(etc.upper) == kept
        assert files(etc.removed) == sorted(set(made) - set(kept))
        assert all(
            any(line[5:] == path or path.startswith(f"{line[5:]}/") for line in removed)
            for path in set(made) - set(kept)
        )
        assert etc.clean() == []
